"""Running things: presets through Snakemake, notebooks by the dozen, checks of data folders.

`run` plans and runs a preset, `so_far` reports on it meanwhile, `fetching` gets what it needs
first, `sweep` knows its finetuning runs, `answers` evaluates one model as a job of its own;
`kernels` are what notebooks run on; `notebooks` makes the committed outputs, `exercises` the copies
of a workshop's exercises; `cli` and `doctor` are the command `relevit`. It may import every room;
no room imports it.
"""
