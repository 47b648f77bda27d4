"""The tables of the paper and of the README: segments, files, levels, quality, locating, false alarms."""
