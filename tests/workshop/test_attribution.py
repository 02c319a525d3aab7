"""Typical wrong answers to the exercises on attribution, and what is said to each."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from checks import attribution

from .answers import said


def rollout(attention, *, heads=lambda a: a.mean(0), own=1.0, half=2.0, left=True):
    carried = torch.eye(attention.shape[-1], dtype=attention.dtype)
    for block in attention:
        mixed = (heads(block) + own * torch.eye(len(carried), dtype=carried.dtype)) / half
        carried = mixed @ carried if left else carried @ mixed
    return carried


def weighed(attention, gradient, weigh):
    weights = weigh((attention * gradient).sum((1, 2)))
    return (weights[:, None, None] * attention).sum(0)


def published(attention, gradient):
    weights = (attention.transpose(1, 2) @ gradient).abs().mean((1, 2))
    return (weights[:, None, None] * attention).sum(0) / weights.sum()


WRONG = [
    (attribution.rollout, lambda a: rollout(a)[1:, 0], "transposed"),
    (attribution.rollout, lambda a: rollout(a, half=1)[0, 1:], "8 times too large"),
    (attribution.rollout, lambda a: rollout(a, own=0, half=1)[0, 1:], "left the identity out"),
    (attribution.rollout, lambda a: rollout(a, left=False)[0, 1:], "from the wrong side"),
    (attribution.rollout, lambda a: rollout(a, heads=lambda h: h.amax(0))[0, 1:], "largest head"),
    (attribution.same_map, "a", "GAE starts from the same rows"),
    (attribution.same_map, "c", "each single head is the same"),
    (attribution.head_wise, lambda a, g: weighed(a, g, lambda w: w / w.sum()), "keep their sign"),
    (attribution.head_wise, lambda a, g: weighed(a, g, torch.abs), "do not sum to 1"),
    (attribution.head_wise, lambda a, g: a.mean(0), "All heads weigh the same"),
    (attribution.head_wise, lambda a, g: weighed(a, g, lambda w: w.abs().softmax(0)), "softmax"),
    (attribution.head_wise, lambda a, g: (a * g).mean(0), "as GAE does"),
]

test_wrong_answers = said(WRONG)


def plain(attention):
    """With the identity of hint 1, as it stands there."""
    tokens = attention.shape[-1]
    made_of = torch.eye(tokens)
    for i in range(len(attention)):
        made_of = (attention[i].mean(dim=0) + torch.eye(tokens)) / 2 @ made_of
    return made_of[0, 1:]


def by_multi_dot(attention):
    blocks = (attention.mean(1) + torch.eye(attention.shape[-1])) / 2
    return torch.linalg.multi_dot(list(blocks.flip(0)))[0, 1:]


def by_einsum(attention, gradient):
    weights = torch.einsum("hqk,hqk->h", attention, gradient).abs()
    return torch.einsum("h,hqk->qk", weights / weights.sum(), attention)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (attribution.rollout, plain),
        (attribution.rollout, by_multi_dot),
        (attribution.rollout, lambda a: rollout(a.double())[0, 1:]),
        (attribution.head_wise, by_einsum),
        (attribution.head_wise, lambda a, g: by_einsum(a.float(), g.float())),
    ],
)
def test_right_answers_other_than_ours(check, answer, capsys):
    check(answer)
    assert capsys.readouterr().out.startswith("✓ ")


TRUTH = pd.DataFrame({"method": ["rollout", "gae"], "own_object_pct": [50.0, 72.5]})
