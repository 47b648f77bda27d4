"""The shipped network on ONNX Runtime: the paper's segments, and whole signals in one pass. No torch."""
