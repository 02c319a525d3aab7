"""What a model answers and where it looks: the papers' tests, each a module, and their tables."""
