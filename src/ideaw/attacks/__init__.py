"""Attacks, what happens to audio on its way: functions of arrays, a catalogue by name, and batches to train against."""
