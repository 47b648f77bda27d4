"""What a mark says: text, bytes or bits as the bits of one second and back, and the code that locates it."""
