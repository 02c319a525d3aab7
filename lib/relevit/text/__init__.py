"""Text: encoders of transformers, called so that the attributions of images explain texts.

Both tests of Beyond Intuition's Sec. 4.2; `clip` has images with text. What needs transformers or
tokenizers loads them when it is called.
"""

from relevit.text.documents import Document
from relevit.text.encoder import from_bert, text_logits
from relevit.text.rationales import rationale_rows, rationale_table, top_counts, with_rationale
from relevit.text.token_maps import TEXT_METHODS, attention_by_block, attribute, method_maps
from relevit.text.token_perturbation import curve_table, perturb_texts, perturbation_table
from relevit.text.tokens import encode, load_tokenizer, read_texts

__all__ = [
    "TEXT_METHODS",
    "Document",
    "attention_by_block",
    "attribute",
    "curve_table",
    "encode",
    "from_bert",
    "load_tokenizer",
    "method_maps",
    "perturb_texts",
    "perturbation_table",
    "rationale_rows",
    "rationale_table",
    "read_texts",
    "text_logits",
    "top_counts",
    "with_rationale",
]
