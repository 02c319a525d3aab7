"""How models come to be before relevance finetuning.

`classifier` learns from labels; `original` is the model that everything starts from, `pretrained`
those that IAV compares. How the small shipped models were pretrained is in `tools/pretraining`
of commit 1e87ea29.
"""
