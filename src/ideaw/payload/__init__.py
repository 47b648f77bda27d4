"""Payloads: text, bytes or bits as the bits of one second or of several, and back. Nothing acoustic."""
