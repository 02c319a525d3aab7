"""Typical wrong answers to the exercises on relevance finetuning, and what is said to each."""

from __future__ import annotations

import pytest
import torch
from checks import finetune

from .answers import said


def recursion(attention, gradients, *, cut=True, left=True, read=lambda r: r[0, 1:]):
    relevance = torch.eye(attention.shape[-1], dtype=attention.dtype)
    for block, slope in zip(attention, gradients, strict=True):
        product = slope * block
        mixed = (product.clamp(min=0) if cut else product).mean(0)
        relevance = relevance + (mixed @ relevance if left else relevance @ mixed)
    return read(relevance)


WRONG = [
    (finetune.gae, lambda a, g: recursion(a, g, read=lambda r: r[1:, 0]), "transposed"),
    (finetune.gae, lambda a, g: recursion(a, g, cut=False), "left negative products in"),
    (finetune.gae, lambda a, g: recursion(a, g, left=False), "from the wrong side"),
    (finetune.gae, lambda a, g: recursion(a, torch.ones_like(g)), "left the gradients out"),
    (finetune.gae, lambda a, g: recursion(a, g, read=lambda r: r[0]), "(5); (4) is asked for"),
    (finetune.background, lambda r, s: (r * s).square().mean(), "punish relevance on the object"),
    (finetune.background, lambda r, s: (r * (1 - s)).mean(), "not squared"),
    (finetune.background, lambda r, s: (r * (1 - s)).square(), "has the shape (2, 1, 4, 4)"),
    (finetune.weights, "a", "not the scale"),
    (finetune.weights, "c", "Masks are exact"),
]

test_wrong_answers = said(WRONG)


def plain(attention, gradients):
    """With the start of hint 1, as it stands there."""
    tokens = attention.shape[-1]
    relevance = torch.eye(tokens)
    for i in range(len(attention)):
        mixed = (attention[i] * gradients[i]).clamp(min=0).mean(dim=0)
        relevance = relevance + mixed @ relevance
    return relevance[0, 1:]


def by_einsum(attention, gradients):
    matrices = torch.einsum("lhqk,lhqk->lhqk", attention, gradients).relu().mean(1)
    row = torch.eye(matrices.shape[-1])[0]  # of the class token alone, from the last block back
    for matrix in matrices.flip(0):
        row = row + torch.einsum("q,qk->k", row, matrix)
    return row[1:]


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (finetune.gae, plain),
        (finetune.gae, by_einsum),
        (finetune.gae, lambda a, g: recursion(a.double(), g.double())),
        (finetune.background, lambda r, s: (r * (1 - s)).float().pow(2).mean().item()),
        (finetune.background, lambda r, s: torch.einsum("bchw,bchw->", r**2, 1 - s) / r.numel()),
    ],
)
def test_right_answers_other_than_ours(check, answer, capsys):
    check(answer)
    assert capsys.readouterr().out.startswith("✓ ")
