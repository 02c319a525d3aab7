"""Labelled texts: made here, in pinned wheels, on the disk; `reading` has those of 09_text.

It may import what `relevit.text` may, and `relevit.text` itself.
"""
