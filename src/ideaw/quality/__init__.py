"""How good a mark is: how far marked audio is from its host, and how much of a message is read."""
