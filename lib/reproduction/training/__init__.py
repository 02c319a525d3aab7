"""How models come to be before relevance finetuning.

`classifier` learns from labels; `original` is the model that everything starts from. How the small
shipped models were pretrained is in `tools/pretraining`.
"""
