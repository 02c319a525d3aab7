"""The command `relevit`: `relevit doctor DATA_ROOT` checks the folder of the real data sets."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from relevit.data.real.catalogue import CATALOGUE
from relevit.pipeline.doctor import examine, lines


def main(arguments: list[str] | None = None) -> int:
    """0 when all sets asked for are whole, 1 when one is not, 2 for a wrong input."""
    options = _parser().parse_args(arguments)
    try:
        return doctor(options.data_root, options.sets, deep=options.deep, as_json=options.json)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def doctor(
    data_root: Path, sets: list[str] | None = None, *, deep: bool = False, as_json: bool = False
) -> int:
    """Print what is known of the sets, each as soon as it is; 0 when all are whole, else 1."""
    findings = []
    for key in dict.fromkeys(sets or CATALOGUE):
        findings.append(examine(data_root, key, deep=deep))
        if not as_json:
            sys.stdout.write("\n".join(lines(findings[-1])) + "\n")
            sys.stdout.flush()
    whole = sum(finding.state == "whole" for finding in findings)
    if as_json:
        found = [finding.as_json() for finding in findings]
        report = {"data_root": str(data_root), "whole": whole == len(findings), "sets": found}
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        sys.stdout.write(f"{whole} of {len(findings)} sets are whole in {data_root}\n")
    return int(whole < len(findings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="relevit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("doctor", help="check the folder of the real data sets")
    check.add_argument("data_root", type=Path, help="folder that the archives were unpacked to")
    check.add_argument(
        "--set",
        dest="sets",
        nargs="+",
        action="extend",
        choices=tuple(CATALOGUE),
        metavar="SET",
        help=f"only these of {', '.join(CATALOGUE)}",
    )
    check.add_argument("--deep", action="store_true", help="decode every image: takes hours")
    check.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
