"""How types and shapes are checked with RELEVIT_SHAPES=1: an int may stand for a float."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
