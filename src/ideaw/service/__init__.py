"""The engine over HTTP, and a page in front of it: what `ideaw serve` runs.

Requests are judged at the door (`door`), uploads are streamed into a private folder (`folder`, `uploads`), the work is
done in processes that may be killed (`pool`, `worker`, `jobs`), and answers leave no file behind (`answers`).
"""
