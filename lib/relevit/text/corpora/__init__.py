"""Labelled texts: made here, in pinned wheels, on the disk; `reading` has those of 11_text."""
