"""Containers as bytes: everything of a source but its samples, around samples that were coded anew."""
