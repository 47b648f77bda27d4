"""What nobody should send, sent: files broken in every way, and a process killed at any moment."""
