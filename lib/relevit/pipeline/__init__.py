"""Running things: presets through Snakemake, warm kernels, clusters, checks of data folders."""
