"""Proof of origin: the registry on real databases, fingerprints on real audio."""
