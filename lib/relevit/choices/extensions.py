"""What others add without editing the package: methods, losses, cures, readers, models.

From one's own file by a call, `METHODS.register(mine)`, which may stand as a decorator. For the
command, and for every process of a preset, by an entry point of an installed package:

    [project.entry-points."relevit.methods"]
    mine = "my_file:mine"
"""

from __future__ import annotations

import warnings
from collections import UserDict
from collections.abc import Collection, Mapping
from functools import partial
from importlib.metadata import entry_points
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

Thing = TypeVar("Thing")


class Extensible(UserDict[str, Thing]):
    """A table by name that others add to: its `own` entries first, then theirs.

    Entry points of the `group` are loaded when the table is first read. One that cannot be loaded,
    or whose name is taken, is left out with a warning, and the rest works. `taken` are further
    names that nothing here may have.
    """

    def __init__(
        self, group: str, own: Mapping[str, Thing] | None = None, taken: Collection[str] = ()
    ) -> None:
        self.group, self._known = group, dict(own or {})
        self._taken = {*self._known, *taken}
        self._complete = False

    def register(self, thing: Thing, name: str = "") -> Thing:
        """Add `thing` by its own name, unless told another, and return it.

        What is defined again, as in a notebook's cell, replaces what it was.
        Raises: ValueError for a name that is taken, or cannot be one.
        """
        name = name or getattr(thing, "__name__", "")
        if not name.isidentifier():
            raise ValueError(
                f"{self.group}: {name!r} is no name; give one of letters, digits and _"
            )
        before = self._known.get(name, thing)
        if name in self._taken or _place(before) != _place(thing):
            raise ValueError(f"{self.group}: the name {name!r} is taken; give another")
        self._known[name] = thing
        return thing

    @property
    def data(self) -> dict[str, Thing]:  # what UserDict reads and writes
        if not self._complete:
            self._complete = True  # first: what is loaded may read, or register itself
            for point in sorted(entry_points(group=self.group), key=lambda point: point.name):
                try:
                    self.register(point.load(), point.name)
                except Exception as error:  # whatever the code of others raises
                    of = point.dist.name if point.dist else point.value
                    reason = f"{type(error).__name__}: {error}".splitlines()[0]
                    warnings.warn(
                        f"{self.group}: {point.name!r} of {of} is left out ({reason}); mend or "
                        "uninstall it",
                        stacklevel=2,
                    )
        return self._known


def _place(thing: Any) -> tuple[Any, ...]:
    """Where a function was defined, also below its `partial`."""
    thing = getattr(thing, "func", thing)
    return tuple(getattr(thing, name, id(thing)) for name in ("__module__", "__qualname__"))


def one_of(own: Collection[str], table: Extensible) -> Any:
    """The type of a parameter: one of these words, or a name of the table."""
    return Annotated[str, AfterValidator(partial(_known, own, table))]


def _known(own: Collection[str], table: Extensible, name: str) -> str:
    if name not in own and name not in table:
        known = ", ".join([*own, *table]) or "nothing, or add it (docs/extending.md)"
        raise ValueError(f"it is unknown; use {known}")
    return name
