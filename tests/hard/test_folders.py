"""Three hundred data sets of one's own: each is read rightly, or refused by what is wrong in it."""

import numpy as np

from relevit_own.check import apart, examine, need_usable
from relevit_own.folder import read_splits
from relevit_own.outlines import MaskValues

from . import folders

COUNT = 300


def read(case: folders.Case) -> dict[int, tuple[str, str, bytes | None]]:
    """Part, class and mask of each photograph that is read, by its number."""
    options = dict(case.options)
    values = MaskValues(**options.pop("values", {}))
    parts = read_splits(case.path, values=values, **options)
    found = {name: examine(part, workers=1) for name, part in parts.items()}
    for each in found.values():
        need_usable(each)
    read = {}
    for name, part in apart({name: each.listing for name, each in found.items()})[0].items():
        for place, mask in enumerate(part.masks):
            with part.picture(place) as image:
                number = folders.number_of(image)
            assert number not in read, "twice"
            packed = None if mask is None else np.packbits(part.mask(place)).tobytes()
            read[number] = (name, part.classes[part.labels[place]], packed)
    return read


def test_each_is_read_rightly_or_refused_by_name(tmp_path):
    wrong, refused = [], 0
    for seed in range(COUNT):
        case = folders.make(tmp_path / f"{seed:03d}", seed)
        try:
            found = read(case)
        except (ValueError, FileNotFoundError) as error:
            refused += 1
            if not case.refused or case.refused not in str(error):
                wrong.append((seed, case.what, case.refused, str(error)))
        else:
            if case.refused or found != case.truth:
                wrong.append((seed, case.what, case.refused, "read otherwise"))
    assert wrong == []
    assert COUNT / 4 < refused < 3 * COUNT / 4, "both are tried"
