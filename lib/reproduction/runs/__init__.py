"""Which models a preset finetunes, and how one way is held against another.

`table` lists all runs of a preset, `runs` makes one and reads it, `outcomes` says what they came
to. `in_words` has the tables for a reader.
"""

from reproduction.runs import in_words, outcomes, runs, table
