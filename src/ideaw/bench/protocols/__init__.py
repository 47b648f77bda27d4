"""Public benchmark protocols: presets of attacks or threats, run on any system, with intervals for every score."""
