"""Proof of origin: a registry of ids, and fingerprints that bind a mark to the recording it was given to."""
