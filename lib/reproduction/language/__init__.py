"""Text and images with text: training on the corpora, and their tables.

`reading` and `pretrained` have what 09_text asks for by name, `train` finetunes a classifier,
`ranking` sums up its maps; `encoders` and `zero_shot` have CLIP, for 09a_text.
"""

from reproduction.language.encoders import ready_encoder
from reproduction.language.pretrained import load_reader
from reproduction.language.ranking import (
    SCORES,
    concatenated,
    document_scores,
    erase_words,
    leads,
    over_random,
    score_table,
    variants_first,
)
from reproduction.language.reading import read_corpora, reasoning_documents, two_sentences
from reproduction.language.train import accuracy_table, train_on_corpora
from reproduction.language.zero_shot import right_answers, zero_shot_perturbation, zero_shot_table
