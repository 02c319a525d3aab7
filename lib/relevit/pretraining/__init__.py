"""Pretraining of small ViTs: with labels, by hidden patches, by self-distillation."""

from relevit.pretraining.recipes import RECIPES, make_backbone, pretrain, save_backbone

__all__ = ["RECIPES", "make_backbone", "pretrain", "save_backbone"]
