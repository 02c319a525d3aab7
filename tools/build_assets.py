"""Draw the foregrounds of Cutouts again from the two npm packages that carry Fluent Emoji.

Needs npm and `pip install resvg-py`; run it only when the class list changes:

    python tools/build_assets.py /tmp/emoji

Both packages are unpacked below the given folder. Every picture becomes a 128 x 128 RGBA
PNG, `lib/habitats/assets/drawings/<style>/<class>.png`. Two further groups come in 3D: the things
that k-NN is tested with go to `cutouts/unseen/3d/`, those that the small models of the IAV study
are pretrained on to `cutouts/things/3d/`. Of the latter, the classes of Habitats come in all three
styles.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import resvg_py
from PIL import Image

from habitats.drawings import OBJECTS

SIDE = 128
PACKAGES = ("@lobehub/fluent-emoji-3d@1.1.0", "fluentui-emoji@1.3.0")
ASSETS = Path(__file__).parents[1] / "lib" / "habitats" / "assets" / "drawings"

# Class name -> code point; the order is the label order, and neighbours are look-alikes.
CODE_POINTS = {
    "ant": "1f41c",
    "beetle": "1fab2",
    "honeybee": "1f41d",
    "cricket": "1f997",
    "lady-beetle": "1f41e",
    "cockroach": "1fab3",
    "scorpion": "1f982",
    "crab": "1f980",
    "lobster": "1f99e",
    "shrimp": "1f990",
    "octopus": "1f419",
    "squid": "1f991",
    "dolphin": "1f42c",
    "shark": "1f988",
    "tropical-fish": "1f420",
    "blowfish": "1f421",
    "whale": "1f40b",
    "seal": "1f9ad",
    "duck": "1f986",
    "swan": "1f9a2",
    "eagle": "1f985",
    "parrot": "1f99c",
    "flamingo": "1f9a9",
    "peacock": "1f99a",
    "rooster": "1f413",
    "turkey": "1f983",
    "cat": "1f408",
    "dog": "1f415",
    "horse": "1f40e",
    "zebra": "1f993",
    "cow": "1f404",
    "ox": "1f402",
    "goat": "1f410",
    "ewe": "1f411",
    "elephant": "1f418",
    "mammoth": "1f9a3",
    "leopard": "1f406",
    "tiger": "1f405",
    "kangaroo": "1f998",
    "llama": "1f999",
}
# The same for UNSEEN of `habitats.drawings`.
UNSEEN_CODE_POINTS = {
    "automobile": "1f697",
    "taxi": "1f695",
    "fire-engine": "1f692",
    "delivery-truck": "1f69a",
    "sailboat": "26f5",
    "speedboat": "1f6a4",
    "bicycle": "1f6b2",
    "kick-scooter": "1f6f4",
    "lemon": "1f34b",
    "tangerine": "1f34a",
    "carrot": "1f955",
    "hot-pepper": "1f336-fe0f",
    "doughnut": "1f369",
    "bagel": "1f96f",
    "hamburger": "1f354",
    "sandwich": "1f96a",
    "guitar": "1f3b8",
    "banjo": "1fa95",
    "hammer": "1f528",
    "axe": "1fa93",
    "alarm-clock": "23f0",
    "stopwatch": "23f1-fe0f",
    "running-shoe": "1f45f",
    "hiking-boot": "1f97e",
}

# The same for its PRETRAINING.
THINGS_CODE_POINTS = {
    "red-apple": "1f34e",
    "pear": "1f350",
    "grapes": "1f347",
    "watermelon": "1f349",
    "banana": "1f34c",
    "pineapple": "1f34d",
    "mango": "1f96d",
    "peach": "1f351",
    "cherries": "1f352",
    "strawberry": "1f353",
    "kiwi-fruit": "1f95d",
    "tomato": "1f345",
    "coconut": "1f965",
    "avocado": "1f951",
    "eggplant": "1f346",
    "potato": "1f954",
    "ear-of-corn": "1f33d",
    "cucumber": "1f952",
    "broccoli": "1f966",
    "garlic": "1f9c4",
    "onion": "1f9c5",
    "mushroom": "1f344",
    "chestnut": "1f330",
    "bread": "1f35e",
    "croissant": "1f950",
    "pretzel": "1f968",
    "pancakes": "1f95e",
    "cheese": "1f9c0",
    "meat-on-bone": "1f356",
    "bacon": "1f953",
    "french-fries": "1f35f",
    "pizza": "1f355",
    "hot-dog": "1f32d",
    "taco": "1f32e",
    "cooking": "1f373",
    "popcorn": "1f37f",
    "ice-cream": "1f368",
    "cookie": "1f36a",
    "birthday-cake": "1f382",
    "cupcake": "1f9c1",
    "pie": "1f967",
    "chocolate-bar": "1f36b",
    "lollipop": "1f36d",
    "honey-pot": "1f36f",
    "teapot": "1fad6",
    "wine-glass": "1f377",
    "beer-mug": "1f37a",
    "locomotive": "1f682",
    "bus": "1f68c",
    "tractor": "1f69c",
    "motorcycle": "1f3cd-fe0f",
    "airplane": "2708-fe0f",
    "helicopter": "1f681",
    "rocket": "1f680",
    "ship": "1f6a2",
    "canoe": "1f6f6",
    "anchor": "2693",
    "balloon": "1f388",
    "wrapped-gift": "1f381",
    "trophy": "1f3c6",
    "soccer-ball": "26bd",
    "basketball": "1f3c0",
    "american-football": "1f3c8",
    "tennis": "1f3be",
    "bowling": "1f3b3",
    "crown": "1f451",
    "top-hat": "1f3a9",
    "glasses": "1f453",
    "necktie": "1f454",
    "dress": "1f457",
    "handbag": "1f45c",
    "backpack": "1f392",
    "high-heeled-shoe": "1f460",
    "ring": "1f48d",
    "gem-stone": "1f48e",
    "drum": "1f941",
    "trumpet": "1f3ba",
    "violin": "1f3bb",
    "saxophone": "1f3b7",
    "telephone": "260e-fe0f",
    "television": "1f4fa",
    "camera": "1f4f7",
    "light-bulb": "1f4a1",
    "books": "1f4da",
    "scissors": "2702-fe0f",
    "key": "1f511",
    "locked": "1f512",
    "wrench": "1f527",
    "magnet": "1f9f2",
    "microscope": "1f52c",
    "telescope": "1f52d",
    "broom": "1f9f9",
    "chair": "1fa91",
    "umbrella": "2602-fe0f",
    "cactus": "1f335",
    "palm-tree": "1f334",
    "evergreen-tree": "1f332",
    "sunflower": "1f33b",
    "tulip": "1f337",
    "maple-leaf": "1f341",
}


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
    solid, vector = unpack(folder)
    for name, code in CODE_POINTS.items():
        save(
            draw_webp(solid / "package" / "assets" / f"{code}.webp"), ASSETS / "3d" / f"{name}.png"
        )
    for folder, names in ((ASSETS, CODE_POINTS), (ASSETS / "things", OBJECTS.classes)):
        for name in names:
            for style in ("flat", "high_contrast"):
                icon = vector / "package" / "icons" / style.replace("_", "-") / f"{name}.svg"
                save(draw_svg(icon), folder / style / f"{name}.png")
    for group, codes in (("unseen", UNSEEN_CODE_POINTS), ("things", THINGS_CODE_POINTS)):
        for name, code in codes.items():
            picture = draw_webp(solid / "package" / "assets" / f"{code}.webp")
            save(picture, ASSETS / group / "3d" / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
