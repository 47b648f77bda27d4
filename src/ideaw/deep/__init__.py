"""The deep layer: a slow mark in the loudness of mel bands, which survives resynthesis; numpy, no network."""
