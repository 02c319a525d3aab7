"""What the exercises' checks say: one file a notebook, and `feedback`, which they share.

A check takes an answer and says in one sentence what is wrong with it, or prints that it is right.
It asks the library for what is right, so that no solution stands here. This folder is copied
beside the students' notebooks, which import it: `from checks import finetune`.
"""
