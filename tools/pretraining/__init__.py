"""How the shipped small models were pretrained: run by hand, by `tools/train_shipped.py`.

Labels, labels under DeiT's mixing, hidden patches (MAE), agreement of views (DINO). No notebook
runs them; 08_iav finetunes what they made.
"""
