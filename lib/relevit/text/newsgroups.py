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

from relevit.text.documents import Corpus, Document

TRAIN = "20news-bydate-train"
TEST = "20news-bydate-test"
ARCHIVE = "20news-bydate.tar.gz"
PICKLE = "20news-bydate_py3.pkz"
LICENCE = "The messages belong to those who posted them; the set is offered for research."


def read_newsgroups(
    data_root: Path, *, validation: int = 1000, headers: bool = True, seed: int = 0
) -> Corpus:
    """Both folders of `data_root`; `validation` messages of the training folder are held out.

    Bytes are read as Latin-1, as scikit-learn does. Classes are the groups in alphabetical order.
    Without `headers` a message begins after its first blank line: a group's name often stands in
    the lines before, so that a model needs to read nothing else. Messages that are then blank are
    left out. Quotes and signatures stay: scikit-learn's functions that drop them are private.
    Raises: FileNotFoundError for a missing folder, ValueError for other groups in the test folder
    than in the training folder, no messages, or a `validation` that leaves none to train on.
    """
    classes, train = _read(data_root, TRAIN, headers)
    found, test = _read(data_root, TEST, headers)
    if found != classes:
        raise ValueError(
            f"newsgroups: {data_root / TEST} has other groups than {TRAIN}: "
            f"{sorted(set(found) ^ set(classes))}; unpack {ARCHIVE} again"
        )
    if not 0 <= validation < len(train):
        raise ValueError(
            f"newsgroups: {validation} messages for validation of {len(train)} in {TRAIN}; give "
            f"0 to {len(train) - 1}"
        )
    order = np.random.default_rng(seed).permutation(len(train)).tolist()
    held, rest = sorted(order[:validation]), sorted(order[validation:])
    return Corpus(
        classes,
        train=tuple(train[i] for i in rest),
        validation=tuple(train[i] for i in held),
        test=tuple(test),
        source="20 Newsgroups, by date" + ("" if headers else ", without headers"),
        licence=LICENCE,
    )


def _read(data_root: Path, name: str, headers: bool) -> tuple[tuple[str, ...], list[Document]]:
    folder = data_root / name
    if not folder.is_dir():
        pickled = f" ({PICKLE} is a pickle and is not read)" if _has_pickle(data_root) else ""
        raise FileNotFoundError(
            f"newsgroups: folder {folder} is missing{pickled}; unpack {ARCHIVE} in {data_root}"
        )
    files = load_files(str(folder), shuffle=False, encoding="latin1")
    documents = []
    for path, text, label in zip(files.filenames, files.data, files.target, strict=True):
        file = Path(path)
        body = text if headers else _after_header(text)
        if file.name.isdigit() and body.strip():  # others are no messages
            group = files.target_names[label]
            documents.append(Document(body, int(label), name=f"{group}/{file.name}"))
    if not documents:
        raise ValueError(f"newsgroups: {folder} has no messages; unpack {ARCHIVE} again")
    return tuple(files.target_names), documents


def _after_header(text: str) -> str:
    return text.replace("\r\n", "\n").partition("\n\n")[2]


def _has_pickle(data_root: Path) -> bool:
    return (data_root / PICKLE).exists()
