"""Make rows of a preset's table of runs: `python -m reproduction.pipeline.make workshop NAME ...`.

Without a name it prints the table. The pipeline makes all that its notebooks ask for. How long each
took is read from what is said here (`reproduction.pipeline.results`).
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time

from relevit.base.process import leave, loading
from reproduction.params.preset import read_preset
from reproduction.stages import preset_file


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduction.pipeline.make", description=__doc__
    )
    parser.add_argument("preset", help="file of params/, for example workshop")
    parser.add_argument("runs", nargs="*", metavar="run", help="name of a row of the table")
    parser.add_argument("--device", default="auto", help="for example cuda:1")
    options = parser.parse_args(arguments)
    try:
        preset = read_preset(preset_file(options.preset))
        with loading():
            from reproduction import runs
            from reproduction.runs import grids
        if not options.runs:
            sys.stdout.write(grids.shown(preset).to_string() + "\n")
            return 0
        known = grids.of_preset(preset)
        for name in options.runs:
            if name not in known:
                near = difflib.get_close_matches(name, known, 3) or list(known)[:3]
                raise ValueError(
                    f"make: {name!r} is no run of {preset.path}; those close to it are "
                    f"{', '.join(near)}, and `python -m reproduction.pipeline.make "
                    f"{options.preset}` prints all"
                )
        for name in options.runs:
            start = time.perf_counter()
            folder = runs.make(known[name], options.device)
            sys.stdout.write(f"{folder}: {time.perf_counter() - start:.0f} s\n")
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    leave(main())
