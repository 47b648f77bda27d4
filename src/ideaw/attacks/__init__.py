"""What the world does to audio: as functions of arrays, as rows of a catalogue, and as batches to train against."""
