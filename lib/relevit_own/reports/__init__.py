"""Pages on what was done with a model and images of one's own: a finetuning, an audit."""
