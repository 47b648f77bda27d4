"""Bits to tiles and back: keyed spread spectrum, forward error correction, locating code. Numpy only."""
