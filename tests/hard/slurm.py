"""One node of a real Slurm with two stand-in GPUs, in a folder: `python -m hard.slurm FOLDER`.

Processes of a job are found by their group, as cgroups are the system's: by their parents alone one
whose parent has ended first is lost, and stays.

From the system's packages (Debian: `apt install slurm-wlm munge slurmdbd mariadb-server`), as any
user: all servers run as whoever starts them, on free ports, with sockets and states in the folder.
"""

from __future__ import annotations

import getpass
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CLIENTS = (
    "sbatch",
    "squeue",
    "scancel",
    "sinfo",
    "srun",
    "scontrol",
    "sacct",
    "sacctmgr",
    "sshare",
)
NEEDED = ("munged", "slurmctld", "slurmd", *CLIENTS)
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
STARTING_S = 60.0
CPUS, MEMORY_MB = 8, 8000  # as told: more than there may be

CONF = """
ClusterName=one
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
EnforcePartLimits=ANY
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
KillWait=5
UnkillableStepTimeout=600
MinJobAge={min_job_age}
SchedulerParameters=batch_sched_delay=1,sched_interval=5
JobAcctGatherType=jobacct_gather/none
{accounting}
NodeName={host} CPUs={cpus} RealMemory={memory} Gres=gpu:2 State=UNKNOWN
PartitionName=gpu Nodes={host} Default=NO MaxTime=1-00:00:00 State=UP
"""
ENFORCED = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={ports[2]}
AccountingStorageEnforce=associations,limits
AccountingStoragePass={folder}/munge.socket
"""
SLURMDBD = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={ports[2]}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports[3]}
StorageUser=slurm
StoragePass=slurm
StorageLoc=accounts
"""


def missing(accounting: bool = False) -> str:
    """What is not installed; nothing where all is."""
    needed = (*NEEDED, *(ACCOUNTING if accounting else ()))
    return ", ".join(name for name in needed if not shutil.which(name, path=PLACES))


class Node:
    """The servers of one node; each can be ended and started again."""

    def __init__(self, folder: Path, accounting: bool = False, min_job_age: int = 300) -> None:
        self.folder, self.servers = folder, {}
        ports = [_free_port() for _ in range(4)]
        told = {"folder": folder, "ports": ports, "user": getpass.getuser(), "cpus": CPUS}
        told |= {"host": platform.node(), "memory": MEMORY_MB, "min_job_age": min_job_age}
        told["accounting"] = ENFORCED.format(**told) if accounting else ""
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        _write(folder / "slurm.conf", CONF.format(**told))
        _write(folder / "gres.conf", "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
        _write(folder / "slurmdbd.conf", SLURMDBD.format(**told))
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        told = {"SLURM_CONF": str(folder / "slurm.conf")}
        # Snakemake takes variables SLURM_* away in jobs; a cluster's file is in /etc.
        for name in CLIENTS:
            real = shutil.which(name, path=PLACES)
            words = f'#!/bin/sh\nSLURM_CONF={told["SLURM_CONF"]} exec {real} "$@"\n'
            (folder / name).write_text(words)
            (folder / name).chmod(0o755)
        self.environment = os.environ | told | {"PATH": f"{folder}{os.pathsep}{PLACES}"}
        pieces = [f"--{each}-file={folder}/munge.{each}" for each in ("key", "pid", "log", "seed")]
        self.commands = {
            "munged": ["munged", "-F", "--force", f"--socket={folder}/munge.socket", *pieces]
        }
        if accounting:
            data = ["--no-defaults", f"--datadir={folder}/data", f"--user={getpass.getuser()}"]
            where = [f"--socket={folder}/sql", f"--port={ports[3]}", "--bind-address=127.0.0.1"]
            self.commands["mariadbd"] = ["mariadbd", *data, *where, f"--pid-file={folder}/sql.pid"]
            self.commands["slurmdbd"] = ["slurmdbd", "-D"]
        self.commands["slurmctld"] = ["slurmctld", "-D", "-i"]
        self.commands["slurmd"] = ["slurmd", "-D", "-N", platform.node()]

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.said").open("ab") as said:
            how = {"stdout": said, "stderr": said, "start_new_session": True}
            command = [shutil.which(self.commands[name][0], path=PLACES), *self.commands[name][1:]]
            self.servers[name] = subprocess.Popen(command, env=self.environment, **how)

    def end(self, name: str) -> None:
        self.servers[name].terminate()
        try:
            self.servers[name].wait(10)
        except subprocess.TimeoutExpired:
            self.servers[name].kill()
            self.servers[name].wait()

    def ask(self, *command: str, check: bool = True) -> str:
        """What a command of Slurm prints."""
        how = {"env": self.environment, "text": True, "timeout": 120}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)
        if check and done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}")
        return done.stdout

    def until(self, *command: str, shows: str = "") -> None:
        """Wait until a command succeeds and shows this."""
        end = time.monotonic() + STARTING_S
        while True:
            with suppress(RuntimeError):
                if shows in self.ask(*command):
                    return
            if time.monotonic() > end:
                raise RuntimeError(f"{command}: {self.ask(*command, check=False)}")
            time.sleep(0.3)


@contextmanager
def node(folder: Path, accounting: bool = False, min_job_age: int = 300) -> Iterator[Node]:
    """A node that takes jobs while the body runs."""
    one = Node(folder, accounting, min_job_age)
    try:
        one.start("munged")
        one.until("munge", f"--socket={folder}/munge.socket", "-n")
        if accounting:
            _begin_accounting(one)
        one.start("slurmctld")
        one.until("scontrol", "ping", shows="UP")
        one.start("slurmd")
        one.until("sinfo", "--noheader", "--format=%t", shows="idle")
        yield one
    finally:
        with suppress(RuntimeError, subprocess.TimeoutExpired):
            one.ask("scancel", "--user", getpass.getuser(), check=False)
            end = time.monotonic() + STARTING_S
            while one.ask("squeue", "--noheader", check=False).strip():
                if time.monotonic() > end:
                    break
                time.sleep(0.3)
        for name in reversed(one.servers):
            one.end(name)


def _begin_accounting(one: Node) -> None:
    data = f"--datadir={one.folder}/data"
    one.ask("mariadb-install-db", "--no-defaults", data, f"--user={getpass.getuser()}")
    one.start("mariadbd")
    sql = ["mariadb", "--no-defaults", f"--socket={one.folder}/sql", "--execute"]
    one.until(*sql, "select 1")
    one.ask(*sql, "grant all on *.* to slurm@'127.0.0.1' identified by 'slurm'")
    one.start("slurmdbd")
    one.until("sacctmgr", "--noheader", "show", "cluster")
    one.ask("sacctmgr", "--immediate", "add", "cluster", "one")
    one.ask("sacctmgr", "--immediate", "add", "account", "mine")
    one.ask("sacctmgr", "--immediate", "add", "user", getpass.getuser(), "account=mine")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def main(folder: str, *options: str) -> None:
    """Have a node until Ctrl-C; with `accounting`, slurmdbd too."""
    if lacking := missing("accounting" in options):
        sys.exit(f"not installed: {lacking}")
    with node(Path(folder).resolve(), "accounting" in options) as one:
        for name in ("SLURM_CONF", "PATH"):
            print(f"export {name}={one.environment[name]}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
