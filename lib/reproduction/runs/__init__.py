"""Which models a preset finetunes, and how one way is held against another.

`table` lists all runs of a preset, `runs` makes one (`one_run`: on which images; `search`: at which
rates), `outcomes` says what they came to, `price` what a step costs.
`in_words` has the tables for a reader.
"""

from reproduction.runs import in_words, one_run, outcomes, price, runs, table
