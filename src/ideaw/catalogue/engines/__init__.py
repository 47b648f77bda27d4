"""Processes that do the shards of a job: on this machine (`local`), or on many (`on_ray`)."""
