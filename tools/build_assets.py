"""Draw the foregrounds of Cutouts again from the two npm packages that carry Fluent Emoji.

Needs npm and `pip install resvg-py`; run it only when the class list changes:

    python tools/build_assets.py /tmp/emoji

Both packages are unpacked below the given folder. Every picture becomes a 128 x 128 RGBA
PNG, `lib/relevit/assets/cutouts/<style>/<class>.png`; the things that no model was trained on,
which k-NN is tested with, come in 3D alone and go to `cutouts/unseen/3d/`.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import resvg_py
from PIL import Image

SIDE = 128
PACKAGES = ("@lobehub/fluent-emoji-3d@1.1.0", "fluentui-emoji@1.3.0")
ASSETS = Path(__file__).parents[1] / "lib" / "relevit" / "assets" / "cutouts"

# Class name -> code point; the order is the label order, and neighbours are look-alikes.
CODE_POINTS = {
    "ant": "1f41c", "beetle": "1fab2", "honeybee": "1f41d", "cricket": "1f997",
    "lady-beetle": "1f41e", "cockroach": "1fab3", "scorpion": "1f982", "crab": "1f980",
    "lobster": "1f99e", "shrimp": "1f990", "octopus": "1f419", "squid": "1f991",
    "dolphin": "1f42c", "shark": "1f988", "tropical-fish": "1f420", "blowfish": "1f421",
    "whale": "1f40b", "seal": "1f9ad", "duck": "1f986", "swan": "1f9a2",
    "eagle": "1f985", "parrot": "1f99c", "flamingo": "1f9a9", "peacock": "1f99a",
    "rooster": "1f413", "turkey": "1f983", "cat": "1f408", "dog": "1f415",
    "horse": "1f40e", "zebra": "1f993", "cow": "1f404", "ox": "1f402",
    "goat": "1f410", "ewe": "1f411", "elephant": "1f418", "mammoth": "1f9a3",
    "leopard": "1f406", "tiger": "1f405", "kangaroo": "1f998", "llama": "1f999",
}  # fmt: skip
# The same for `relevit.data.unseen`.
UNSEEN_CODE_POINTS = {
    "automobile": "1f697", "taxi": "1f695", "fire-engine": "1f692", "delivery-truck": "1f69a",
    "sailboat": "26f5", "speedboat": "1f6a4", "bicycle": "1f6b2", "kick-scooter": "1f6f4",
    "lemon": "1f34b", "tangerine": "1f34a", "carrot": "1f955", "hot-pepper": "1f336-fe0f",
    "doughnut": "1f369", "bagel": "1f96f", "hamburger": "1f354", "sandwich": "1f96a",
    "guitar": "1f3b8", "banjo": "1fa95", "hammer": "1f528", "axe": "1fa93",
    "alarm-clock": "23f0", "stopwatch": "23f1-fe0f", "running-shoe": "1f45f",
    "hiking-boot": "1f97e",
}  # fmt: skip


def unpack(folder: Path) -> list[Path]:
    """Fetch both npm packages and return the folders they unpack to."""
    folder.mkdir(parents=True, exist_ok=True)
    roots = []
    for package in PACKAGES:
        name = subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=folder, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        roots.append(folder / name.removesuffix(".tgz"))
        with tarfile.open(folder / name) as archive:
            archive.extractall(roots[-1], filter="data")
    return roots


def draw_svg(path: Path) -> Image.Image:
    png = bytes(resvg_py.svg_to_bytes(svg_string=path.read_text(), width=SIDE, height=SIDE))
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
    solid, vector = unpack(folder)
    for name, code in CODE_POINTS.items():
        pictures = {
            "3d": draw_webp(solid / "package" / "assets" / f"{code}.webp"),
            "flat": draw_svg(vector / "package" / "icons" / "flat" / f"{name}.svg"),
            "high_contrast": draw_svg(
                vector / "package" / "icons" / "high-contrast" / f"{name}.svg"
            ),
        }
        for style, picture in pictures.items():
            save(picture, ASSETS / style / f"{name}.png")
    for name, code in UNSEEN_CODE_POINTS.items():
        picture = draw_webp(solid / "package" / "assets" / f"{code}.webp")
        save(picture, ASSETS / "unseen" / "3d" / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
