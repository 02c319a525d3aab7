"""20 Newsgroups: about 18,800 messages of 20 groups, from the files that scikit-learn downloads.

Beyond Intuition Sec. 4.2 perturbs 3,000 of them. `20news-bydate.tar.gz` unpacks to the folders
`20news-bydate-train` and `20news-bydate-test` (split by date), with one folder a group and one
file a message. scikit-learn itself keeps them as a pickle, `20news-bydate_py3.pkz`, which is never
read here: unpickling runs whatever the file says.
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

from relevit.protocols import Protocol, check_protocol
from relevit.text.documents import Corpus, Document

TRAIN = "20news-bydate-train"
TEST = "20news-bydate-test"
ARCHIVE = "20news-bydate.tar.gz"
PICKLE = "20news-bydate_py3.pkz"
BARE = ", without headers, signatures and quotes"
LICENCE = "The messages belong to those who posted them; the set is offered for research."


class TooFewMessages(ValueError):
    """Fewer messages to train on than are to be held out for validation."""


def read_newsgroups(
    data_root: Path, *, validation: int = 1000, protocol: Protocol = "described", seed: int = 0
) -> Corpus:
    """Both folders of `data_root`; `validation` messages of the training folder are held out.

    Bytes are read as Latin-1, as scikit-learn does. Classes are the groups in alphabetical order.
    As `described` a message is read whole; its header often names the group, so that a model needs
    to read nothing else. `published` takes header, signature and quotes away, as scikit-learn's
    `remove` does (differences F4).
    Messages that are blank then are left out; the published scripts keep them.
    Raises: FileNotFoundError for a missing folder; ValueError for other groups in the test folder
    than in the training folder, no messages, or an unknown protocol; TooFewMessages for a
    `validation` that leaves none to train on.
    """
    check_protocol(protocol)
    bare = protocol == "published"
    classes, train = _read(data_root, TRAIN, bare)
    found, test = _read(data_root, TEST, bare)
    if found != classes:
        raise ValueError(
            f"newsgroups: {data_root / TEST} has other groups than {TRAIN}: "
            f"{sorted(set(found) ^ set(classes))}; unpack {ARCHIVE} again"
        )
    if not 0 <= validation < len(train):
        raise TooFewMessages(
            f"newsgroups: {validation} messages for validation of {len(train)} in "
            f"{data_root / TRAIN}; give 0 to {len(train) - 1}"
        )
    order = np.random.default_rng(seed).permutation(len(train)).tolist()
    held, rest = sorted(order[:validation]), sorted(order[validation:])
    return Corpus(
        classes,
        train=tuple(train[i] for i in rest),
        validation=tuple(train[i] for i in held),
        test=tuple(test),
        source="20 Newsgroups, by date" + (BARE if bare else ""),
        licence=LICENCE,
    )


def _read(data_root: Path, name: str, bare: bool) -> tuple[tuple[str, ...], list[Document]]:
    folder = data_root / name
    if not folder.is_dir():
        found = (data_root / PICKLE).exists()
        pickled = f" ({PICKLE} is a pickle and is not read)" if found else ""
        raise FileNotFoundError(
            f"newsgroups: folder {folder} is missing{pickled}; unpack {ARCHIVE} in {data_root}"
        )
    files = load_files(str(folder), shuffle=False, encoding="latin1")
    documents = []
    for path, text, label in zip(files.filenames, files.data, files.target, strict=True):
        file = Path(path)
        body = _bare(text.replace("\r\n", "\n")) if bare else text
        if file.name.isdigit() and body.strip():  # others are no messages
            group = files.target_names[label]
            documents.append(Document(body, int(label), name=f"{group}/{file.name}"))
    if not documents:
        raise ValueError(f"newsgroups: {folder} has no messages; unpack {ARCHIVE} again")
    return tuple(files.target_names), documents


def _bare(text: str) -> str:
    return strip_newsgroup_quoting(strip_newsgroup_footer(strip_newsgroup_header(text)))
