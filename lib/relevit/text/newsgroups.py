"""20 Newsgroups: about 18,800 messages of 20 groups, from the files that scikit-learn downloads.

Beyond Intuition Sec. 4.2 perturbs 3,000 of them. `20news-bydate.tar.gz` unpacks to the folders
`20news-bydate-train` and `20news-bydate-test` (split by date), with one folder a group and one
file a message. scikit-learn itself keeps them as a pickle, `20news-bydate_py3.pkz`, which is never
read here: unpickling runs whatever the file says.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from sklearn.datasets import load_files

from relevit.relevance import Protocol, check_protocol
from relevit.text.documents import Corpus, Document

TRAIN = "20news-bydate-train"
TEST = "20news-bydate-test"
ARCHIVE = "20news-bydate.tar.gz"
PICKLE = "20news-bydate_py3.pkz"
BARE = ", without headers, signatures and quotes"
# A line that is quoted, or says who is.
_QUOTED = re.compile(r"^[>|]|^In article|^Quoted from|(?:writes|wrote|says|said):|writes in")
LICENCE = "The messages belong to those who posted them; the set is offered for research."


class TooFewMessages(ValueError):
    """Fewer messages to train on than are to be held out for validation."""


def read_newsgroups(
    data_root: Path, *, validation: int = 1000, protocol: Protocol = "described", seed: int = 0
) -> Corpus:
    """Both folders of `data_root`; `validation` messages of the training folder are held out.

    Bytes are read as Latin-1, as scikit-learn does. Classes are the groups in alphabetical order.
    As `described` a message is read whole; its header often names the group, so that a model needs
    to read nothing else. `published` takes header, signature and quotes away (differences F4).
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


def without_header(text: str) -> str:
    """What follows the first blank line, as scikit-learn's `remove=("headers",)`."""
    return text.partition("\n\n")[2]


def without_signature(text: str) -> str:
    """What stands before the last line that is blank or of hyphens alone, as `"footers"` there.

    Blank lines at the end do not count. This may be a last paragraph, too. Without such a line, or
    with one in front alone, it is the whole text.
    """
    lines = text.strip().split("\n")
    parting = [place for place, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: parting[-1]]) if parting and parting[-1] else text


def without_quotes(text: str) -> str:
    """The lines that are not quoted and do not say who is, as `"quotes"` there."""
    return "\n".join(line for line in text.split("\n") if not _QUOTED.search(line))


def _read(data_root: Path, name: str, bare: bool) -> tuple[tuple[str, ...], list[Document]]:
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
        body = _bare(text.replace("\r\n", "\n")) if bare else text
        if file.name.isdigit() and body.strip():  # others are no messages
            group = files.target_names[label]
            documents.append(Document(body, int(label), name=f"{group}/{file.name}"))
    if not documents:
        raise ValueError(f"newsgroups: {folder} has no messages; unpack {ARCHIVE} again")
    return tuple(files.target_names), documents


def _bare(text: str) -> str:
    return without_quotes(without_signature(without_header(text)))


def _has_pickle(data_root: Path) -> bool:
    return (data_root / PICKLE).exists()
