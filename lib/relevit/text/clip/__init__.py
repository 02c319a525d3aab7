"""Image and text with one similarity: dual encoders of CLIP's kind, their captions and tests."""
