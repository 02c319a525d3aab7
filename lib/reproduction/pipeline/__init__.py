"""Running things: presets through Snakemake, notebooks by the dozen, checks of data folders.

`plan` writes what a preset's run consists of, `run` runs it, `machine` has places for its stages
and what loads them once, `progress` tells how far it is, `make` makes single finetuning runs;
`fetching` gets what they need first, `lock` lets one run at a time write a preset's results,
`children` ends stages with whoever asked for them, `engine` is papermill's with kernels that do not
clash; `notebooks` stores a run's outputs in the repository, and `checks` says what is wrong with an
answer; `doctor` looks at the machine and at data sets for the command `relevit`.
"""
