"""Stages as Kubernetes Jobs, for Snakemake's executor `cluster-generic` (profiles/kubernetes).

`submit` prints the name of a new Job, `status` says running, success or failed, `cancel` ends
Jobs. Snakemake's own Kubernetes executor is not used: it moves every file that a rule names
through an object store, while the stages share a folder and read more of it than that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

GPU = "nvidia.com/gpu"  # resource that a node offers


def manifest(template: Path, script: Path, properties: dict[str, Any]) -> dict[str, Any]:
    """The Job that runs Snakemake's `script` here: the template with what the stage needs.

    `properties` are Snakemake's: `threads`, and `resources` with `mem_mb` and maybe `gpu`.
    Raises: FileNotFoundError, ValueError for a template that is no Job with one container.
    """
    if not template.is_file():
        raise FileNotFoundError(f"pods: {template} is missing; copy profiles/kubernetes/job.yaml")
    body = yaml.safe_load(template.read_text())
    try:
        (container,) = body["spec"]["template"]["spec"]["containers"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"pods: {template} has no Job with one container; start from "
            "profiles/kubernetes/job.yaml"
        ) from error
    resources = properties.get("resources", {})
    amounts = {"cpu": str(properties["threads"])}
    if "mem_mb" in resources:
        amounts["memory"] = f"{resources['mem_mb']}M"
    if resources.get("gpu"):
        amounts[GPU] = str(resources["gpu"])
    limits = {key: amount for key, amount in amounts.items() if key != "cpu"}
    container["command"] = ["/bin/sh", str(script.resolve())]
    container["workingDir"] = str(Path.cwd())
    # The stages call papermill and jupyter by name, as they do here.
    path = {"name": "PATH", "value": os.environ["PATH"]}
    container["env"] = [*container.get("env", []), path]
    container["resources"] = {"requests": amounts, "limits": limits}
    return body


def submit(template: Path, script: Path) -> str:
    """Make a Job for Snakemake's script; its name. Raises: as `manifest`, CalledProcessError."""
    from snakemake.utils import read_job_properties  # takes a second

    body = manifest(template, script, read_job_properties(str(script)))
    return _kubectl("create", "-f", "-", "-o", "name", given=json.dumps(body)).strip()


def status(name: str) -> str:
    """Whether a Job is running, or ended in success or failed; one that is gone has failed."""
    try:
        found = _kubectl("get", name, "--ignore-not-found", "-o", "json")
    except subprocess.CalledProcessError:
        return "running"  # the cluster did not answer: ask again
    if not found.strip():
        return "failed"
    conditions = json.loads(found).get("status", {}).get("conditions", [])
    ended = {each["type"] for each in conditions if each["status"] == "True"}
    return "success" if "Complete" in ended else "failed" if "Failed" in ended else "running"


def cancel(names: list[str]) -> None:
    """End Jobs and their pods."""
    _kubectl("delete", *names, "--ignore-not-found", "--wait=false")


def _kubectl(*arguments: str, given: str | None = None) -> str:
    return subprocess.run(
        ["kubectl", *arguments], input=given, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def main(arguments: list[str] | None = None) -> int:
    """Command line, as Snakemake calls it."""
    parser = argparse.ArgumentParser(prog="python -m relevit.pipeline.pods", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("submit", help="make a Job and print its name")
    new.add_argument("template", type=Path)
    new.add_argument("script", type=Path)
    commands.add_parser("status", help="say how a Job is").add_argument("name")
    commands.add_parser("cancel", help="end Jobs").add_argument("names", nargs="+")
    options = parser.parse_args(arguments)
    try:
        if options.command == "submit":
            sys.stdout.write(submit(options.template, options.script) + "\n")
        elif options.command == "status":
            sys.stdout.write(status(options.name) + "\n")
        else:
            cancel(options.names)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
