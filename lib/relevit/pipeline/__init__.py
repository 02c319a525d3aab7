"""Running things: presets through Snakemake, notebooks by the dozen, checks of data folders.

`run` plans and runs a preset, `fetching` gets what it needs first, `lock` lets one run at a time
write a preset's results, `children` ends stages with whoever asked for them, `sweep` knows its
finetuning runs, `answers` evaluates one model as a job of its own; `kernels` are what notebooks run
on; `notebooks` stores a run's outputs in the repository; `exercises` and `slides` make what a
workshop needs; `cli` and `doctor` are the command `relevit`. It may import every room; no room
imports it.
"""
