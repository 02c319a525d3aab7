"""What can be chosen, said once: words, ranges, refusals, and what others add.

Parameters of notebooks (`reproduction.params`) and of one's own run are made of these. Nothing
heavy is imported, so that a wrong value is reported within seconds.
"""
