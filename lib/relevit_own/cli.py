"""The command `relevit`: your own images and model, and the folder of the real data sets.

A command is a function. cyclopts makes options of its parameters, and help of its docstring, so
that these speak to people at a terminal. Names, files and values are looked at first (`door`):
what computes is loaded inside, after that.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, Parameter

from relevit import __version__
from relevit.base.errors import FailedError
from relevit.base.files import full_disk_said
from relevit.base.process import leave, loading, lost, say, with_home
from relevit_own import door

if TYPE_CHECKING:
    from relevit_own.choices import OwnChoices
    from relevit_own.explained import Subject

FIRST = "dinov2-s8"  # comes with the package, and finds the animal in a photograph, too
NAMES = "head_classes"  # of which one may be called no, or 01
MOST_LEFT_OUT = 10  # pictures named
INF = float("inf")

# What several commands ask for.
Data = Annotated[str, Parameter(help="folder, CSV of paths, or outlines (COCO, YOLO, VOC)")]
Device = Annotated[str, Parameter(help="auto, cpu, cuda, cuda:N or mps")]
ImagesFolder = Annotated[
    str | None, Parameter("--images", help="folder of the pictures of outlines, if not beside them")
]
Masks = Annotated[
    str | None, Parameter(help="folder of masks, or tokencut to make them without any")
]
Model = Annotated[str, Parameter("--model", help="a timm name, a suite's name, or an --out")]
Names = Annotated[str | None, Parameter(help="text file with a class's name a line, or imagenet")]
Options = Annotated[
    list[str], Parameter("--model-options", help="for timm.create_model, like img_size=224")
]
Out = Annotated[Path, Parameter(help="folder for what comes of it")]
Quiet = Annotated[bool, Parameter(help="say only what came of it, at the end")]
Skip = Annotated[bool, Parameter("--skip-unreadable", help="leave out images that cannot be read")]
Weights = Annotated[
    str | None, Parameter("--weights", help="file of its weights; else timm fetches them")
]
WELCOME = """Where does a Vision Transformer look?
Can looking at the right thing make it better?

A first command is: relevit explain cat.jpg
relevit COMMAND --help has examples, and all options."""


def _shown(default: object) -> object:
    return None if default is False or default in ((), INF) else default


app = App(
    "relevit",
    help=WELCOME,
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative="", consume_multiple=1, show_default=_shown),
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 2 for a wrong input, in one sentence, 130 when stopped; else the command's."""
    given = sys.argv[1:] if arguments is None else arguments
    # A shell leaves the ~ of --out=~/run as it is, and Windows every one.
    home = partial(re.sub, r"(^|=)~(?=$|[/\\])", lambda m: m[1] + os.path.expanduser("~"))
    try:
        door.need_words(given)
        with full_disk_said(Path.cwd() / "."):
            code = app([home(word) for word in given]) or 0
    except (CycloptsError, ValueError, OSError, ImportError, FailedError) as error:
        return _refuse(f"error: {error}")
    except KeyboardInterrupt as stop:
        kept = f"; {stop}:\nrelevit {shlex.join(given)}" if stop.args else ""
        return _refuse(f"\nstopped{kept}", 130)
    except SystemExit:  # so rich ends where nobody reads its help to the end
        return 0
    if said := lost():
        return _refuse(f"error: what was said could not be written ({said}); files are whole")
    return code


def command() -> NoReturn:
    """The command as it is installed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with with_home():
        code = main()
    leave(code)


def _refuse(line: str, code: int = 2) -> int:
    say(line, to="stderr")
    return code


# Your own


@app.command
def example(folder: Path, /, *, images: int = 8) -> None:
    """Write a folder of images to try the other commands with.

    relevit example my_images

    It has my_images/data, which has masks, and two shifted sets.

    Args:
        folder: new folder to write to
        images: of each of 40 classes
    """
    from relevit_own.example import DATA, SETS, write_example

    made = write_example(folder, per_class=images, sets=SETS)
    say(*(f"written: {made / name}" for name in (DATA, *SETS)))


@app.command
def check(
    data: Data, /, *, masks: str | None = None, images_folder: ImagesFolder = None,
    picture: Path | None = None, listed: Annotated[Path | None, Parameter("--list")] = None,
    skip: Skip = False,
) -> None:  # fmt: skip
    """Say what is in a folder of images and masks.

    relevit check my_images
    relevit check birds.csv --picture birds.png

    A folder has images/<class>/*.jpg and, if there are masks, masks/<class>/*.png.
    A table has the columns image, label and, if there are masks, mask.

    Args:
        masks: folder of masks, if it is not beside the images
        picture: draw samples to this file
        listed: write to this CSV what each file is used for, or why not
    """
    door.need_there("check", data=data, masks=masks, images=images_folder)
    door.need_room("check", picture=picture and picture.parent, list=listed and listed.parent)
    with loading():
        from relevit_own.reports.checked import check_data
    paths = [None if each is None else Path(each) for each in (data, masks, images_folder)]
    check_data(
        *paths, corrupted="skip" if skip else "error", picture=picture, listed=listed, say=say
    )


@app.command
def audit(
    *, own_model: Model, data: Data, out: Out, masks: Masks = None, names: Names = None,
    own_weights: Weights = None, own_options: Options = (),
    looked_at: Annotated[int, Parameter("--most")] = 300, seed: int = 0,
    prompt: str = "a photo of a {}.", fail_over: float = INF, images_folder: ImagesFolder = None,
    skip: Skip = False, device: Device = "auto", quiet: Quiet = False,
) -> int:  # fmt: skip
    """Say how much your ViT leans on the background.

    relevit audit --model vit_base_patch16_224 --data my_images --out audit
    relevit audit --model run --data my_tests --out audit --fail-over 16

    Each object is shown on its own background, on another image's of its class,
    on another class's, on none, and painted over. audit/index.html says what
    came of it, audit/audit.json the same for programs. In the second line run is
    the --out of relevit finetune.

    Args:
        looked_at: images at most, drawn by the seed
        seed: of images and backgrounds
        prompt: of CLIP: what is asked for a class, whose name stands in place of {}
        fail_over: exit code 1 where the background gap is larger than so many points
    """
    door.need_there("audit", data=data, images=images_folder)
    door.need_room("audit", out=out)
    door.need_masks("audit", masks)
    door.need_model("audit", own_model, own_weights, device)
    choices = _choices("audit", locals())
    names, clip = _names("audit", names), door.is_clip(own_model)
    if isnan(fail_over):  # which no gap is larger than
        raise ValueError("audit: --fail-over nan is no number; give points, such as 16")
    if "{}" not in prompt:
        raise ValueError(f"audit: --prompt {prompt!r} has no {{}}, where a class's name goes")
    with loading():
        from relevit_own.audit import audit_folder
        from relevit_own.images import table_of
        from relevit_own.reports.audited import need_free, write_audit
    need_free(out)
    if clip and not names:
        names = table_of(choices).classes
    asked = (own_weights, choices.own_options, names, device, prompt)
    subject = _subject(own_model, *asked, answers_alone=True)
    tell, _ = _progress(quiet)
    named = f"{subject.name}, {prompt!r}" if clip else subject.name
    found = audit_folder(named, subject.model, subject.classes, choices, tell)
    page = write_audit(found, out)
    say(found.audit.sentence, f"page: {page}")
    return int(found.audit.gap_pts.value > fail_over)


@app.command
def finetune(
    *, own_model: Model, data: Data, out: Out, masks: Masks = None, own_weights: Weights = None,
    own_options: Options = (), new_head: bool = False, shifted: list[str] = (),
    cure: str | None = None, against: str | None = None,
    trained_blocks: Annotated[int | None, Parameter("--blocks")] = None,
    rates: Annotated[list[float], Parameter("--rate")] = (),
    settings: Annotated[list[str], Parameter("--set")] = (), images_folder: ImagesFolder = None,
    skip: Skip = False, device: Device = "auto", quiet: Quiet = False,
) -> None:  # fmt: skip
    """Finetune your ViT so that it relies on the object, and test it beside a control.

    relevit finetune --model vit_base_patch16_224 --data my_images --out run
    relevit finetune --model dinov2-s --new-head --data my_images --masks tokencut \\
        --shifted night rain --out run

    The cures are label (the class term alone), relevance (RobustViT's terms),
    swap (the class term; the objects of half of each batch on other images'
    backgrounds), and both. With --blocks 3 a step costs less than half.

    Stop it at any time: the same command goes on. run/report.html says what came
    of it, and run/weights.safetensors is the model as plain timm takes it.

    Args:
        new_head: fit a new head to the classes first
        shifted: further test sets, a folder each
        cure: label, relevance, swap, both or another; without it the masks decide
        against: the cure that it is compared with; without it label
        trained_blocks: train the last so many blocks, norm and head; without it all
        rates: learning rate, or some that are tried; without it three
        settings: further ones as KEY=VALUE, such as epochs=3; a wrong KEY lists all
    """
    choices = _choices("finetune", locals())  # some may be said by --set as well
    door.need_there("finetune", data=data, images=choices.images_folder or None)
    door.need_room("finetune", out=out)
    door.need_masks("finetune", choices.masks or None)
    for folder in choices.shifted:
        door.need_there("finetune", shifted=folder)
    door.need_model("finetune", own_model, choices.own_weights or None, device)
    tell, step = _progress(quiet)
    tell(f"finetuning {choices.own_model} on {choices.data}, into {out}")
    with loading():
        from relevit_own.finetune import finetune_folder
        from relevit_own.reports.finetuned import write_report
    try:
        result = finetune_folder(choices, out, device, tell, step)
        say(f"weights: {result.weights}", f"report: {write_report(result)}")
    except KeyboardInterrupt:
        kept = f"what is done is in {out}, and the same command goes on from there"
        raise KeyboardInterrupt(*([kept] if out.is_dir() else [])) from None


@app.command
def explain(
    images: list[Path], /, *, own_model: Model = FIRST, text: list[str] = (),
    method: str = "gae", target: str | None = None, top: int | None = None,
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None, save_maps: bool = False,
    masks: Path | None = None, names: Names = None, own_weights: Weights = None,
    own_options: Options = (), skip: Skip = False, device: Device = "auto",
) -> None:  # fmt: skip
    """Draw where a ViT looks in an image.

    relevit explain cat.jpg
    relevit explain cat.jpg --model vit_base_patch16_224 --target tabby -o map.png
    relevit explain street.jpg --model clip-b32 --text "a bus" "a bicycle"
    relevit explain my_images --model run --method gae,token_wise -o maps

    The model that is inside, dinov2-s8, knows 40 animals and nothing else. In the
    last line run is the --out of relevit finetune. A folder of images gets a
    folder of maps, with an index.html.

    Args:
        images: files, or folders
        text: of CLIP: a map for each of these texts, the likeliest first
        method: one or more, such as gae,rollout,token_wise
        target: class by name or number, a name first; without it the model's answer
        top: maps for so many of the likeliest classes
        output: PNG, JPEG or PDF of one image, or folder
        save_maps: NPY of each map, in the folder
        masks: folder of masks, if not masks/ beside images/
    """
    for image in images:
        door.need_there("explain", image=image)
    door.need_there("explain", masks=masks)
    out = output or _unnamed(images)
    door.need_room("explain", output=out.parent if out.suffix else out)
    methods = [name.strip() for name in method.split(",")]
    door.need_methods("explain", methods)
    door.need_texts(own_model, text)
    door.need_model("explain", own_model, own_weights, device)
    names, options = text or _names("explain", names), _pairs("explain", own_options)
    if target is not None and top is not None:
        raise ValueError("explain: --target is one class, --top asks for the likeliest; give one")
    with loading():
        from relevit_own.explained import limits
        from relevit_own.explaining import explain_pictures, prepare
    more = {"save_maps": save_maps, "skip_unreadable": skip}
    work = prepare(images, out, methods, masks=masks, **more)
    if own_model == FIRST:
        off, taken = (limits()[FIRST][f"{key}_pct"] for key in ("own_refused", "others_passed"))
        say(
            f"model: {FIRST}, which knows 40 animals and nothing else; for others give --model",
            f"it is not sure of {off:.0f} % of the drawings of them that it answers rightly, and "
            f"takes {taken:.0f} % of pictures of other things for one of them",
        )
    subject = _subject(own_model, own_weights, options, names, device)
    explain_pictures(
        work, subject, target=target, top=(len(text) or 1) if top is None else top, say=say
    )
    shown = [f"left out: {reason}" for reason in work.left_out[:MOST_LEFT_OUT]]
    more = len(work.left_out) - MOST_LEFT_OUT
    say(*shown, *([f"and {more} more"] if more > 0 else []), f"written: {out}")


@app.command
def judge(
    method: str | None = None, /, *, out: Path | None = None, quick: bool = False,
    device: Device = "auto",
) -> None:  # fmt: skip
    """Hold an attribution method against fixed tests.

    relevit judge
    relevit judge my_method.py:explain --quick
    relevit judge my_method.py:explain --out mine.json

    Alone it prints the table of those that were judged, and how to add a row. A
    method is a function (model, images, target) -> maps, or a class of captum's.

    Args:
        method: FILE.py:NAME, or a method's name
        out: JSON of all that came out
        quick: few scenes, to try it: no row
    """
    if out and out.suffix != ".json":
        raise ValueError(f"judge: {out} is no JSON file; give one, such as mine.json")
    door.need_there("judge", method=(method or "").rpartition(":")[0])
    door.need_room("judge", out=out and out.parent)
    door.need_device("judge", device)
    with loading():
        from relevit.base.device import choose_device
        from relevit.base.files import write_atomically
        from reproduction.measures import judge as tests
        from reproduction.measures import judged
    records = judged.read_records(judged.kept_in())
    if method is None:
        say(judged.in_words(records) if records else judged.NO_TABLE, "", judged.HOW.rstrip())
        return
    if method not in tests.MARKS:
        judged.read_method(method)  # before any work
    count = tests.QUICK if quick else tests.SCENES
    tasks = tests.open_tasks(count, device=choose_device(device))
    name = out.stem if out else method.rpartition(":")[2]
    record = judged.judge(method, name, tasks, say)
    others = [each for each in records if judged.comparable(each, record)]
    others = others or [judged.judge(mark, mark, tasks) for mark in tests.MARKS]
    beside = [record, *(each for each in others if each["method"] != name)]
    for model, empty in record["empty"].items():
        if empty:
            say(f"{model}: {empty} maps say nothing (the same everywhere, or NaN)")
    say(judged.in_words(beside), "")
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, judged.as_json(record))
        say(f"written: {out}")


# The machine, and the papers' data sets


@app.command
def doctor(
    data_root: Path | None = None, /, *, sets: Annotated[list[str], Parameter("--set")] = (),
    deep: bool = False, as_json: Annotated[bool, Parameter("--json")] = False,
) -> int:  # fmt: skip
    """Is this machine ready, or a folder of the papers' data sets whole?

    Args:
        data_root: folder that the archives were unpacked to; without it the machine is looked at
        sets: only these, such as val a r; docs/paper_preset.md has all
        deep: decode every image: takes hours
        as_json: print one JSON object
    """
    if data_root is None:
        if sets or deep or as_json:
            raise ValueError("doctor: --set, --deep and --json are of a folder of sets; give it")
        return _ready()
    from habitats.real.catalogue import CATALOGUE
    from reproduction.pipeline.doctor import examine, lines

    findings = []
    for key in dict.fromkeys(sets or CATALOGUE):
        findings.append(examine(data_root, key, deep=deep))
        if not as_json:
            say(*lines(findings[-1]))
    whole = sum(finding.state == "whole" for finding in findings)
    if as_json:
        report = {"data_root": str(data_root), "whole": whole == len(findings)}
        report |= {"sets": [finding.as_json() for finding in findings]}
        say(json.dumps(report, indent=2))
    else:
        say(f"{whole} of {len(findings)} sets are whole in {data_root}")
    return int(whole < len(findings))


def _ready() -> int:
    from reproduction.pipeline.doctor import ready

    good = True
    for what, fit, said in ready():
        good &= fit
        say(f"{'ok ' if fit else 'NOT'} {what:<10} {said}")
    say("ready" if good else "not ready: mend what is marked NOT")
    return int(not good)


# What was typed


def _choices(command: str, given: Mapping[str, Any]) -> OwnChoices:
    """A command's parameters that are called as fields of OwnChoices; what is wrong is called as it
    was typed."""
    from relevit_own.choices import OwnChoices

    more, own = _pairs(command, given.get("settings", ())), OwnChoices.model_fields
    asked = {key: given[key] for key in own if key in given and given[key] not in (None, ())}
    asked |= {"corrupted": "skip"} if given["skip"] else {}
    asked |= {"own_options": _pairs(command, given["own_options"])}
    where = f"relevit {command}"
    if twice := next((key for key in more if asked.get(key)), None):
        raise ValueError(f"{where}: {twice} is given by an option and by --set; give it once")
    asked |= more
    try:
        return OwnChoices.checked(asked, where)
    except ValueError as error:
        options = app[command].assemble_argument_collection()
        flags = {each.field_info.name: each.name for each in options}
        key = re.compile(rf"(?m)^{where}: (\w+)(\.\d+)?")
        flags = {name: flag for name, flag in flags.items() if name not in more}
        said = key.sub(lambda k: f"{where}: {flags.get(k[1], k[1] + (k[2] or ''))}", str(error))
        raise ValueError(said) from None


def _pairs(command: str, given: Sequence[str]) -> dict[str, Any]:
    """`key=value`, the values as YAML reads them, but for names. Raises: ValueError."""
    import yaml

    from relevit.base.errors import one_line

    pairs = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not (key and sign):
            raise ValueError(f"{command}: {text!r} is no key=value, like img_size=224")
        try:
            pairs[key] = yaml.load(value, yaml.BaseLoader if key == NAMES else yaml.SafeLoader)
        except yaml.YAMLError as error:
            reason = one_line(error)
            raise ValueError(
                f"{command}: {text!r} is no valid YAML ({reason}); like rates=[1.0e-5]"
            ) from error
    return pairs


def _names(command: str, given: str | None) -> Sequence[str]:
    """Names of classes from a file, or ImageNet's. Raises: ValueError for what is no such file."""
    if given is None:
        return ()
    if given == "imagenet":
        from habitats.real.classes import IMAGENET_NAMES

        return IMAGENET_NAMES
    door.need_there(command, names=given)
    try:
        names = Path(given).read_text("utf-8-sig").rstrip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{command}: --names {given} cannot be read ({error}); give a text file with a class's "
            "name in each line, or imagenet"
        ) from error
    if not names:
        raise ValueError(
            f"{command}: --names {given} is empty; give a text file with a class's name in each "
            "line, or imagenet"
        )
    return names


def _unnamed(images: Sequence[Path]) -> Path:
    """Where maps go that are given no place: of one picture a file here, else a folder."""
    one = len(images) == 1 and not images[0].is_dir()
    return Path(f"{images[0].stem}_map.png" if one else "maps")


def _subject(
    name: str,
    weights: str | None,
    options: dict[str, Any],
    names: Sequence[str],
    device: str,
    prompt: str | None = None,
    answers_alone: bool = False,
) -> Subject:
    """A model by name or of a folder, with the names of its classes; CLIP is asked these."""
    from relevit_own.explained import Subject, class_names

    if door.is_clip(name):
        if options:
            raise ValueError(f"{name} is CLIP as it is; leave --model-options out")
        from relevit_own.texts import open_clip, prompts

        folder = weights or (name if os.path.isdir(name) else None)
        asked = prompts(names, prompt) if prompt else names
        return Subject(name, open_clip(folder and Path(folder), asked, device), names)
    from relevit.models.loading import open_model

    how = {"options": options, "device": device, "answers_alone": answers_alone}
    model = open_model(name, weights and Path(weights), **how)
    return Subject(name, model, names or class_names(model))


# Progress


def _progress(quiet: bool) -> tuple[Callable[[str], None], Callable[[str, int, int], None]]:
    """What prints a line, with its time outside a terminal, and what moves a bar in one."""
    from tqdm import tqdm

    terminal = bool(sys.stdout and sys.stdout.isatty())
    bar = tqdm(leave=False, unit="step", disable=quiet or not terminal, delay=1)

    def tell(line: str) -> None:
        if not quiet:
            with tqdm.external_write_mode():
                say(line if terminal else f"{datetime.now():%H:%M:%S}  {line}")

    def step(what: str, done: int, steps: int) -> None:
        bar.total = steps
        bar.set_description(what, refresh=False)
        bar.update(done - bar.n)

    return tell, step


if __name__ == "__main__":
    command()
