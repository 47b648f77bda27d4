"""A catalogue of any size searched or marked as one job, which any kill leaves whole: `ideaw scan`, `ideaw mark`.

Needs the extra `cluster`. A job is a folder: a frozen manifest, what is done with it, and one part for each shard.
"""
