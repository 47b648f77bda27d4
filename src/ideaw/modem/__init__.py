"""Bits to tiles and back: keyed spread spectrum, error correction, the locating code. Numpy only."""
