"""Labelled texts: made here, in pinned wheels, on the disk."""
