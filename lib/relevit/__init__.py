"""RelEViT: relevance maps of Vision Transformers, and training on them.

The suite reproduces three papers: RobustViT (Chefer et al. 2022), Beyond Intuition (Chen et
al. 2023) and IAV (Park and Choi). Importing this package loads nothing heavy; import the
modules that you need, for example `from relevit.relevance import gae`.
"""

__version__ = "0.1.0"
