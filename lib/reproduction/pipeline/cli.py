"""The command `relevit`: your own images and model, and the folder of the real data sets."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from relevit.choices.own import OwnChoices

NAMES = "head_classes"  # of which one may be called no, or 01
FIRST = "dinov2-s8"  # comes with the package, and finds the animal in a photograph, too

WELCOME = "Where does a Vision Transformer look? Can looking at the right thing make it better?"
MORE = "relevit COMMAND --help has examples and all options; a first one: relevit explain cat.jpg"

EXAMPLES = {
    "example": """examples:
  relevit example my_images        # my_images/data with masks, and two shifted sets
""",
    "check": """examples:
  relevit check my_images                      # my_images/images/<class>/*.jpg, masks/<class>/*.png
  relevit check birds.csv --picture birds.png  # columns image, label and, if there are masks, mask
""",
    "finetune": """examples:
  relevit finetune --model vit_base_patch16_224.augreg_in1k --data my_images --out run
  relevit finetune --model deit3_small_patch16_224 --weights mine.safetensors --data my_images \\
      --shifted night rain --out run
  relevit finetune --model dinov2-s --new-head --data my_images --masks tokencut --out run
  relevit finetune --model dinov2-s --new-head --data my_images --cure swap --against relevance \\
      --out run

Cures: label (the class term alone), relevance (RobustViT's terms), swap (the class term, half of
each batch on other images' backgrounds), both. --blocks 3 trains the last three blocks alone, and
a step costs less than half.

Stop it at any time: the same command goes on. run/report.html says what came of it, and
run/weights.safetensors is the model as plain timm takes it.
""",
    "audit": """examples:
  relevit audit --model vit_base_patch16_224.augreg_in1k --data my_images --out audit
  relevit audit --model deit3_small_patch16_224 --weights mine.safetensors --data my_images \\
      --masks tokencut --out audit --fail-over 16
  relevit audit --model run --data my_tests --out audit      # the --out of relevit finetune

Each object is shown on its own background, on another image's of its class, on another class's, on
none, and painted over. audit/index.html says what came of it, audit/audit.json the same for
programs.
""",
    "explain": """examples:
  relevit explain cat.jpg          # dinov2-s8, which is inside, knows 40 animals; cat_map.png
  relevit explain cat.jpg --model vit_base_patch16_224.augreg_in1k -o map.png
  relevit explain cat.jpg --model run --method gae,token_wise --target cat -o map.pdf  # an --out
  relevit explain cat.jpg --compare run_a run_b --top 3 -o map.png
  relevit explain my_images --model run --save-maps -o maps    # a picture each, and maps/index.html
""",
    "judge": """examples:
  relevit judge                                        # the table, and how to add a row
  relevit judge my_method.py:explain --quick           # on a few scenes, to try
  relevit judge my_method.py:explain --out mine.json   # a function (model, images, target) -> maps
  relevit judge my_method.py:Saliency --out mine.json  # a class of captum's
""",
    "doctor": "",
}


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 2 for a wrong input, in one sentence, 130 when stopped; else the command's."""
    for stream in (sys.stdout, sys.stderr):  # a terminal may lack letters of a file's name
        stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser(given).parse_args(given)
    if options.command is None:
        known = [f"  relevit {name:<10}{about}" for name, (_, about, _) in COMMANDS.items()]
        _say(WELCOME, "", *known, "", MORE)
        return 0
    try:
        return options.work(options)
    except (ValueError, OSError, ImportError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        kept = f"; what is done is in {options.out}, and the same command goes on from there"
        begun = options.command == "finetune" and options.out.is_dir()
        kept = f"{kept}:\nrelevit {shlex.join(given)}" if begun else ""
        sys.stderr.write(f"\nstopped{kept}\n")
        return 130


def command() -> NoReturn:
    """The command as it is installed."""
    code = main()
    from relevit.base.process import leave

    leave(code)


# Your own: libraries are first loaded here, so that --help is quick


def check(options: argparse.Namespace) -> int:
    """Print what is in a folder of images. Raises: ValueError where it cannot be finetuned on."""
    from relevit.base.process import loading

    with loading():
        from relevit.data.own.check import apart, examine_parts, lines, need_usable
        from relevit.data.own.folder import read_splits
        from relevit.data.own.outlines import MaskValues
    values = MaskValues(tuple(options.object_values), tuple(options.ignored_values))
    parts = read_splits(options.data, options.masks, values=values, images=options.images_folder)
    _need_new(options, [path for part in parts.values() for path in part.images])
    found = examine_parts(parts, corrupted=options.corrupted)
    for name, findings in found.items():
        _say(*([f"{name}:"] if len(found) > 1 else []), *lines(findings))
    if options.list:
        import pandas as pd

        options.list.parent.mkdir(parents=True, exist_ok=True)
        named = pd.concat({name: findings.named() for name, findings in found.items()})
        named.droplevel(1).rename_axis("part").to_csv(options.list)
        _say(f"written: {options.list}")
    for findings in found.values():
        need_usable(findings)
    _, twice = apart({name: findings.listing for name, findings in found.items()})
    for name, copies in twice.items():
        if copies:
            _say(f"{len(copies)} of {name} are in another part, too, such as {next(iter(copies))}")
    if options.picture:
        from relevit.data.pictures import mark
        from reproduction.plots.images import sample_grid

        kind = options.picture.suffix.lower().removeprefix(".").replace("jpg", "jpeg")
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        sample_grid(next(iter(found.values())).listing).savefig(
            options.picture, bbox_inches="tight", dpi=160, **mark(kind)
        )
        _say(f"written: {options.picture}")
    return 0


def _need_new(options: argparse.Namespace, images: Sequence[Path]) -> None:
    """Raise ValueError for a file to write that is the data, or one of its images."""
    there = {path.resolve() for path in (options.data, *images)}
    for name in ("picture", "list"):
        path = getattr(options, name)
        if path and path.resolve() in there:
            raise ValueError(f"check: {path} is of the data; give another file for --{name}")


def example(options: argparse.Namespace) -> int:
    """Write images as one's own would be: to see what a folder looks like, and to try it all."""
    from habitats.example import DATA, SETS, write_example

    folder = write_example(options.folder, per_class=options.images, sets=SETS)
    _say(*(f"written: {folder / name}" for name in (DATA, *SETS)))
    return 0


def finetune(options: argparse.Namespace) -> int:
    """Finetune and test a model on a folder of images, and write the report."""
    from relevit.base.process import loading

    choices = _choices(options)
    say, step = _progress(options.quiet)
    say(f"finetuning {choices.own_model} on {choices.data}, into {options.out}")

    with loading():
        from relevit.finetune.your_own import finetune_folder
        from reproduction.pipeline.reports.finetuned import write_report
    result = finetune_folder(choices, options.out, options.device, say, step)
    _say(f"weights: {result.weights}", f"report: {write_report(result)}")
    return 0


def audit(options: argparse.Namespace) -> int:
    """Say how much a model leans on context; 1 where that is more than is asked for, else 0."""
    from relevit.base.process import loading

    with loading():
        from relevit.finetune.own_audit import audit_folder
        from reproduction.pipeline.reports.audited import need_free, write_audit
    need_free(options.out)
    choices = _choices(options)
    subject = _subject(options.own_model, options)
    say, _ = _progress(options.quiet)
    found = audit_folder(subject.name, subject.model, subject.classes, choices, say)
    page = write_audit(found, options.out)
    _say(found.audit.sentence, f"page: {page}")
    return int(found.audit.gap_pts.value > options.fail_over)


def explain(options: argparse.Namespace) -> int:
    """Draw where models look in images."""
    from relevit.base.process import loading

    with loading():
        from relevit.data.own.outlines import MaskValues
        from reproduction.pipeline.explained import limits
        from reproduction.pipeline.explaining import explain_pictures, prepare
    out = options.output or _unnamed(options.images)
    work = prepare(
        options.images,
        out,
        [name.strip() for name in options.method.split(",")],
        masks=options.masks,
        values=MaskValues(tuple(options.object_values), tuple(options.ignored_values)),
        save_maps=options.save_maps,
        skip_unreadable=options.corrupted == "skip",
    )
    if not (options.own_model or options.compare):
        off, taken = (limits()[FIRST][f"{key}_pct"] for key in ("own_refused", "others_passed"))
        _say(
            f"model: {FIRST}, which knows 40 animals and nothing else; for others give --model",
            f"it is not sure of {off:.0f} % of the drawings of them that it answers rightly, and "
            f"takes {taken:.0f} % of pictures of other things for one of them",
        )
    models = options.compare or [options.own_model or FIRST]
    subjects = [_subject(name, options) for name in models]
    explain_pictures(work, subjects, target=options.target, top=options.top, say=_say)
    _say(*(f"left out: {reason}" for reason in work.left_out), f"written: {out}")
    return 0


def judge(options: argparse.Namespace) -> int:
    """Judge an attribution method, or print the table of those that were judged."""
    if options.out and options.out.suffix != ".json":
        raise ValueError(f"judge: {options.out} is no JSON file; give one, such as mine.json")
    from relevit.base.process import loading

    with loading():
        from relevit.base.device import choose_device
        from reproduction.measures import judge as tests
        from reproduction.measures import judged
    records = judged.read_records(judged.kept_in())
    if options.method is None:
        for model in tests.MODELS:
            _say(f"{model}:", judged.in_words(records, model) if records else judged.NO_TABLE, "")
        _say(judged.HOW.rstrip())
        return 0
    if options.method not in tests.MARKS:
        judged.read_method(options.method)  # before any work
    count = tests.QUICK if options.quick else tests.SCENES
    tasks = tests.open_tasks(count, device=choose_device(options.device))
    name = options.out.stem if options.out else options.method.rpartition(":")[2]
    record = judged.judge(options.method, name, tasks, _say)
    others = [each for each in records if judged.comparable(each, record)]
    others = others or [judged.judge(mark, mark, tasks) for mark in tests.MARKS]
    beside = [record, *(each for each in others if each["method"] != name)]
    for model, empty in record["empty"].items():
        note = f", {empty} maps say nothing (the same everywhere, or NaN)" if empty else ""
        _say(f"{model}{note}:", judged.in_words(beside, model), "")
    _keep(record, options.out)
    return 0


def _keep(record: dict[str, Any], out: Path | None) -> None:
    from relevit.base.files import write_atomically
    from reproduction.measures.judged import as_json

    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, as_json(record))
        _say(f"written: {out}")


def _unnamed(images: list[Path]) -> Path:
    """Where maps go that are given no place: of one picture a file here, else a folder."""
    one = len(images) == 1 and not images[0].is_dir()
    return Path(f"{images[0].stem}_map.png" if one else "maps")


def _subject(name: str, options: argparse.Namespace) -> Any:
    """A model by name, or that of a run, with the names of its classes."""
    from relevit.models.loading import open_model
    from reproduction.pipeline.explained import Subject, class_names

    kind = _pairs(options.own_options)
    if options.own_weights and options.compare:
        raise ValueError("--weights is of one model; compare runs, or names that need none")
    if not Path(name).is_dir():
        weights = Path(options.own_weights) if options.own_weights else None
        model = open_model(name, weights, options=kind, device=options.device)
        return Subject(name, model, _names(options.names) or class_names(model))
    if options.own_weights or kind or options.names:
        raise ValueError(f"{name} is a run with weights, options and names of its own; give none")
    from relevit.finetune.own_folder import open_run

    return Subject(name, *open_run(Path(name), options.device))


def _names(given: str | None) -> Sequence[str]:
    """Names of classes from a file, or ImageNet's. Raises: ValueError for what is no such file."""
    from habitats.real.classes import IMAGENET_NAMES
    from relevit.base.errors import one_line
    from relevit.choices.words import IMAGENET

    if given is None or given == IMAGENET:
        return () if given is None else IMAGENET_NAMES
    try:
        return Path(given).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"--names {given} cannot be read ({one_line(error)}); give a text file with a class's "
            f"name in each line, or {IMAGENET}"
        ) from error


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _progress(quiet: bool) -> tuple[Callable[[str], None], Callable[[str, int, int], None]]:
    """What prints a line, with its time outside a terminal, and what moves a bar in one."""
    from tqdm import tqdm

    terminal = sys.stdout.isatty()
    bar: tqdm | None = None

    def say(line: str) -> None:
        if not quiet:
            tqdm.write(line if terminal else f"{datetime.now():%H:%M:%S}  {line}")
            sys.stdout.flush()

    def step(what: str, done: int, steps: int) -> None:
        nonlocal bar
        if bar is None:
            off = quiet or not terminal
            bar = tqdm(total=steps, initial=done - 1, leave=False, unit="step", disable=off)
        bar.set_description(what, refresh=False)
        bar.update(done - bar.n)
        if done == steps:
            bar.close()

    return say, step


def _choices(options: argparse.Namespace) -> OwnChoices:
    """What is asked for. Options are called as its fields; what is wrong is called as was typed."""
    from relevit.choices.own import OwnChoices

    found = {key: value for key, value in vars(options).items() if value is not None}
    found = {key: found[key] for key in OwnChoices.model_fields if key in found}
    settings, where = _pairs(getattr(options, "settings", [])), f"relevit {options.command}"
    found |= {"own_options": _pairs(options.own_options)} | settings
    try:
        return OwnChoices.checked(found, where)
    except ValueError as error:
        typed = {key: flag for key, flag in options.flags.items() if key not in settings}
        key = re.compile(rf"(?m)^{where}: (\w+)(\.\d+)?")
        said = key.sub(lambda k: f"{where}: {typed.get(k[1], k[1] + (k[2] or ''))}", str(error))
        raise ValueError(said) from None


def _pairs(given: list[str]) -> dict[str, Any]:
    """`key=value`, the values as YAML reads them, but for names. Raises: ValueError."""
    import yaml

    from relevit.base.errors import one_line

    pairs = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not (key and sign):
            raise ValueError(f"{text!r} is no key=value, like img_size=224")
        try:
            pairs[key] = yaml.load(value, yaml.BaseLoader if key == NAMES else yaml.SafeLoader)
        except yaml.YAMLError as error:
            reason = one_line(error)
            raise ValueError(f"{text!r}: no valid YAML ({reason}); like rates=[1.0e-5]") from error
    return pairs


# The papers' data sets


def doctor(options: argparse.Namespace) -> int:
    """Whether this machine is ready, or the sets of a data root are whole; 0 if so, else 1.

    Each is printed as soon as it is known.
    """
    if options.data_root is None:
        if options.sets or options.deep or options.json:
            raise ValueError(
                "doctor: --set, --deep and --json are of a folder of data sets; give it"
            )
        return _ready()
    from habitats.real.catalogue import CATALOGUE
    from reproduction.pipeline.doctor import examine, lines

    findings = []
    for key in dict.fromkeys(options.sets or CATALOGUE):
        findings.append(examine(options.data_root, key, deep=options.deep))
        if not options.json:
            _say(*lines(findings[-1]))
    whole = sum(finding.state == "whole" for finding in findings)
    if options.json:
        found = [finding.as_json() for finding in findings]
        root = str(options.data_root)
        report = {"data_root": root, "whole": whole == len(findings), "sets": found}
        _say(json.dumps(report, indent=2))
    else:
        _say(f"{whole} of {len(findings)} sets are whole in {options.data_root}")
    return int(whole < len(findings))


def _ready() -> int:
    from reproduction.pipeline.doctor import ready

    good = True
    for what, fit, said in ready():
        good &= fit
        _say(f"{'ok ' if fit else 'NOT'} {what:<10} {said}")
    _say("ready" if good else "not ready: mend what is marked NOT")
    return int(not good)


def _parser(asked: Collection[str] | None = None) -> argparse.ArgumentParser:
    """With all options of the commands that are `asked` for, or of all: some take a moment."""
    parser = argparse.ArgumentParser(prog="relevit", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    for name, (work, about, options) in COMMANDS.items():
        how = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": EXAMPLES[name]}
        made = commands.add_parser(name, help=about, description=about, **how)
        if asked is None or name in asked:
            options(made)
        flags = {
            each.dest: each.option_strings[-1] for each in made._actions if each.option_strings
        }
        made.set_defaults(work=work, flags=flags)
    return parser


def _path(text: str) -> Path:
    """A path as it is typed: a shell leaves the ~ of --out=~/run as it is."""
    return Path(expanduser(text))


def _of_example(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=_path, help="new folder to write to")
    add("--images", type=int, default=8, help="of each of 40 classes (8)")


def _of_check(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", type=_path, help="folder, table of paths, or COCO file")
    add("--masks", type=_path, help="folder of masks, if it is not beside the images")
    _of_data(parser)
    add("--picture", type=_path, metavar="FILE", help="draw samples to this file")
    add("--list", type=_path, metavar="FILE", help="write all that is refused or left out: a CSV")
    _unreadable(parser)


def _of_audit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=expanduser, required=True, help="folder, table of paths, or COCO file")
    add("--masks", type=expanduser, help="folder of masks, or tokencut to make them without any")
    _of_data(parser)
    add("--names", help="text file with a class's name a line, or imagenet")
    add(
        "--most", dest="looked_at", type=int, default=300, metavar="N",
        help="images at most, drawn by the seed (300)",
    )  # fmt: skip
    add("--seed", type=int, default=0, help="of images and backgrounds (0)")
    add("--out", type=_path, required=True, help="folder for what comes of it")
    add(
        "--fail-over",
        type=float,
        default=float("inf"),
        metavar="POINTS",
        help="exit code 1 where the background gap is larger",
    )
    add("--quiet", action="store_true", help="say only the verdict, at the end")
    parser.set_defaults(compare=None)
    _model(parser)
    _unreadable(parser)


def _of_finetune(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    from relevit.choices.own import OwnChoices

    # Paths of OwnChoices, which knows ~ itself.
    add("--data", required=True, help="folder, table of paths, or COCO file")
    add("--masks", help="folder of masks, or tokencut to make them without any")
    _of_data(parser)
    add("--shifted", nargs="+", default=[], help="further test sets, a folder each")
    add("--new-head", action="store_true", help="fit a new head to the classes first")
    add(
        "--cure",
        metavar="CURE",
        help="label, relevance, swap, both or another; else by the masks (auto)",
    )
    add("--against", metavar="CURE", help="cure to compare with (label)")
    add(
        "--blocks", dest="trained_blocks", type=int, metavar="N",
        help="train the last N blocks, norm and head (all)",
    )  # fmt: skip
    add(
        "--rate", dest="rates", type=float, nargs=1, metavar="RATE",
        help="learning rate; else a few are tried",
    )  # fmt: skip
    add("--out", type=_path, required=True, help="folder for what comes of it")
    add("--quiet", action="store_true", help="say only what was written, at the end")
    add(
        "--set",
        dest="settings",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help=f"any of {', '.join(OwnChoices.model_fields)}",
    )
    _model(parser)
    _unreadable(parser)


def _of_explain(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("images", type=_path, nargs="+", metavar="IMAGE", help="file, or a folder")
    add("--method", default="gae", help="gae,rollout,token_wise,... (METHODS)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--target", help="class by name or number, a name first; else its answer")
    shown.add_argument("--top", type=int, default=1, metavar="N", help="the N likeliest classes")
    add(
        "-o", "--output", type=_path, help="PNG, JPEG or PDF of one image, or folder (NAME_map.png)"
    )
    add("--names", help="text file with a class's name a line, or imagenet")
    add("--save-maps", action="store_true", help="NPY of each map, in the folder")
    add("--masks", type=_path, help="folder of masks, if not masks/ beside images/")
    _mask_values(parser)
    _model(parser, compare=True)
    _unreadable(parser)


def _of_judge(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("method", nargs="?", help="FILE.py:NAME, or a method's name (METHODS)")
    add("--out", type=_path, metavar="FILE", help="JSON of all that came out")
    add("--quick", action="store_true", help="few scenes, to try it: no row")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")


def _of_doctor(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    from habitats.real.catalogue import CATALOGUE

    add(
        "data_root",
        nargs="?",
        type=_path,
        help="folder that the archives were unpacked to; without: is this machine ready?",
    )
    add(
        "--set",
        dest="sets",
        nargs="+",
        action="extend",
        choices=tuple(CATALOGUE),
        metavar="SET",
        help=f"only these of {', '.join(CATALOGUE)}",
    )
    add("--deep", action="store_true", help="decode every image: takes hours")
    add("--json", action="store_true", help="print one JSON object")


def _model(parser: argparse.ArgumentParser, compare: bool = False) -> None:
    add = parser.add_argument
    given = parser.add_mutually_exclusive_group(required=not compare)
    inside = f" ({FIRST})" if compare else ""
    given.add_argument(
        "--model", dest="own_model", type=expanduser, metavar="MODEL",
        help=f"a timm name, a suite's name, or an --out{inside}",
    )  # fmt: skip
    if compare:
        given.add_argument(
            "--compare", type=expanduser, nargs="+", metavar="MODEL", help="some such, side by side"
        )
    add(
        "--weights", dest="own_weights", type=expanduser, metavar="FILE",
        help="file of its weights; else timm fetches them",
    )  # fmt: skip
    add(
        "--model-options", dest="own_options", nargs="+", default=[], metavar="KEY=VALUE",
        help="for timm.create_model, like img_size=224",
    )  # fmt: skip
    add("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")


def _of_data(parser: argparse.ArgumentParser) -> None:
    _mask_values(parser)
    parser.add_argument(
        "--images", dest="images_folder", type=expanduser, metavar="FOLDER",
        help="folder of a COCO file's pictures, if not beside it",
    )  # fmt: skip


def _mask_values(parser: argparse.ArgumentParser) -> None:
    for name, to, what in (
        ("--object", "object_values", "are the object"),
        ("--ignore", "ignored_values", "are neither, as a border's 255"),
    ):
        parser.add_argument(
            name, dest=to, type=int, nargs="+", default=[], metavar="N",
            help=f"values of label maps that {what}",
        )  # fmt: skip


def _unreadable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--skip-unreadable", dest="corrupted", action="store_const", const="skip", default="error",
        help="leave out images that cannot be read",
    )  # fmt: skip


COMMANDS = {  # what does it, what it is for, its options
    "example": (example, "write a folder of images to try the other commands with", _of_example),
    "check": (check, "say what is in a folder of images and masks", _of_check),
    "audit": (audit, "say how much your ViT leans on the background", _of_audit),
    "finetune": (finetune, "finetune your ViT so that it relies on the object", _of_finetune),
    "explain": (explain, "draw where a ViT looks in an image", _of_explain),
    "judge": (judge, "hold an attribution method against fixed tests", _of_judge),
    "doctor": (
        doctor,
        "is this machine ready, or a folder of the papers' data sets whole?",
        _of_doctor,
    ),
}


if __name__ == "__main__":
    command()
