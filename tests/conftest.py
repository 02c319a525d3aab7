"""What this machine cannot run is left out, with a reason; seeds are fixed."""

from __future__ import annotations

import os
import sys

import jaxtyping
import pytest
from jaxtyping import install_import_hook

# The rooms with tensors in them: with RELEVIT_SHAPES=1 every call is held against its annotations,
# shapes included, which takes a quarter longer.
CHECKED = {
    "relevit": "attribution data evaluate finetune iav losses maps masks models text",
    "reproduction": "language measures plots training",
}
if os.environ.get("RELEVIT_SHAPES"):
    rooms = [f"{package}.{room}" for package, names in CHECKED.items() for room in names.split()]
    install_import_hook(rooms, "shapes.checked")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where torch sees no CUDA device."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch  # slow to load, so only when there is something to decide

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="torch.cuda.is_available() is False"))


@pytest.fixture(scope="module", autouse=True)
def same_weights_in_any_order() -> None:
    """Seed torch for each file, so that random weights do not depend on the tests run before."""
    if "torch" in sys.modules:  # slow to load; a file that uses it has loaded it by now
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def types_are_checked_but_where_wrong_ones_are_meant(request, monkeypatch) -> None:
    """`@pytest.mark.wrong_types`: the test gives a wrong type or shape to see our own message."""
    if request.node.get_closest_marker("wrong_types"):
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
