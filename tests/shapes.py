"""How types and shapes are checked where RELEVIT_SHAPES is set: an int may stand for a float, as in Python."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
