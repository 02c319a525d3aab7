"""What can be chosen, said once: words, ranges, refusals, and what others add."""
