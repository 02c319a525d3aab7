"""Beyond Intuition: perception times feedback, token-wise and head-wise.

Source: Chen et al., Rethinking Token Attributions inside Transformers (TMLR 2023), T = P * F_c.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attribution.feedback import FEEDBACKS, feed_back
from relevit.attribution.observe import first_block, model_family, observe
from relevit.attribution.path import Rule, check_chunk, integration_path, path_baseline
from relevit.attribution.perception import PERCEPTIONS, perceive
from relevit.relevance import Protocol
from relevit.rows import Pooling, pool_rows

CHUNK = 40  # images run at once along the path; bounds the memory


def express(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Int[Tensor, " batch"] | None = None,
    *,
    perception: str,
    feedback: str = "integrated_gradient",
    protocol: Protocol = "published",
    start_block: int | None = None,
    pooling: Pooling | None = None,
    steps: int | None = None,
    rule: Rule | None = None,
    baseline: Float[Tensor, "3 1 1"] | None = None,
    chunk: int = CHUNK,
    create_graph: bool = False,
) -> Float[Tensor, "batch patches"]:
    """T = P * F_c, entry by entry, in the rows that the head reads (Eq. 16 to 18).

    `perception` is one of PERCEPTIONS, `feedback` one of FEEDBACKS: together the rows and
    columns of the paper's Table 4. `start_block` as in `first_block` (differences C3, C4:
    later blocks stand on the left, in text and code). `steps`, `rule`, `baseline`: the path,
    see `integration_path` and `path_baseline`. `chunk` images are run at once along it.
    Raises: ValueError for an unknown part, and as `observe`, `first_block`, `integration_path`.
    """
    for kind, name, known in (
        ("perception", perception, tuple(PERCEPTIONS)),
        ("feedback", feedback, FEEDBACKS),
    ):
        if name not in known:
            raise ValueError(f"{kind} {name!r} is unknown; use one of {known}")
    parts = PERCEPTIONS[perception]
    start = first_block(model, start_block, protocol, perception)
    path = integration_path(protocol, steps, rule)
    check_chunk(chunk)
    # Asked for only where there is a path: not every model knows what black is.
    black = None
    if feedback == "integrated_gradient":
        black = path_baseline(model, images, protocol, baseline)
    gradients = "all" if parts.needs_gradients else "none" if feedback == "none" else "last"
    # The published rule for CLIP computes the attention of every token again (D12).
    whole = parts.moves_tokens and model_family(model) == "clip" and protocol == "published"
    seen = observe(
        model, images, target,
        gradients=gradients, pooling=pooling, whole=whole, create_graph=create_graph,
    )  # fmt: skip
    rows = perceive(model, seen, perception, protocol, start)
    rows = rows * feed_back(model, images, seen, feedback, path, black, chunk, create_graph)
    pooled = pool_rows(rows, seen.pooling, seen.prefix)
    return pooled if create_graph else pooled.detach()


def token_wise(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Int[Tensor, " batch"] | None = None,
    **options: Any,
) -> Float[Tensor, "batch patches"]:
    """Attention whose keys are weighed by the length of their value (Eq. 14), times feedback.

    `options` and errors: as `express`.
    """
    return express(model, images, target, perception="token_wise", **options)


def head_wise(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Int[Tensor, " batch"] | None = None,
    **options: Any,
) -> Float[Tensor, "batch patches"]:
    """Attention whose heads are weighed by their share in the class score (Eq. 15), times feedback.

    `options` and errors: as `express`.
    """
    return express(model, images, target, perception="head_wise", **options)
