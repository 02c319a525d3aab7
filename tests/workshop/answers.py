"""What people answer to each exercise: right ones, and wrong ones with a part of what they hear.

They are written as beginners write them, and not as `reproduction.pipeline.checks` does.
"""

import math

import numpy as np
import torch
from torch.nn.functional import cosine_similarity, mse_loss, normalize


def walk(step, start=None, read=lambda R: R[0, 1:], order=lambda blocks: blocks):
    """A map by a loop over blocks: `step` has R, attention and gradient."""

    def made(attention, gradients):
        R = torch.eye(attention.shape[-1]) if start is None else start(attention)
        for A, dA in order(list(zip(attention, gradients, strict=True))):
            R = step(R, A, dA)
        return read(R)

    return made


def loop(step, start=None, read=lambda R: R, order=lambda blocks: blocks):
    """The same over a list of matrices: `step` has R and A."""

    def made(matrices):
        R = torch.eye(matrices[0].shape[-1]) if start is None else start(matrices)
        for A in order(matrices):
            R = step(R, A)
        return read(R)

    return made


def cut(A, dA):
    return (dA * A).clamp(min=0).mean(0)


def changed(function):
    """An answer that works on what it was given."""

    def made(first, *others):
        first *= 2
        return function(first, *others)

    return made


def lost(*_):
    """An answer without `return`."""


def number(found):
    return lambda *inputs: float(found(*inputs).sum())


def off(r, s):
    return r * (1 - s)


def in_sets(t):
    return 100 * t.groupby("dataset").mean()


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


def of_each(measure, cut, masks):
    return torch.stack(list(map(measure, cut, masks))).mean()


def dice(a, b):
    return (a & b).sum() / (a.sum() + b.sum())


def trapezoid(y, x):
    return sum((x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(y) - 1))


def auc(s, a):
    return trapezoid([*a, 0], [*s, 100]) / 100


def lengths(x):
    return (x**2).sum(-1, keepdim=True).sqrt()


def grad(answers, images, **how):
    return torch.autograd.grad(answers.sum(), images, **how)[0]


def by_backward(answers, images, masks):
    answers.sum().backward(retain_graph=True)
    return (images.grad * (1 - masks)).square().sum()


def claimed(answers, images, masks):
    slopes = grad(answers, images, retain_graph=True).requires_grad_()
    return (slopes * (1 - masks)).square().sum()


def trained(r, s):
    loss = off(r, s).square().mean()
    loss.backward()
    return loss


def flip(masks, turn, many=0.5):
    masks = masks.clone()
    for i, mask in enumerate(masks):
        if mask.float().mean() > many:
            masks[i] = turn(mask)
    return masks


def drop(relevance, own, count, descending=True):
    """Erase the first so many words of an order."""
    stays = torch.ones(len(own), dtype=torch.bool)
    left = count
    for place in relevance.argsort(descending=descending):
        if own[place] and left > 0:
            stays[place] = False
            left -= 1
    return stays


def many(own, share):
    return int(own.sum()) * share // 100


F, B = "full", "no_background"

RIGHT = {
    "reading": [dict(D=True, C=False, B=False, A=True), dict(A=1, B=0, C=0, D=1)],
    "turned": [
        lambda m: flip(m, lambda x: 1 - x),
        lambda m: flip(m, lambda x: (x == 0).long()),
        lambda m: torch.where(m.float().mean((1, 2), keepdim=True) > 0.5, 1 - m, m),
        lambda m: flip(m, lambda x: x ^ 1),
    ],
    "gae": [
        walk(lambda R, A, dA: R + cut(A, dA) @ R),
        walk(lambda R, A, dA: (torch.eye(len(R)) + cut(A, dA)) @ R),
        walk(lambda R, A, dA: R + torch.relu(A * dA).mean(dim=0).matmul(R)),
        walk(lambda R, A, dA: R + cut(A.double(), dA.double()) @ R.double()),
    ],
    "background_loss": [
        lambda r, s: (r**2 * (1 - s)).mean(),
        lambda r, s: mse_loss(r * (1 - s), torch.zeros_like(r)),
        lambda r, s: (r * (1 - s)).pow(2).sum() / r.numel(),
    ],
    "adds": [
        lambda t: (in_sets(t)["with"] - in_sets(t)["without"]).mean(),
        lambda t: 100 * (t["with"] - t["without"]).groupby(level=0).mean().mean(),
        lambda t: np.diff(in_sets(t)[["without", "with"]].mean())[0],
    ],
    "gradmask": [
        lambda y, x, s: (grad(y, x, create_graph=True) * (1 - s)).pow(2).sum(),
        lambda y, x, s: ((1 - s) * grad(y, x, create_graph=True, retain_graph=True) ** 2).sum(),
    ],
    "six_runs": [
        [(F, 0), (B, 0), (F, 1), (B, 1), (F, 2), (B, 2)],
        tuple([name, seed] for name in (B, F) for seed in (5, 7, 9)),
    ],
    "follow": [
        loop(lambda R, A: R + A @ R),
        loop(lambda R, A: (torch.eye(R.shape[-1]) + A) @ R),
        loop(lambda R, A: R + torch.bmm(A, R), lambda m: torch.eye(m[0].shape[-1]).expand_as(m[0])),
    ],
    "miou": [
        lambda c, m: 50 * (iou(c, m) + iou(~c, ~m)),
        lambda c, m: 100 * np.mean([float(iou(c, m)), float(iou(~c, ~m))]),
        lambda c, m: sum(float(iou(a, b)) for a, b in ((c, m), (~c, ~m))) * 50,
    ],
    "area": [auc, lambda s, a: np.trapezoid([*a, 0], [*s, 100]) / 100],
    "beyond_chance": [
        lambda s, a, r: np.mean([auc(s, one) for one in r]) - auc(s, a),
        lambda s, a, r: auc(s, np.mean(r, axis=0)) - auc(s, a),
    ],
    "ia_score": [
        lambda a, m: cosine_similarity(a, m, dim=-1),
        lambda a, m: (normalize(a, dim=-1) * normalize(m, dim=-1)).sum(-1),
        lambda a, m: (a @ m) / a.norm(dim=-1) / m.norm(),
        lambda a, m: np.asarray((a @ m) / a.norm(dim=-1) / m.norm()),
    ],
    "centred_score": [
        lambda a, m: cosine_similarity(a - a.mean(-1, keepdim=True), m - m.mean(), dim=-1),
        lambda a, m: torch.tensor(
            [[np.corrcoef(row, m)[0, 1] for row in layer] for layer in a.numpy()]
        ),
    ],
    "staying": [
        lambda r, own, share: drop(r, own, many(own, share)),
        lambda r, own, share: drop(r, own, int(own.sum() * share / 100)),
    ],
    "advice": [dict(A="helps", B="not shown", C="harms", D="not shown")],
}

A0 = dict(A=True, B=False, C=False, D=True)
V0 = dict(A="helps", B="not shown", C="harms", D="not shown")
HERE, OFF = "Not right yet", "no gradient comes back"

WRONG = {
    "reading": [
        (None, "behind each of A, B, C, D"),
        ({}, "behind each of A, B, C, D"),
        ([True, False, False, True], "behind each of A, B, C, D"),
        ("A, D", "behind each of A, B, C, D"),
        ({**A0, "E": True}, "and no other letter"),
        ({"a": True, "b": False, "c": False, "d": True}, "behind each of A, B, C, D"),
        ({"A": True, "D": True}, "behind each of A, B, C, D"),
        (dict.fromkeys("ABCD"), "Nothing is chosen yet"),
        ({**A0, "A": None}, "A: nothing is chosen"),
        ({**A0, "C": None}, "C: nothing is chosen"),
        ({**A0, "A": False}, "What else than the home differs"),
        ({**A0, "B": True}, "how much of the relevance"),
        ({**A0, "C": True}, "do they go together"),
        ({**A0, "D": False}, "training images"),
        ({**A0, "B": True, "D": False}, "B: Look how much"),
        ({**A0, "C": True, "D": False}, "C: Compare"),
        (dict.fromkeys("ABCD", True), "B: Look"),
        (dict.fromkeys("ABCD", False), "A: What else"),
        ({**A0, "A": "true"}, "A: `True` or `False`"),
        ({**A0, "A": torch.ones(2)}, "cannot be read: RuntimeError"),
        ({**A0, "B": "False"}, "B: `True` or `False`"),
    ],
    "turned": [
        (lambda m: flip(m, lambda x: x * -1), "a 1 becomes -1"),
        (lambda m: flip(m, lambda x: -x), "a 1 becomes -1"),
        (lambda m: flip(m, lambda x: ~x), "as `~` makes"),
        (lambda m: flip(m, lambda x: -x - 1), "-1 and -2"),
        (lambda m: flip(m, lambda x: x - 1), "-1 and 0"),
        (lambda m: 1 - m, "You turn all masks"),
        (lambda m: m ^ 1, "You turn all masks"),
        (lambda m: m, "as they were"),
        (lambda m: flip(m, lambda x: abs(-x)), "as they were"),
        (lambda m: flip(m, lambda x: x * 0), "are empty"),
        (lambda m: flip(m, lambda x: (x == -1).long()), "are empty"),
        (lambda m: flip(m, lambda x: (-x).clamp(min=0)), "are empty"),
        (lambda m: 1 - flip(m, lambda x: 1 - x), "leave the large ones"),
        (lambda m: flip(m, lambda x: 1 - x, many=0.0), "You turn all masks"),
        (lambda m: flip(m, lambda x: 1 + x), HERE),
        (lambda m: flip(m, lambda x: 1 - x).float().mean(), "asked for"),
        (lambda m: m[m.float().mean((1, 2)) > 0.5], "has the shape"),
        (lambda m: flip(m, lambda x: not x), "stopped with RuntimeError"),
        (lambda m: m.mul_(-1), "changes its input number 1"),
        (lost, "returns nothing"),
        (lambda m: flip(m, lambda x: torch.ones_like(x)), "all of the image"),
    ],
    "gae": [
        (walk(lambda R, A, dA: R + cut(A, dA) @ R, read=lambda R: R[1:, 0]), "column"),
        (walk(lambda R, A, dA: R + cut(A, dA) @ R, read=lambda R: R.T[0, 1:]), "column"),
        (walk(lambda R, A, dA: cut(A, dA) @ R), "identity out"),
        (walk(lambda R, A, dA: torch.eye(len(R)) + cut(A, dA) @ R), "identity anew"),
        (walk(lambda R, A, dA: R + R @ cut(A, dA)), "wrong order"),
        (walk(lambda R, A, dA: R + cut(A, dA) @ R, order=reversed), "wrong order"),
        (walk(lambda R, A, dA: R + (A * dA).mean(0).clamp(min=0) @ R), "after the mean over heads"),
        (walk(lambda R, A, dA: R + (A * dA).clamp(max=0).mean(0) @ R), "what is below 0"),
        (walk(lambda R, A, dA: R + (A * dA).mean(0) @ R), "Negative products"),
        (walk(lambda R, A, dA: R + (dA @ A).clamp(min=0).mean(0) @ R), "entry by entry"),
        (walk(lambda R, A, dA: R + (A @ dA).clamp(min=0).mean(0) @ R), "entry by entry"),
        (walk(lambda R, A, dA: R + A.mean(0) @ R), "no gradient in your map"),
        (walk(lambda R, A, dA: R + (A * dA).clamp(min=0).sum(0) @ R), "sum over the heads"),
        (walk(lambda R, A, dA: R + cut(A, dA)), "add the blocks up"),
        (walk(lambda R, A, dA: torch.eye(len(R)) + cut(A, dA)), "one block alone"),
        (walk(lambda R, A, dA: R + cut(A, dA) @ R, read=lambda R: R[0]), "own entry"),
        (walk(lambda R, A, dA: R + cut(A, dA) @ R, read=lambda R: R), "(5, 5)"),
        (walk(lambda R, A, dA: R + (A * dA).abs().mean(0) @ R), "size of the products"),
        (walk(lambda R, A, dA: R + cut(A, dA) @ R, lambda a: torch.eye(5)), "second one of other"),
        (
            walk(lambda R, A, dA: R + cut(A, dA) @ R, lambda a: torch.eye(a.shape[1])),
            "stopped with",
        ),
        (
            walk(lambda R, A, dA: R + cut(A, dA) @ R, lambda a: torch.zeros(a.shape[-2:])),
            "All is 0",
        ),
        (walk(lambda R, A, dA: R + dA.clamp(min=0).mean(0) @ R), "Attention is not in"),
        (walk(lambda R, A, dA: R + cut(A, dA) @ R, read=lambda R: R[0, 1:] / R[0, 1:].max()), HERE),
        (walk(lambda R, A, dA: R + (A * dA).clamp(min=0) @ R), "has the shape"),
        (changed(walk(lambda R, A, dA: R + cut(A, dA) @ R)), "input number 1"),
        (lost, "returns nothing"),
    ],
    "background_loss": [
        (lambda r, s: (r * s).square().mean(), "the background is 1 - mask"),
        (lambda r, s: off(r, s).mean(), "not squared"),
        (lambda r, s: off(r, s).abs().mean(), "not squared"),
        (lambda r, s: off(r, s).mean() ** 2, "square the mean"),
        (lambda r, s: off(r, s).square().sum(), "take the sum"),
        (lambda r, s: off(r, s).square().sum((1, 2, 3)).mean(), "pixels of an image"),
        (lambda r, s: off(r, s).square().sum() / (1 - s).sum(), "background's pixels alone"),
        (lambda r, s: r[s == 0].square().mean(), "background's pixels alone"),
        (lambda r, s: off(r, s).square().mean().sqrt(), "root of the mean"),
        (lambda r, s: off(r, s).square().mean((1, 2, 3)), "a number for each image"),
        (lambda r, s: mse_loss(r, s), "against the mask"),
        (lambda r, s: (r * s - s).square().mean(), "Eq. 2"),
        (lambda r, s: r.square().mean(), "mask is not in your number"),
        (lambda r, s: off(r, s).square().mean().item(), OFF),
        (lambda r, s: off(r, s).square().mean().tolist(), OFF),
        (lambda r, s: off(r.detach(), s).square().mean(), OFF),
        (lambda r, s: off(r, s).square(), "has the shape"),
        (lambda r, s: -off(r, s).square().mean(), "below 0"),
        (lambda r, s: off(r, s).norm() ** 2, "take the sum"),
        (lambda r, s: off(r, s).norm(), HERE),
        (trained, "cannot be read: RuntimeError"),
        (lambda r, s: r * ~s, "stopped with TypeError"),
        (lambda r, s: [off(r, s).square().mean()], "returns a list"),
        (changed(lambda r, s: off(r, s).square().mean()), "input number 1"),
        (lost, "returns nothing"),
    ],
    "adds": [
        (lambda t: in_sets(t).mean()["with"] - in_sets(t).mean()["original"], "since the original"),
        (lambda t: in_sets(t).mean()["without"] - in_sets(t).mean()["original"], "of the twin"),
        (lambda t: 100 * (t["with"] - t["without"]).mean(), "large set counts more"),
        (lambda t: (t["with"] - t["without"]).mean(), "large set counts more"),
        (lambda t: 100 * (t["with"] - t["original"]).mean(), "twin has changed"),
        (lambda t: (in_sets(t)["without"] - in_sets(t)["with"]).mean(), "sign is turned"),
        (lambda t: (in_sets(t)["with"] - in_sets(t)["without"]).mean() / 100, "is a share"),
        (
            lambda t: (in_sets(t)["with"] - in_sets(t)["original"]).mean() / 100,
            "since the original",
        ),
        (lambda t: (in_sets(t)["with"] - in_sets(t)["without"]).sum(), "sum over the sets"),
        (lambda t: in_sets(t)["with"] - in_sets(t)["without"], "a number for each set"),
        (lambda t: in_sets(t).mean()["with"], "how often the run *with* is right"),
        (
            lambda t: 100 * (in_sets(t).mean()["with"] / in_sets(t).mean()["without"] - 1),
            "divide by what the twin has",
        ),
        (
            lambda t: (
                100
                * (in_sets(t).mean()["with"] - in_sets(t).mean()["without"])
                / in_sets(t).mean()["original"]
            ),
            "divide by what the original has",
        ),
        (
            lambda t: (
                in_sets(t)["with"] + in_sets(t)["without"] - 2 * in_sets(t)["original"]
            ).mean(),
            "add the two changes",
        ),
        (lambda t: (t["with"] - t["without"]).sum(), "how many answers"),
        (lambda t: (in_sets(t)["with"] - in_sets(t)["without"]).median(), HERE),
        (lambda t: in_sets(t).mean(), "has the shape"),
        (lambda t: t["with"].mean - t["without"].mean, "stopped with TypeError"),
        (lambda t: t["change"], "stopped with KeyError"),
        (lambda t: t["with"].map(str).add("!"), "cannot be read: ValueError"),
        (lambda t: (in_sets(t)["with"] - in_sets(t)["without"]).to_dict(), "returns a dict"),
        (lambda t: f"{(in_sets(t)['with'] - in_sets(t)['without']).mean():.1f}", "returns a str"),
        (lost, "returns nothing"),
    ],
    "gradmask": [
        (lambda y, x, s: (grad(y, x, retain_graph=True) * (1 - s)).pow(2).sum(), OFF),
        (lambda y, x, s: (grad(y, x) * (1 - s)).pow(2).sum(), OFF),
        (lambda y, x, s: (grad(y, x, create_graph=True).detach() * (1 - s)).pow(2).sum(), OFF),
        (lambda y, x, s: (grad(y, x, create_graph=True) * (1 - s)).pow(2).sum().item(), OFF),
        (by_backward, OFF),
        (claimed, OFF),
        (lambda y, x, s: (grad(y, x, create_graph=True).data * (1 - s)).pow(2).sum(), OFF),
        (lambda y, x, s: (grad(y, x, retain_graph=True) * (1 - s)).pow(2).sum() + 0 * y.sum(), OFF),
        (lambda y, x, s: (grad(y, x) * (1 - s)).pow(2).sum().clone(), OFF),
        (lambda y, x, s: (grad(y, x, create_graph=True) * s).pow(2).sum(), "on the object"),
        (lambda y, x, s: grad(y, x, create_graph=True).pow(2).sum(), "mask is not in"),
        (lambda y, x, s: (grad(y, x, create_graph=True) * (1 - s)).pow(2).mean(), "take the mean"),
        (lambda y, x, s: (grad(y, x, create_graph=True) * (1 - s)).sum(), "not squared"),
        (lambda y, x, s: (grad(y, x, create_graph=True) * (1 - s)).abs().sum(), "size of the"),
        (lambda y, x, s: (grad(y, x, create_graph=True) * (1 - s)).norm(), HERE),
        (
            lambda y, x, s: (grad(y.mean(), x, create_graph=True) * (1 - s)).pow(2).sum(),
            "of their m",
        ),
        (lambda y, x, s: torch.autograd.grad(y, x)[0].sum(), "stopped with RuntimeError"),
        (lambda y, x, s: (torch.autograd.grad(y.sum(), x) * (1 - s)).sum(), "stopped with"),
        (lambda y, x, s: grad(y, s), "stopped with RuntimeError"),
        (lambda y, x, s: (y * (1 - s)).pow(2).sum(), "stopped with RuntimeError"),
        (lambda y, x, s: (grad(y, x, create_graph=True) * (1 - s)).pow(2), "has the shape"),
        (lost, "returns nothing"),
    ],
    "six_runs": [
        (None, "list of pairs"),
        ([], "no run yet"),
        ("full", "list of pairs"),
        ([F, B], "list of pairs"),
        ({F: 3, B: 3}, "list of pairs"),
        ([(F, 0, 1)], "list of pairs"),
        ([("all", 0), (B, 0)], "'all' is no variant"),
        ([("background", 0), (F, 0)], "'background' is no variant"),
        ([(F, n) for n in range(4)] + [(B, n) for n in range(4)], "8 runs"),
        ([(F, 0), (F, 0), (F, 0), (B, 0), (B, 0), (B, 0)], "stands twice"),
        ([(F, 0), (B, 0), (F, 1), (B, 1), (B, 1), (F, 2)], "stands twice"),
        ([(B, n) for n in range(6)], "Against which run"),
        ([(B, 0), (B, 1), (B, 2), ("only_background", 0)], "Against which run"),
        ([(F, n) for n in range(6)], "all that is missing"),
        ([(F, 0), ("only_foreground", 0)], "all that is missing"),
        ([(F, 0), (F, 1), (F, 2), ("no_foreground", 0)], "all that is missing"),
        ([(F, 0), (B, 0), ("no_foreground", 0)], "another question"),
        ([(F, 0), (F, 1), (B, 0), (B, 1), ("only_background", 0), ("only_background", 1)], "costs"),
        ([(F, 0), (F, 1), (F, 2), (B, 3), (B, 4), (B, 5)], "one of the two alone"),
        ([(F, 0), (F, 1), (F, 2), (B, 0)], "one of the two alone"),
        ([(F, 0), (B, 0)], "another seed say"),
        ([(F, [0]), (B, [0])], "cannot be read: TypeError"),
        ([(F, 0), (B, 0), (F, 1), (B, 1)], "two runs left"),
    ],
    "follow": [
        (loop(lambda R, A: A @ R), "identity out"),
        (loop(lambda R, A: torch.eye(R.shape[-1]) + A @ R), "identity anew"),
        (loop(lambda R, A: R + R @ A), "wrong order"),
        (loop(lambda R, A: R + A @ R, order=reversed), "wrong order"),
        (loop(lambda R, A: R + A), "add the blocks up"),
        (loop(lambda R, A: torch.eye(R.shape[-1]) + A), "one block alone"),
        (loop(lambda R, A: R + A * R), "entry by entry"),
        (loop(lambda R, A: R + A @ R, read=lambda R: R.mT), "transposed"),
        (loop(lambda R, A: (R + A @ R) / 2), "rows sum to 1"),
        (loop(lambda R, A: normalize(R + A @ R, p=1, dim=-1)), "rows sum to 1"),
        (loop(lambda R, A: R + A @ R, read=lambda R: R[:, 0]), "class token's row"),
        (loop(lambda R, A: R + A @ R, lambda m: torch.zeros_like(m[0])), "begin with the identity"),
        (loop(lambda R, A: A @ R, read=lambda R: R + torch.eye(R.shape[-1])), "once, at the end"),
        (loop(lambda R, A: R + A @ R, lambda m: m[0], order=lambda m: m[1:]), "first block"),
        (loop(lambda R, A: R + A @ R, lambda m: torch.ones_like(m[0])), HERE),
        (loop(lambda R, A: R + A @ R, lambda m: torch.eye(5)), "second one of other sizes"),
        (loop(lambda R, A: R + A @ R, lambda m: torch.eye(len(m))), "stopped with RuntimeError"),
        (loop(lambda R, A: R + A.mT @ R), "transpose the block"),
        (loop(lambda R, A: R + A @ R, read=lambda R: R[0]), "has the shape"),
        (loop(lambda R, A: R + A @ R, read=lambda R: R.mean(0)), "has the shape"),
        (lambda m: torch.eye(m.shape[-1]), "stopped with AttributeError"),
        (loop(lambda R, A: R.add_(A.mean(0) @ R)), "has the shape"),
        (lost, "returns nothing"),
    ],
    "miou": [
        (lambda c, m: (iou(c, m) + iou(~c, ~m)) / 2, "is a share"),
        (lambda c, m: 100 * iou(c, m), "object alone"),
        (lambda c, m: iou(c, m), "object alone"),
        (lambda c, m: 100 * iou(~c, ~m), "background alone"),
        (lambda c, m: 100 * (iou(c, m) + iou(~c, ~m)), "add the two"),
        (
            lambda c, m: 50 * of_each(lambda a, b: iou(a, b) + iou(~a, ~b), c, m),
            "count over all images first",
        ),
        (lambda c, m: 100 * of_each(iou, c, m), "object's IoU of each image"),
        (
            lambda c, m: (
                50 * sum((a & b).sum() / (a.sum() + b.sum()) for a, b in ((c, m), (~c, ~m)))
            ),
            "in both twice",
        ),
        (lambda c, m: 100 * (c & m).sum() / (c.sum() + m.sum()), "background is left out"),
        (lambda c, m: 200 * (c & m).sum() / (c.sum() + m.sum()), "Dice"),
        (lambda c, m: 100 * (c == m).float().mean(), "pixel accuracy"),
        (lambda c, m: (c == m).float().mean(), "pixel accuracy"),
        (
            lambda c, m: 50 * sum((a & b).sum() / b.sum() for a, b in ((c, m), (~c, ~m))),
            "by the mask alone",
        ),
        (
            lambda c, m: (
                100 * sum((a & b).sum() / (a.sum() + b.sum()) for a, b in ((c, m), (~c, ~m)))
            ),
            "Dice",
        ),
        (
            lambda c, m: 50 * sum((a & b).sum() / (a ^ b).sum() for a, b in ((c, m), (~c, ~m))),
            "in just one of both",
        ),
        (
            lambda c, m: 50 * sum((a & b).float().mean() for a, b in ((c, m), (~c, ~m))),
            "divide by all pixels",
        ),
        (lambda c, m: 50 * (iou(c, m) + iou(~c, m)), HERE),
        (lambda c, m: 50 * (iou(c, m) + iou(1 - c, 1 - m)), "stopped with"),
        (lambda c, m: (c & m) / (c | m), "asked for"),
        (lambda c, m: 100 * (c and m).sum(), "stopped with RuntimeError"),
        (lambda c, m: [iou(c, m), iou(~c, ~m)], "returns a list"),
        (lambda c, m: 100 * (c & m).sum() / m.sum(), HERE),
        (lost, "returns nothing"),
    ],
    "area": [
        (lambda s, a: trapezoid(a, s) / 100, "left the last point out"),
        (lambda s, a: trapezoid(a, s) / 90, "that are there"),
        (lambda s, a: trapezoid([*a, a[-1]], [*s, 100]) / 100, "hold the last accuracy"),
        (lambda s, a: trapezoid([*a, 0], [*s, 1]) / 100, "last point lies at 1"),
        (lambda s, a: trapezoid([*a, 0], [*s, 100]), "100 times too large"),
        (lambda s, a: trapezoid([*a, 0], [*s, 100]) / 1e4, "100 times too small"),
        (lambda s, a: sum(a), "without the widths"),
        (lambda s, a: sum(a) / len(a), "mean of the points"),
        (lambda s, a: np.mean([*a, 0]), "the last one too"),
        (lambda s, a: sum(np.diff([*s, 100]) * a) / 100, "stairs"),
        (lambda s, a: sum(np.diff([*s, 100]) * [*a[1:], 0]) / 100, "at their end alone"),
        (lambda s, a: 2 * auc(s, a), "twice too large"),
        (lambda s, a: -auc(s, a), "below 0"),
        (lambda s, a: trapezoid([*s, 100], [*a, 0]) / 100, "below 0"),
        (lambda s, a: 100 - auc(s, a), "above the curve"),
        (lambda s, a: torch.trapezoid(torch.tensor(a)) / 100, HERE),
        (lambda s, a: a[-1], HERE),
        (lambda s, a: np.cumsum(a), "has the shape"),
        (lambda s, a: trapezoid([*a, 0], s) / 100, "stopped with IndexError"),
        (lambda s, a: a / s, "stopped with TypeError"),
        (lambda s, a: s.append(100) or auc(s, a), "input number 1"),
        (lambda s, a: a.append(0) or trapezoid(a, [*s, 100]) / 100, "input number 2"),
        (lambda s, a: f"{auc(s, a)} %", "returns a str"),
        (lost, "returns nothing"),
    ],
    "beyond_chance": [
        (lambda s, a, r: auc(s, a) - np.mean([auc(s, one) for one in r]), "sign is turned"),
        (lambda s, a, r: auc(s, a), "of the map alone"),
        (lambda s, a, r: np.mean([auc(s, one) for one in r]), "of chance alone"),
        (lambda s, a, r: auc(s, r[0]) - auc(s, a), "first random order"),
        (lambda s, a, r: auc(s, r[-1]) - auc(s, a), "last random order"),
        (lambda s, a, r: max(auc(s, one) for one in r) - auc(s, a), "least harm"),
        (lambda s, a, r: min(auc(s, one) for one in r) - auc(s, a), "most harm"),
        (lambda s, a, r: sum(auc(s, one) for one in r) - auc(s, a), "add the random orders up"),
        (lambda s, a, r: torch.tensor([auc(s, one) - auc(s, a) for one in r]), "each random order"),
        (lambda s, a, r: np.mean(r, axis=0) - a, "an area is one number"),
        (lambda s, a, r: np.mean(np.mean(r, axis=0) - a), "mean of the points"),
        (
            lambda s, a, r: trapezoid(np.mean(r, axis=0), s) / 100 - trapezoid(a, s) / 100,
            "left the last point out",
        ),
        (
            lambda s, a, r: 100 - 100 * auc(s, a) / np.mean([auc(s, one) for one in r]),
            "divide by the area of chance",
        ),
        (
            lambda s, a, r: auc(s, a) / np.mean([auc(s, one) for one in r]),
            "divide the area of the map",
        ),
        (
            lambda s, a, r: (np.mean([auc(s, one) for one in r]) - auc(s, a)) / 100,
            "100 times too small",
        ),
        (lambda s, a, r: np.median([auc(s, one) for one in r]) - auc(s, a), HERE),
        (lambda s, a, r: auc(s, r) - auc(s, a), "stopped with TypeError"),
        (lambda s, a, r: r - a, "stopped with TypeError"),
        (lambda s, a, r: [auc(s, one) - auc(s, a) for one in r], "returns a list"),
        (lambda s, a, r: r.mean() - auc(s, a), "stopped with AttributeError"),
        (lambda s, a, r: r.pop() and 0, "input number 3"),
        (lost, "returns nothing"),
    ],
    "ia_score": [
        (lambda a, m: (a * m).sum(-1), "plain inner product"),
        (lambda a, m: a @ m, "plain inner product"),
        (lambda a, m: cosine_similarity(a, m, dim=-1) / len(m), "mean over patches"),
        (lambda a, m: (normalize(a, dim=-1) * m / m.norm()).mean(-1), "mean over patches"),
        (lambda a, m: (a.softmax(-1) * m.softmax(-1)).sum(-1), "softmax"),
        (lambda a, m: (normalize(a, dim=-1) * m).sum(-1), "Only the attention"),
        (lambda a, m: (a * m / m.norm()).sum(-1), "Only the attribution"),
        (lambda a, m: (a / a.sum(-1, keepdim=True) * m / m.sum()).sum(-1), "sums of the maps"),
        (lambda a, m: (a / a.amax(-1, keepdim=True) * m / m.max()).sum(-1), "largest values"),
        (lambda a, m: (a / a.norm() * m / m.norm()).sum(-1), "all heads together"),
        (lambda a, m: (a / lengths(a) ** 2 * m / m.norm() ** 2).sum(-1), "squared lengths"),
        (lambda a, m: cosine_similarity(a - a.mean(-1, True), m - m.mean(), dim=-1), "next exer"),
        (lambda a, m: normalize(a, dim=-1) * m / m.norm(), "for each patch"),
        (lambda a, m: cosine_similarity(a, m, dim=-1).mean(1), "over heads"),
        (lambda a, m: (normalize(a, dim=1) * m / m.norm()).sum(-1), "along the patches"),
        (lambda a, m: (a * m).sum(-1) / (a.norm(dim=-1) + m.norm()), "add the lengths"),
        (lambda a, m: (a - m).norm(dim=-1), HERE),
        (lambda a, m: cosine_similarity(a, m, dim=-1).mean(), "one number"),
        (lambda a, m: a.log().sum(-1) * math.nan, "NaN"),
        (lambda a, m: a.mT @ m, "stopped with RuntimeError"),
        (lambda a, m: a / a.norm(dim=-1), "stopped with RuntimeError"),
        (lambda a, m: [(a * m).sum(-1), 1], "returns a list"),
        (changed(lambda a, m: cosine_similarity(a, m, dim=-1)), "input number 1"),
        (lost, "returns nothing"),
    ],
    "centred_score": [
        (lambda a, m: cosine_similarity(a, m, dim=-1), "still the IA-score"),
        (
            lambda a, m: cosine_similarity(a, m, dim=-1) - m.mean() / (m**2).mean().sqrt(),
            "looks everywhere alike",
        ),
        (lambda a, m: cosine_similarity(a - a.mean(-1, True), m, dim=-1), "Only the attention"),
        (lambda a, m: cosine_similarity(a, m - m.mean(), dim=-1), "Only the attribution"),
        (lambda a, m: cosine_similarity(a - a.mean(), m - m.mean(), dim=-1), "all heads together"),
        (lambda a, m: cosine_similarity(a - a.mean(1, True), m - m.mean(), dim=-1), "the heads"),
        (lambda a, m: ((a - a.mean(-1, True)) * (m - m.mean())).sum(-1), "no cosine yet"),
        (lambda a, m: ((a - a.mean(-1, True)) * (m - m.mean())).mean(-1), "covariance"),
        (
            lambda a, m: (normalize(a - a.mean(-1, True), dim=-1) * m / m.norm()).sum(-1),
            "Only the attention",
        ),
        (
            lambda a, m: (
                ((a - a.mean(-1, True)) * (m - m.mean())).sum(-1) / a.norm(dim=-1) / m.norm()
            ),
            "maps had before",
        ),
        (lambda a, m: RIGHT["centred_score"][0](a, m).abs(), "lost the sign"),
        (lambda a, m: RIGHT["centred_score"][0](a, m).relu(), "cut off what is below 0"),
        (
            lambda a, m: ((a - a.mean(-1, True)) * (m - m.mean())).mean(-1) / a.std(-1) / m.std(),
            "one patch less",
        ),
        (
            lambda a, m: (
                cosine_similarity(a, m, dim=-1) - cosine_similarity(a, m, dim=-1).mean(-1, True)
            ),
            "off the score",
        ),
        (lambda a, m: cosine_similarity(a, m, dim=-1) - 0.5, HERE),
        (lambda a, m: RIGHT["centred_score"][0](a, m) ** 2, "You square"),
        (lambda a, m: a - a.mean(-1), "stopped with RuntimeError"),
        (lambda a, m: RIGHT["centred_score"][0](a, m).mean(), "one number"),
        (lambda a, m: RIGHT["centred_score"][0](a, m)[0], "has the shape"),
        (lambda a, m: np.corrcoef(a, m), "stopped with"),
        (changed(RIGHT["centred_score"][0]), "input number 1"),
        (lost, "returns nothing"),
    ],
    "staying": [
        (lambda r, own, n: ~drop(r, own, many(own, n)), "true for what is erased"),
        (lambda r, own, n: drop(r, own, many(own, n)) & own, "erase the marks"),
        (lambda r, own, n: drop(r, torch.ones_like(own), many(own, n)), "rank the marks"),
        (lambda r, own, n: drop(r, own, many(own, n), False), "least relevant"),
        (lambda r, own, n: drop(r, own, len(own) * n // 100), "of all tokens"),
        (lambda r, own, n: drop(r, own, math.ceil(int(own.sum()) * n / 100)), "round up"),
        (lambda r, own, n: drop(r, own, n), "as many tokens as the share says"),
        (lambda r, own, n: drop(r, own, n // 100 * int(own.sum())), "Nothing is erased"),
        (lambda r, own, n: torch.ones_like(own), "Nothing is erased"),
        (lambda r, own, n: own, "Those are all tokens of words"),
        (lambda r, own, n: drop(r.abs(), own, many(own, n)), "without the sign"),
        (
            lambda r, own, n: r.masked_fill(~own, -1e9).argsort(descending=True)[: many(own, n)],
            "places of what is erased",
        ),
        (
            lambda r, own, n: r.masked_fill(~own, -1e9).argsort(descending=True)[many(own, n) :],
            "places",
        ),
        (lambda r, own, n: r < r[own].mean(), HERE),
        (lambda r, own, n: r < r.max(), HERE),
        (lambda r, own, n: r * drop(r, own, many(own, n)), "with their relevance"),
        (lambda r, own, n: drop(r, own, many(own, n)).tolist(), "returns a list"),
        (lambda r, own, n: drop(r, own, many(own, n)).sum(), "one number"),
        (lambda r, own, n: r[own], "has the shape"),
        (lambda r, own, n: drop(r, own, own.sum() * n / 100)[:many], "stopped with TypeError"),
        (lambda r, own, n: r[own, n], "stopped with IndexError"),
        (lambda r, own, n: own.fill_(True), "input number 2"),
        (lost, "returns nothing"),
    ],
    "advice": [
        (None, "behind each of A, B, C, D"),
        ("helps", "behind each of A, B, C, D"),
        (["helps", "not shown", "harms", "not shown"], "behind each of A, B, C, D"),
        ({}, "behind each of A, B, C, D"),
        ({"A": "helps"}, "behind each of A, B, C, D"),
        (dict.fromkeys("ABCD"), "Nothing is chosen yet"),
        ({**V0, "D": None}, "D: nothing is chosen"),
        ({**V0, "A": "not shown"}, "A: Compare it with its twin"),
        ({**V0, "A": "harms"}, "A: Compare it with its twin"),
        ({**V0, "B": "helps"}, "B: The twin"),
        ({**V0, "B": "harms"}, "B: The twin"),
        ({**V0, "C": "helps"}, "C: Compare it with its twin"),
        ({**V0, "C": "not shown"}, "C: Compare it with its twin"),
        ({**V0, "D": "helps"}, "D: A large number"),
        ({**V0, "D": "harms"}, "D: A large number"),
        (dict.fromkeys("ABCD", "helps"), "B: The twin"),
        (dict.fromkeys("ABCD", "not shown"), "A: Compare"),
        (dict(A="helps", B="helps", C="not shown", D="helps"), "B: The twin"),
        ({**V0, "A": "yes"}, 'A: "helps", "harms" or "not shown"'),
        ({**V0, "B": "Helps"}, 'B: "helps", "harms" or "not shown"'),
        ({**V0, "B": "not_shown"}, 'B: "helps", "harms" or "not shown"'),
    ],
}
