"""The benchmark: presets, runners and tables; every number that is published comes from here."""
