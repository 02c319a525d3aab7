"""Which models a preset finetunes, and how one way is held against another."""

from reproduction.runs import one_run, outcomes, price, runs, table

__all__ = ["one_run", "outcomes", "price", "runs", "table"]
