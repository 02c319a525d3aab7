"""Text and images with text: training on the corpora, and their tables.

`reading` and `pretrained` have what 09_text asks for by name, `train` finetunes a classifier,
`ranking` sums up its maps; `towers`, `joining` and `encoders` make a dual encoder, `zero_shot`,
`phrases` and `words` test it.
"""

from reproduction.language.encoders import join_encoder, ready_encoder
from reproduction.language.phrases import group_pairs, likely_pairs, phrase_maps, pointing
from reproduction.language.pretrained import load_reader
from reproduction.language.ranking import (
    SCORES,
    concatenated,
    document_scores,
    leads,
    score_table,
    variants_first,
)
from reproduction.language.reading import COUNTS, read_corpora, reasoning_documents
from reproduction.language.towers import begin_towers, draw_examples, examples
from reproduction.language.train import accuracy, train_on_corpus
from reproduction.language.words import word_shares
from reproduction.language.zero_shot import (
    embed_batches,
    erased_group,
    erased_images,
    projected,
    zero_shot_perturbation,
    zero_shot_rows,
)
