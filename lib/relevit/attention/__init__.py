"""How attention runs inside timm's Vision Transformers, and how to watch it.

Here live the record of the attention maps, and the rows of a token matrix that a head reads.
Imports nothing else of the suite.
"""
