"""What the exercises' checks say: one file a notebook, and `feedback`, which they share.

A check takes an answer and says in one sentence what is wrong with it, or prints that it is right.
No sentence gives the solution away. But a check computes what is right, with the library or by
itself, so whoever reads it finds most of a solution: checks are for learning, not for exams. This
folder is copied beside the students' notebooks, which import it: `from checks import finetune`.
"""
