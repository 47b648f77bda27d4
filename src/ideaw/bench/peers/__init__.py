"""Other systems beside ours: each in an environment and a process of its own, asked line by line."""
