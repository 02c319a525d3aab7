"""Typical wrong answers to the exercises on attention heads, and what is said to each."""

from __future__ import annotations

from checks import iav
from torch.nn.functional import cosine_similarity

from .answers import said


def long(attention):
    return attention.norm(dim=-1, keepdim=True)


def centre(maps):
    return maps - maps.mean(dim=-1, keepdim=True)


def deviations(maps):
    return centre(maps) / maps.std(dim=-1, keepdim=True)


WRONG = [
    (iav.score, lambda a, g: a @ g, "plain inner product"),
    (iav.score, lambda a, g: (a / a.sum(-1, keepdim=True)) @ (g / g.sum()), "the sums of the maps"),
    (iav.score, lambda a, g: a / a.amax(-1, keepdim=True) @ (g / g.amax()), "the largest values"),
    (iav.score, lambda a, g: (a / long(a)) @ g, "Only the attention has length 1"),
    (iav.score, lambda a, g: a @ (g / g.norm()), "Only the attribution has length 1"),
    (iav.centred, lambda a, g: cosine_similarity(a, g, dim=-1), "score of exercise 1"),
    (iav.centred, lambda a, g: cosine_similarity(centre(a), g, dim=-1), "Only the attention is"),
    (iav.centred, lambda a, g: cosine_similarity(a, centre(g), dim=-1), "Only the attribution is"),
    (iav.centred, lambda a, g: cosine_similarity(a - a.mean(), centre(g), dim=-1), "one mean for"),
    (iav.centred, lambda a, g: centre(a / long(a)) @ centre(g / g.norm()), "before you take off"),
    (iav.flat, "a", "A weak preference"),
    (iav.flat, "c", "the same one for all layers"),
]

test_wrong_answers = said(WRONG)
