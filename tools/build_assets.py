"""Draw the foregrounds of Cutouts again from the two npm packages that carry Fluent Emoji.

Needs npm and `pip install resvg-py`; run it only when the class list changes:

    python tools/build_assets.py /tmp/emoji

Both packages are unpacked below the given folder. Every picture becomes a 128 x 128 RGBA
PNG, `lib/habitats/assets/drawings/<style>/<class>.png`. Two further groups come in 3D: the things
that k-NN is tested with go to `unseen/3d/`, those that the small models of the IAV study are
pretrained on to `things/3d/`. Of the latter, the classes of Habitats come in all three styles.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import unicodedata
from pathlib import Path

import resvg_py
from PIL import Image

from habitats.drawings import ANIMALS, OBJECTS, PRETRAINING, UNSEEN

SIDE = 128
PACKAGES = ("@lobehub/fluent-emoji-3d@1.1.0", "fluentui-emoji@1.3.0")
ASSETS = Path(__file__).parents[1] / "lib" / "habitats" / "assets" / "drawings"

# Code points of drawings that are not called as their character is in Unicode.
OTHERS = {
    "zebra": "1f993",
    "ewe": "1f411",
    "kick-scooter": "1f6f4",
    "hot-pepper": "1f336-fe0f",
    "stopwatch": "23f1-fe0f",
    "running-shoe": "1f45f",
    "kiwi-fruit": "1f95d",
    "eggplant": "1f346",
    "ear-of-corn": "1f33d",
    "cheese": "1f9c0",
    "pizza": "1f355",
    "locomotive": "1f682",
    "motorcycle": "1f3cd-fe0f",
    "airplane": "2708-fe0f",
    "wrapped-gift": "1f381",
    "basketball": "1f3c0",
    "tennis": "1f3be",
    "glasses": "1f453",
    "backpack": "1f392",
    "high-heeled-shoe": "1f460",
    "drum": "1f941",
    "telephone": "260e-fe0f",
    "light-bulb": "1f4a1",
    "scissors": "2702-fe0f",
    "locked": "1f512",
    "umbrella": "2602-fe0f",
}


def code_point(name: str) -> str:
    """Of a drawing's character, as the first package calls its file."""
    if name in OTHERS:
        return OTHERS[name]
    return f"{ord(unicodedata.lookup(name.replace('-', ' '))):x}"


def unpack(folder: Path) -> list[Path]:
    """Fetch both npm packages and return the folders they unpack to."""
    folder.mkdir(parents=True, exist_ok=True)
    roots = []
    for package in PACKAGES:
        name = subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        roots.append(folder / name.removesuffix(".tgz"))
        with tarfile.open(folder / name) as archive:
            archive.extractall(roots[-1], filter="data")
    return roots


def draw_svg(path: Path) -> Image.Image:
    png = bytes(
        resvg_py.svg_to_bytes(svg_string=path.read_text(encoding="utf-8"), width=SIDE, height=SIDE)
    )
    picture = Image.open(io.BytesIO(png)).convert("RGBA")
    square = Image.new("RGBA", (SIDE, SIDE))  # one drawing is not square
    square.paste(picture, ((SIDE - picture.width) // 2, (SIDE - picture.height) // 2))
    return square


def draw_webp(path: Path) -> Image.Image:
    # Premultiplied, so that colour hidden under zero alpha does not bleed into the edge.
    picture = Image.open(path).convert("RGBA").convert("RGBa")
    return picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS).convert("RGBA")


def save(picture: Image.Image, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    picture.save(target, optimize=True)


def main(folder: Path) -> None:
    solid, vector = (root / "package" for root in unpack(folder))
    for target, drawings in ((".", ANIMALS), ("unseen", UNSEEN), ("things", PRETRAINING)):
        for name in drawings.classes:
            picture = draw_webp(solid / "assets" / f"{code_point(name)}.webp")
            save(picture, ASSETS / target / "3d" / f"{name}.png")
    for target, drawings in ((".", ANIMALS), ("things", OBJECTS)):
        for name in drawings.classes:
            for style in ("flat", "high_contrast"):
                icon = vector / "icons" / style.replace("_", "-") / f"{name}.svg"
                save(draw_svg(icon), ASSETS / target / style / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
