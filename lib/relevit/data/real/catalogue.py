"""The real data sets of the paper preset: what each is, where it comes from, how it is read.

Facts alone, which `relevit doctor` checks a folder against and docs/paper_preset.md lists. Counts
are those of the sets' authors; None is what they do not say or what is not known for sure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

NOT_KNOWN = "not known"
READERS = "relevit.data.real"
NINE = ("00_start", "03_robustness", "03_comparison")
TRAINING = ("00_original", "01_masks", "02_baselines", "02_finetune", "08_ablations")
IMAGENET_TERMS = "research and education only, after registration"
MIT_LIST = "selection under MIT; the pictures stay their authors'"
SI_PAGE = "https://github.com/google-research/si-score"
SI_TERMS = "objects from OpenImages (Creative Commons), backgrounds from Pexels"


@dataclass(frozen=True)
class Entry:
    """One set. `folders` are below the data root, other names of one included.

    `images` counts texts where `holds` says so. `size_gb` (10^9 bytes) is unpacked.

    `reader` is a dotted name and `calls` the options it is called with, once for each part of the
    set. `side` is given to readers that want the size of the pictures. `readable` and
    `readable_classes` are what the readers give of a whole set, where that is another number than
    the authors' (or one of several); an empty `readable_classes` is not compared.
    """

    key: str
    title: str
    folders: tuple[str, ...]
    images: int | None
    classes: int | None
    size_gb: float | None
    archives: tuple[str, ...]
    page: str
    terms: str
    used_by: tuple[str, ...]
    reader: str
    calls: tuple[Mapping[str, Any], ...] = (MappingProxyType({}),)
    side: int | None = None
    readable: tuple[int, ...] | None = None
    readable_classes: tuple[int, ...] | None = None
    holds: Literal["images", "texts"] = "images"

    @property
    def expected_images(self) -> tuple[int, ...]:
        """Numbers of images that a whole set may have; none when that is not known."""
        return _either(self.readable, self.images)

    @property
    def expected_classes(self) -> tuple[int, ...]:
        """The same of classes."""
        return _either(self.readable_classes, self.classes)


def _either(readable: tuple[int, ...] | None, official: int | None) -> tuple[int, ...]:
    if readable is not None:
        return readable
    return () if official is None else (official,)


def _parts(**options: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    ((name, values),) = options.items()
    return tuple(MappingProxyType({name: value}) for value in values)


ENTRIES = (
    Entry(
        "val",
        "ImageNet-1k, validation",
        ("imagenet/val",),
        50_000,
        1000,
        6.7,
        ("ILSVRC2012_img_val.tar", "ILSVRC2012_devkit_t12.tar.gz"),
        "https://www.image-net.org/download.php",
        IMAGENET_TERMS,
        (*NINE, "04_segmentation", "05_attribution", "06_faithfulness", "12_clip"),
        f"{READERS}.imagenet.read_imagenet",
        _parts(part=("val",)),
    ),
    Entry(
        "imagenet_train",
        "ImageNet-1k, training",
        ("imagenet/train",),
        1_281_167,
        1000,
        147.9,
        ("ILSVRC2012_img_train.tar",),
        "https://www.image-net.org/download.php",
        IMAGENET_TERMS,
        ("01_masks",),
        f"{READERS}.imagenet.read_imagenet",
        _parts(part=("train",)),
    ),
    Entry(
        "a",
        "ImageNet-A",
        ("imagenet-a",),
        7500,
        200,
        0.7,
        ("imagenet-a.tar",),
        "https://github.com/hendrycks/natural-adv-examples",
        MIT_LIST,
        NINE,
        f"{READERS}.shifted.read_imagenet_a",
    ),
    Entry(
        "r",
        "ImageNet-R",
        ("imagenet-r",),
        30_000,
        200,
        2.2,
        ("imagenet-r.tar",),
        "https://github.com/hendrycks/imagenet-r",
        f"{NOT_KNOWN}; the pictures stay their authors'",
        NINE,
        f"{READERS}.shifted.read_imagenet_r",
    ),
    Entry(
        "sketch",
        "ImageNet-Sketch",
        ("sketch",),
        50_889,
        1000,
        7.6,
        ("ImageNet-Sketch.zip",),
        "https://github.com/HaohanWang/ImageNet-Sketch",
        MIT_LIST,
        NINE,
        f"{READERS}.shifted.read_sketch",
    ),
    Entry(
        "v2",
        "ImageNetV2, matched frequency",
        ("imagenetv2-matched-frequency-format-val",),
        10_000,
        1000,
        1.3,
        ("imagenetv2-matched-frequency.tar.gz",),
        "https://github.com/modestyachts/ImageNetV2",
        MIT_LIST,
        NINE,
        f"{READERS}.shifted.read_v2",
    ),
    Entry(
        "objectnet",
        "ObjectNet",
        ("objectnet-1.0",),
        50_273,
        313,
        None,
        ("objectnet-1.0.zip",),
        "https://objectnet.dev",
        "CC BY 4.0; for testing alone, and no picture shown without its red border",
        (*NINE, "99_report"),
        f"{READERS}.objectnet.read_objectnet",
        readable=(18_574,),
        readable_classes=(113,),  # those that ImageNet-1k has too
    ),
    Entry(
        "si_location",
        "SI-Score, location",
        ("si-score/location", "si-score/location20_area02_min0pc"),
        None,
        61,
        None,
        ("location.zip",),
        SI_PAGE,
        SI_TERMS,
        NINE,
        f"{READERS}.si_score.read_si_score",
        _parts(factor=("location",)),
    ),
    Entry(
        "si_rotation",
        "SI-Score, rotation",
        ("si-score/rotation",),
        None,
        61,
        None,
        ("rotation.zip",),
        SI_PAGE,
        SI_TERMS,
        NINE,
        f"{READERS}.si_score.read_si_score",
        _parts(factor=("rotation",)),
    ),
    Entry(
        "si_size",
        "SI-Score, size",
        ("si-score/area",),
        None,
        61,
        None,
        ("size.zip",),
        SI_PAGE,
        SI_TERMS,
        NINE,
        f"{READERS}.si_score.read_si_score",
        _parts(factor=("area",)),
    ),
    Entry(
        "imagenet_s",
        "ImageNet-S-919, train-semi and validation",
        tuple(
            f"ImageNetS919/{part}"
            for part in (
                "train-semi",
                "train-semi-segmentation",
                "validation",
                "validation-segmentation",
            )
        ),
        9190 + 12_419,
        919,
        None,
        ("ImageNetS919.zip",),
        "https://github.com/LUSSeg/ImageNet-S",
        f"as ImageNet: {IMAGENET_TERMS}",
        TRAINING,
        f"{READERS}.imagenet_s.read_imagenet_s",
        tuple(
            MappingProxyType({"part": part, "merged": "keep"})
            for part in ("train-semi", "validation")
        ),
    ),
    Entry(
        "gtsegs",
        "ImageNet segmentation",
        ("gtsegs_ijcv.mat",),
        4276,
        445,
        None,
        ("gtsegs_ijcv.mat",),
        "http://calvin-vision.net/bigstuff/proj-imagenet/",
        f"{NOT_KNOWN}; pictures of ImageNet",
        (
            "00_start",
            "01_masks",
            "02_finetune",
            "04_segmentation",
            "05_attribution",
            "07_iav",
            "09_sis",
        ),
        f"{READERS}.gtsegs.read_gtsegs",
        readable_classes=(),  # some are no class of ImageNet-1k
    ),
    Entry(
        "cifar10",
        "CIFAR-10",
        ("cifar-10-batches-bin",),
        60_000,
        10,
        0.2,
        ("cifar-10-binary.tar.gz",),
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "no licence given; cite Krizhevsky 2009",
        ("07_pretraining", "07_iav"),
        "relevit.data.real.cifar10.read_cifar10",
        side=32,
    ),
    Entry(
        "cifar100",
        "CIFAR-100",
        ("cifar-100-binary", "cifar-100-python"),
        60_000,
        100,
        0.2,
        ("cifar-100-binary.tar.gz",),
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "no licence given; cite Krizhevsky 2009",
        ("10_knn",),
        "relevit.data.real.knn.read_cifar100",
        side=32,
    ),
    Entry(
        "inat2021_mini",
        "iNaturalist 2021, mini training and validation",
        ("2021_train_mini", "2021_valid"),
        500_000 + 100_000,
        10_000,
        50.0,
        ("train_mini.tar.gz", "val.tar.gz"),
        "https://github.com/visipedia/inat_comp/tree/master/2021",
        "non-commercial research and education only",
        ("10_knn",),
        "relevit.data.real.knn.read_inat2021_mini",
        side=224,
    ),
    Entry(
        "pneumonia",
        "Chest X-rays",
        ("chest_xray",),
        5856,
        2,
        1.2,
        ("ChestXRay2017.zip",),
        "https://data.mendeley.com/datasets/rscbjbr9sj/2",
        "CC BY 4.0",
        ("10_knn",),
        "relevit.data.real.knn.read_pneumonia",
        side=224,
        readable=(5856, 5840),  # Kaggle's copy has 16 of them in a folder of their own
    ),
    Entry(
        "eraser_movies",
        "ERASER, Movie Reviews",
        ("movies",),
        2000,
        2,
        None,
        ("movies.tar.gz",),
        "https://www.eraserbenchmark.com",
        "for research; the reviews belong to those who wrote them",
        ("11_text",),
        "relevit.text.eraser.read_eraser_movies",
        readable=(1999, 2000),  # copies have 199 or 200 test reviews
        holds="texts",
    ),
    Entry(
        "newsgroups",
        "20 Newsgroups, by date",
        ("20news-bydate-train", "20news-bydate-test"),
        11_314 + 7532,
        20,
        None,
        ("20news-bydate.tar.gz",),
        "http://qwone.com/~jason/20Newsgroups/",
        "for research; the messages belong to those who posted them",
        ("11_text",),
        "relevit.text.newsgroups.read_newsgroups",
        (MappingProxyType({"validation": 0}),),
        holds="texts",
    ),
)
CATALOGUE: dict[str, Entry] = {entry.key: entry for entry in ENTRIES}


def number(value: float | None) -> str:
    """A number as people read it; what is not known says so."""
    return NOT_KNOWN if value is None else f"{value:,}"


def markdown() -> str:
    """The catalogue as the table of docs/paper_preset.md."""
    lines = [
        "| set | what | images or texts | classes | unpacked, GB | archives | folder | terms "
        "| used by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in CATALOGUE.values():
        cells = (
            f"`{entry.key}`",
            f"[{entry.title}]({entry.page})",
            number(entry.images),
            number(entry.classes),
            number(entry.size_gb),
            ", ".join(f"`{name}`" for name in entry.archives),
            ", ".join(f"`{name}`" for name in entry.folders),
            entry.terms,
            ", ".join(entry.used_by),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
