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
    (iav.score, lambda a, g: (a / a.norm()) @ (g / g.norm()), "one length for all heads together"),
    (iav.score, lambda a, g: (a / a.norm(dim=(1, 2), keepdim=True)) @ (g / g.norm()), "of a layer"),
    (iav.score, lambda a, g: (a / long(a) * g / g.norm()).mean(-1), "take the mean over patches"),
    (iav.score, lambda a, g: (a / long(a) ** 2) @ (g / g.square().sum()), "squared lengths"),
    (iav.score, lambda a, g: a / long(a) * g / g.norm(), "(3, 2, 9); (3, 2) is asked for"),
    (iav.centred, lambda a, g: cosine_similarity(a, g, dim=-1), "score of exercise 1"),
    (iav.centred, lambda a, g: cosine_similarity(centre(a), g, dim=-1), "Only the attention is"),
    (iav.centred, lambda a, g: cosine_similarity(a, centre(g), dim=-1), "Only the attribution is"),
    (iav.centred, lambda a, g: cosine_similarity(a - a.mean(), centre(g), dim=-1), "one mean for"),
    (iav.centred, lambda a, g: centre(a / long(a)) @ centre(g / g.norm()), "before you take off"),
    (iav.centred, lambda a, g: centre(a) @ centre(g), "no cosine yet"),
    (iav.centred, lambda a, g: (centre(a) * centre(g)).mean(-1), "covariance"),
    (iav.centred, lambda a, g: cosine_similarity(centre(a), centre(g), dim=-1).abs(), "lost the"),
    (iav.centred, lambda a, g: cosine_similarity(centre(a), centre(g), dim=-1).relu(), "cut off"),
    (iav.centred, lambda a, g: (deviations(a) * deviations(g)).mean(-1), "one patch less"),
    (iav.flat, "a", "A weak preference"),
    (iav.flat, "c", "the same one for all layers"),
]

test_wrong_answers = said(WRONG)
