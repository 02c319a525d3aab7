"""Write what the page of homes shows, and the poster's picture, from the workshop preset.

make reproduce && python tools/homes_page.py
"""

from __future__ import annotations

import base64
import json
import math

import matplotlib
import torch
from matplotlib.figure import Figure
from PIL import Image

from habitats.benchmark import Benchmark, open_benchmark
from habitats.cutouts import home_family
from habitats.homes import HOMES
from habitats.textures import SEEN
from relevit.base.files import project_root
from relevit.data.batch import Batch
from relevit.evaluate.looking import Look, look
from relevit.models.loading import load_model
from reproduction import plots
from reproduction.measures import paired
from reproduction.params.cells import params_of
from reproduction.plots.images import Tile, bare, draw_tile, pixels_of, tile_grid
from reproduction.plots.style import stored
from reproduction.runs import grids
from reproduction.runs.effects import TWINS
from reproduction.runs.grids import OURS, OWN
from reproduction.runs.run import weights_of
from reproduction.stages import preset_file

DOCS = project_root() / "docs"
KEYS = {"original": (paired.ORIGINAL, False), "without": (OURS, False), "with": (OURS, True)}
SHOWN = {"original": "original", "without": "labels alone", "with": "labels and relevance"}
FAMILIES = range(len(SEEN))
TILE_DPI = 360  # a tile is an inch
QUALITY = 15  # of a WebP: textures are noise, which no eye compares, and 55 is twice as large


def scenes(bench: Benchmark, size: int) -> Batch:
    """Every animal in every home, by animal."""
    animals = [animal for animal in range(len(bench.classes)) for _ in FAMILIES]
    families = [*FAMILIES] * len(bench.classes)
    return bench.draw("validation", animals, labels=animals, families=families, size=size)


def data(bench: Benchmark, looks: dict[str, Look], patch: int) -> dict:
    """Names, answers, how sure, and maps: a byte for each patch, in base64."""
    models = {}
    for name, seen in looks.items():
        middle = slice(patch // 2, None, patch)  # where an enlarged map has the patch's own value
        maps = (255 * seen.heatmaps[:, 0, middle, middle]).round().to(torch.uint8)
        models[name] = {
            "answers": seen.predictions.tolist(),
            "sure": seen.confidence_pct.round().int().tolist(),
            "maps": base64.b64encode(maps.numpy().tobytes()).decode(),
        }
    return {
        "animals": list(bench.classes),
        "homes": [HOMES[family].name for family in FAMILIES],
        "home": [home_family(label) for label in range(len(bench.classes))],
        "models": models,
    }


def flipping(batch: Batch, looks: dict[str, Look]) -> list[int]:
    """Two scenes of one animal: at home, where all are right, and where relevance alone mends it.

    Of the clearer half of these, whose animal a reader sees too, it is the one whose map has moved
    most onto the animal: the picture is of what moves, and no average.
    """
    right = {name: seen.right for name, seen in looks.items()}
    found = right["with"] & ~right["original"] & ~right["without"]
    home = torch.tensor([label * len(FAMILIES) + home_family(label) for label in batch.labels])
    found &= torch.stack(list(right.values())).all(dim=0)[home]
    found &= batch.opacity >= batch.opacity[found].median()
    moved = looks["with"].on_object_pct - looks["original"].on_object_pct
    elsewhere = int(moved.masked_fill(~found, -math.inf).argmax())
    return [int(home[elsewhere]), elsewhere]


def picture(names: list[str], batch: Batch, looks: dict[str, Look]) -> Figure:
    """A row for each scene: the image, and the map and the answer of each model."""
    rows = []
    for number, name in enumerate(names):
        pixels = pixels_of(batch.images[number])
        tiles = [Tile(pixels, "image")]
        for model, seen in looks.items():
            said = f"{SHOWN[model]}\n{seen.titles[number]}\n"
            said += f"{seen.on_object_pct[number]:.0f} % on the animal"
            heat = seen.heatmaps[number, 0]
            outline = batch.masks[number, 0]
            tiles.append(Tile(pixels, said, seen.colours[number], heat, outline))
        rows.append((name, tiles))
    return tile_grid(rows)


def tiles(batch: Batch, looks: dict[str, Look]) -> Figure:
    """The same without a word, edge to edge: the poster has the words beside them as text."""
    figure, columns = Figure(figsize=(1 + len(looks), len(batch)), dpi=TILE_DPI), 1 + len(looks)
    for number in range(len(batch)):
        pixels = pixels_of(batch.images[number])
        heats = [(None, None)]
        heats += [(seen.heatmaps[number, 0], batch.masks[number, 0]) for seen in looks.values()]
        for column, (heat, mask) in enumerate(heats):
            place = (column / columns, 1 - (number + 1) / len(batch), 1 / columns, 1 / len(batch))
            draw_tile(bare(figure.add_axes(place)), Tile(pixels, heat=heat, mask=mask))
    return figure


def words(names: list[str], looks: dict[str, Look]) -> list[dict]:
    """What is said of each tile, line by line."""
    found = []
    for number, name in enumerate(names):
        found.append({"title": name.replace("\n", " "), "lines": [], "right": None})
        for model, seen in looks.items():
            on = f"{seen.on_object_pct[number]:.0f} % on the animal"
            lines = [seen.titles[number], on]
            right = bool(seen.right[number])
            found.append({"title": SHOWN[model], "lines": lines, "right": right})
    return found


def main() -> None:
    plots.set_style()
    cfg = params_of("03_robustness").from_preset(preset_file("workshop"))
    bench, twins = open_benchmark(cfg), grids.of(cfg).set_index(TWINS)["run"]
    spec = bench.spec(cfg.model)
    batch = scenes(bench, spec.image_size)
    looks = {}
    for name, key in KEYS.items():
        weights = weights_of(twins[OWN, cfg.seeds[0], *key])
        looks[name] = look(load_model(spec.name, weights), spec, batch, bench.classes)
    rows = batch.images.unflatten(0, (-1, len(FAMILIES)))  # [animals, homes, 3, size, size]
    whole = rows.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
    Image.fromarray(whole.numpy()).save(DOCS / "_static" / "homes.webp", quality=QUALITY, method=6)
    found = json.dumps(data(bench, looks, spec.image_size // spec.grid[0]), separators=(",", ":"))
    (DOCS / "_static" / "homes.js").write_text(f"const HOMES = {found};\n", encoding="utf-8")
    pair = flipping(batch, looks)
    animal, homes = pair[0] // len(FAMILIES), [HOMES[one % len(FAMILIES)].name for one in pair]
    names = [f"{bench.classes[animal]},\nat home:\n{homes[0]}", f"elsewhere:\n{homes[1]}"]
    shown = {name: seen.select(pair) for name, seen in looks.items()}
    kept, _ = stored(picture(names, batch.select(pair), shown), "jpeg")
    (DOCS / "flip.jpg").write_bytes(kept)
    drawn = tiles(batch.select(pair), shown)
    how = {"quality": 80, "optimize": True}
    with matplotlib.rc_context({"savefig.bbox": "standard"}):  # no margin
        drawn.savefig(DOCS / "_static" / "flip_tiles.jpg", dpi=TILE_DPI, pil_kwargs=how)
    text = json.dumps(words(names, shown), indent=1)
    (DOCS / "flip.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
