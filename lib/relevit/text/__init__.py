"""Text: encoders of transformers, called so that the attributions of images explain texts.

Both tests of Beyond Intuition's Sec. 4.2; `clip` has images with text. What needs transformers or
tokenizers loads them when it is called.
"""

from relevit.text.documents import Document
from relevit.text.encoder import from_bert, text_logits
from relevit.text.rationales import rationale_rows, rationale_table, top_counts, with_rationale
from relevit.text.token_maps import TEXT_METHODS, attention_by_block, attribute, method_maps
from relevit.text.token_perturbation import (
    curve_table,
    own_answers,
    perturb_texts,
    perturbation_table,
)
from relevit.text.tokens import encode, load_tokenizer, read_texts
