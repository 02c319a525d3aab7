"""What single texts show of a classifier and of a method: where it looks, and where it starts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor

from relevit.attention.recording import record_attention
from relevit.attribution import VARIANTS
from relevit.attribution.observe import first_block
from relevit.evaluate.erasing import erased_parts, erasing_ranks
from relevit.relevance import Protocol
from relevit.text.attribute import attribute
from relevit.text.comparison import Maps
from relevit.text.encoder import TextTransformer
from relevit.text.experiment import Texts
from relevit.text.tokens import Tokens

STARTING = ("transformer_attribution", "ga", *VARIANTS)  # begin at a later block as published


def class_attention(model: TextTransformer, tokens: Tokens) -> Float[Tensor, "blocks tokens"]:
    """How much the class token attends to each token in each block, mean over heads."""
    ids = torch.tensor([tokens.ids], device=model.embedding.words.weight.device)
    with torch.no_grad(), record_attention(model) as tape:
        model(model.embed(ids))
    return torch.stack([attention[0, :, 0].mean(dim=0).cpu() for attention in tape.maps])


def start_table(
    model: TextTransformer, texts: Texts, protocol: Protocol = "published"
) -> pd.DataFrame:
    """What leaving out the early blocks changes (differences D8), one row a method of STARTING.

    Columns: published and described (the first block that counts), same_order (Spearman's
    correlation of both maps over a text's own tokens, mean over texts), same_top_pct (texts whose
    highest token is the same). The rules are those of `protocol` in both.
    """
    rows = {}
    for name in STARTING:
        starts = [first_block(model, None, kind, name) for kind in ("published", "described")]
        pairs = zip(
            *(
                attribute(model, texts.tokens, name, protocol=protocol, start_block=start)
                for start in starts
            ),
            texts.tokens,
            strict=True,
        )
        found = [_agreement(*pair) for pair in pairs]
        order, top = (np.nanmean(values) for values in zip(*found, strict=True))
        rows[name] = (*starts, float(order), 100 * float(top))
    columns = ["published", "described", "same_order", "same_top_pct"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("method")


def path_starts(
    model: TextTransformer, tokens: Tokens, method: str = "token_wise"
) -> tuple[pd.DataFrame, Maps]:
    """The path of one text from no embedding and from padding (differences D9).

    The table has the predicted class's logit and probability at both starts and for the text
    itself; the maps are those of `method` with either start, all else as published.
    """
    ids = torch.tensor([tokens.ids], device=model.embedding.words.weight.device)
    with torch.no_grad():
        text = model.embed(ids)
        starts = {
            "zero (published)": text.new_zeros(1),
            "padding (described)": model.path_baseline(text),
        }
        inputs = {**starts, "the text": text}
        logits = torch.cat([model(start.expand_as(text)) for start in inputs.values()]).cpu()
    target = logits[-1:].argmax(dim=1)
    table = pd.DataFrame(
        {
            "logit": logits[:, target].flatten().tolist(),
            "probability_pct": (100 * logits.softmax(dim=1))[:, target].flatten().tolist(),
        },
        index=pd.Index(inputs, name="input"),
    )
    maps = {
        name: attribute(model, [tokens], method, target, protocol="published", baseline=start)
        for name, start in starts.items()
    }
    return table, maps


def left_after(
    tokens: Tokens, values: Float[Tensor, " tokens"], share_pct: float, gap: str = "·"
) -> str:
    """The words of a text of which a share is erased, most relevant first; `gap` for each other."""
    own = [place for place, special in enumerate(tokens.special) if not special]
    ranks = erasing_ranks(values[own][None], "positive")[0]
    count = erased_parts(len(own), share_pct)
    words = [tokens.words[place] for place in own]
    kept = (gap if rank < count else word for word, rank in zip(words, ranks.tolist(), strict=True))
    return " ".join(kept)


def _agreement(one: Tensor, other: Tensor, tokens: Tokens) -> tuple[float, bool]:
    """Rank correlation over the text's own tokens, NaN for a constant map; and the same top."""
    own = ~torch.tensor(tokens.special)
    one, other = one[own], other[own]
    constant = any(bool((values == values[0]).all()) for values in (one, other))
    order = np.nan if constant else spearmanr(one.numpy(), other.numpy()).statistic
    return float(order), bool(one.argmax() == other.argmax())
