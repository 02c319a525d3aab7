"""Beyond Intuition: perception times feedback, token-wise and head-wise.

Source: Chen et al., Rethinking Token Attributions inside Transformers (TMLR 2023), T = P * F_c.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.rows import Pooling, pool_rows
from relevit.attribution.feedback import FEEDBACKS, feed_back
from relevit.attribution.observe import first_block, model_family, observe
from relevit.attribution.path import Rule, check_chunk, integration_path, path_baseline
from relevit.attribution.perception import PERCEPTIONS, perceive
from relevit.relevance import Protocol

CHUNK = 40  # images run at once along the path; bounds the memory


def express(
    model: nn.Module,
    images: Inputs,
    target: Int[Tensor, " batch"] | None = None,
    *,
    perception: str,
    feedback: str = "integrated_gradient",
    **options: Any,
) -> Float[Tensor, "batch patches"]:
    """T = P * F_c, entry by entry, in the rows that the head reads (Eq. 16 to 18).

    `perception` is one of PERCEPTIONS, `feedback` one of FEEDBACKS: together the rows and
    columns of the paper's Table 4. `options` and errors: as `express_all`.
    """
    (made,) = express_all(model, images, target, pairs=[(perception, feedback)], **options)
    return made


def express_all(
    model: nn.Module,
    images: Inputs,
    target: Int[Tensor, " batch"] | None = None,
    *,
    pairs: Sequence[tuple[str, str]],
    protocol: Protocol = "published",
    start_block: int | None = None,
    pooling: Pooling | None = None,
    steps: int | None = None,
    rule: Rule | None = None,
    baseline: Float[Tensor, "*start"] | None = None,
    chunk: int = CHUNK,
    create_graph: bool = False,
) -> list[Float[Tensor, "batch patches"]]:
    """`express` for several pairs of perception and feedback; each part is computed once.

    `start_block` as in `first_block` (differences C3, C4: later blocks stand on the left, in text
    and code). `steps`, `rule`, `baseline`: the path, see `integration_path` and `path_baseline`.
    `chunk` images are run at once along it. With `create_graph` all maps have one graph.
    Raises: ValueError without pairs, for an unknown part, and as `observe`, `first_block`,
    `integration_path`.
    """
    if not pairs:
        raise ValueError("pairs: none given; give one perception and feedback or more")
    perceptions, feedbacks = (tuple(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    _check_parts("perception", perceptions, tuple(PERCEPTIONS))
    _check_parts("feedback", feedbacks, FEEDBACKS)
    starts = {name: first_block(model, start_block, protocol, name) for name in perceptions}
    path = integration_path(protocol, steps, rule)
    check_chunk(chunk)
    # Asked for only where there is a path: not every model knows what black is.
    black = None
    if "integrated_gradient" in feedbacks:
        black = path_baseline(model, images, protocol, baseline)
    parts = [PERCEPTIONS[name] for name in perceptions]
    last = "none" if set(feedbacks) == {"none"} else "last"
    gradients = "all" if any(part.needs_gradients for part in parts) else last
    # The published rule for CLIP computes the attention of every token again (D12).
    moved = any(part.moves_tokens for part in parts)
    seen = observe(
        model,
        images,
        target,
        gradients=gradients,
        pooling=pooling,
        whole=moved and model_family(model) == "clip" and protocol == "published",
        create_graph=create_graph,
    )
    seen_rows = {name: perceive(model, seen, name, protocol, starts[name]) for name in perceptions}
    fed_rows = {
        name: feed_back(model, images, seen, name, path, black, chunk, create_graph)
        for name in feedbacks
    }
    made = [seen_rows[perception] * fed_rows[feedback] for perception, feedback in pairs]
    pooled = [pool_rows(rows, seen.pooling, seen.prefix) for rows in made]
    return pooled if create_graph else [values.detach() for values in pooled]


def _check_parts(kind: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{kind} {name!r} is unknown; use one of {known}")


def token_wise(
    model: nn.Module, images: Inputs, target: Int[Tensor, " batch"] | None = None, **options: Any
) -> Float[Tensor, "batch patches"]:
    """Attention whose keys are weighed by the length of their value (Eq. 14), times feedback.

    `options` and errors: as `express_all`.
    """
    return express(model, images, target, perception="token_wise", **options)


def head_wise(
    model: nn.Module, images: Inputs, target: Int[Tensor, " batch"] | None = None, **options: Any
) -> Float[Tensor, "batch patches"]:
    """Attention whose heads are weighed by their share in the class score (Eq. 15), times feedback.

    `options` and errors: as `express_all`.
    """
    return express(model, images, target, perception="head_wise", **options)
