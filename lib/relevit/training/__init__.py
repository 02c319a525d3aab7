"""How models come to be before relevance finetuning: epochs, classifiers, pretrainings.

`epochs` is the loop of all trainings, relevance finetuning among them. `classifier` learns from
labels, `masked_autoencoder` and `self_distillation` without; `recipes` has the four small models,
`original` the model that everything starts from. Imports evaluation and what lies below it.
"""
