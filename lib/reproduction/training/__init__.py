"""How models come to be before relevance finetuning: epochs, classifiers, the original.

`epochs` is the loop of all trainings, relevance finetuning among them; `classifier` learns from
labels; `original` is the model that everything starts from. How the small shipped models were
pretrained is in `tools/pretraining`. Imports evaluation and what lies below it.
"""
