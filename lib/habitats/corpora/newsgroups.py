"""20 Newsgroups: about 18,800 messages of 20 groups, from the files that scikit-learn downloads.

Beyond Intuition Sec. 4.2 perturbs 3,000 of them. `20news-bydate.tar.gz` unpacks to the folders
`20news-bydate-train` and `20news-bydate-test` (split by date), with one folder a group and one
file a message. scikit-learn itself keeps them as a pickle, which is never read here: unpickling
runs whatever the file says.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_files

# Of a private module, where the published protocol's rules are; the tests hold what they do.
from sklearn.datasets._twenty_newsgroups import (
    strip_newsgroup_footer,
    strip_newsgroup_header,
    strip_newsgroup_quoting,
)

from relevit.text.documents import Corpus, Document

TRAIN = "20news-bydate-train"
TEST = "20news-bydate-test"
ARCHIVE = "20news-bydate.tar.gz"
BARE = ", without headers, signatures and quotes"


def read_newsgroups(
    data_root: Path, *, validation: int = 1000, bare: bool = False, seed: int = 0
) -> Corpus:
    """Both folders of `data_root`; `validation` messages of the training folder are held out.

    Bytes are read as Latin-1, as scikit-learn does. Classes are the groups in alphabetical order.
    A message is read whole; its header often names the group, so that a model needs to read nothing
    else. `bare` takes header, signature and quotes away, as scikit-learn's `remove` does
    (differences F4). Messages that are blank then are left out; the published scripts keep them.
    """
    classes, train = _read(data_root / TRAIN, bare)
    found, test = _read(data_root / TEST, bare)
    if found != classes or not train or not test:
        raise ValueError(
            f"newsgroups: {TRAIN} has {len(train)} messages of {len(classes)} groups, {TEST} "
            f"{len(test)} of {len(found)}; they need messages of the same groups: unpack {ARCHIVE} "
            "again"
        )
    if validation >= len(train):
        raise ValueError(
            f"newsgroups: validation_texts = {validation} of {len(train)} messages in "
            f"{data_root / TRAIN}; give at most {len(train) - 1}"
        )
    order = np.random.default_rng(seed).permutation(len(train)).tolist()
    held, rest = sorted(order[:validation]), sorted(order[validation:])
    return Corpus(
        classes,
        train=tuple(train[i] for i in rest),
        validation=tuple(train[i] for i in held),
        test=tuple(test),
        source="20 Newsgroups, by date" + (BARE if bare else ""),
        licence="The messages belong to those who posted them; the set is offered for research.",
    )


def _read(folder: Path, bare: bool) -> tuple[tuple[str, ...], list[Document]]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"newsgroups: folder {folder} is missing; unpack {ARCHIVE} in {folder.parent} (the "
            "pickle of scikit-learn is not read)"
        )
    files = load_files(str(folder), shuffle=False, encoding="latin1")
    documents = []
    for path, text, label in zip(files.filenames, files.data, files.target, strict=True):
        body = _bare(text.replace("\r\n", "\n")) if bare else text
        if Path(path).name.isdigit() and body.strip():  # others are no messages
            documents.append(Document(body, int(label)))
    return tuple(files.target_names), documents


def _bare(text: str) -> str:
    return strip_newsgroup_quoting(strip_newsgroup_footer(strip_newsgroup_header(text)))
