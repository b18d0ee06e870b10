"""Start the jobs of a sweep: one after another on this computer, or as an array of jobs of a SLURM cluster."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.config.yaml import parse_yaml
from vsr.experiments.console import busy
from vsr.experiments.installed import COMMAND
from vsr.experiments.processes import Work, run_processes
from vsr.experiments.sweep.folder import Sweep, evolve_arguments, read_jobs, write_jobs


def run_here(sweep: Sweep, names: Sequence[str], jobs: int, more: Sequence[str]) -> tuple[dict[str, int], bool]:
    """Run what is named; jobs: how many at once; returns exit codes, and whether the user has stopped it."""
    works = {
        name: Work(
            [*COMMAND, *evolve_arguments(sweep, name, [*more, "--processes", "1"])],
            sweep.log(name),
            partial(sweep.write_config, name),
        )
        for name in names
    }
    return run_processes(works, jobs)


DEFAULTS = {"job_name": "vsr", "time": 24 * 60}
"""SLURM's parameters, unless the user gives others; time: of a job, before it is queued again [min]."""
MOST_TIMES = 1000
"""How often a job that is out of time is queued again."""
SECONDS_TO_SAVE = 60.0
CLUSTER_INTERVAL = 0.1


class Job:
    """One run, as submitit keeps and calls it."""

    def __init__(self, command: Sequence[str], log: str):
        self.command, self.log = list(command), log
        self.process: subprocess.Popen | None = None

    def __call__(self) -> None:
        with Path(self.log).open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        while self.process.poll() is None:  # not wait(), which the signal that calls checkpoint() would interrupt
            time.sleep(CLUSTER_INTERVAL)
        if self.process.returncode:
            raise RuntimeError(f"exit code {self.process.returncode}; see {self.log}")

    def checkpoint(self) -> Any:
        """Called before the job is queued again: save; the same command goes on."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + SECONDS_TO_SAVE
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(CLUSTER_INTERVAL)
        return DelayedSubmission(Job(self.command, self.log))


def read_parameters(given: Sequence[str]) -> dict[str, Any]:
    """`--slurm KEY=VALUE` as a mapping."""
    parameters = dict(DEFAULTS)
    for item in given:
        key, equals, text = item.partition("=")
        if not equals or not key.strip().isidentifier():
            raise UserError(f"--slurm {item}: write it as KEY=VALUE, for example --slurm partition=gpu")
        try:
            parameters[key.strip()] = parse_yaml(text).data
        except ConfigError:
            raise UserError(f"--slurm {item}: {text!r} is not a YAML value") from None
    return parameters


def slurm_executor(folder: Path, parameters: dict[str, Any]) -> Any:
    """submitit's way to SLURM; raises UserError if there is none here, or for unknown parameters."""
    try:
        from submitit import SlurmExecutor
    except ImportError:
        raise UserError(
            "--executor slurm: the package submitit is not installed; pip install 'voxel-soft-robots[slurm]', "
            "or leave it out to run on this computer"
        ) from None
    try:
        executor = SlurmExecutor(folder, max_num_timeout=MOST_TIMES)
    except RuntimeError:
        raise UserError(
            "--executor slurm: there is no srun here; start this on a login node of the cluster, or leave it out to "
            "run on this computer"
        ) from None
    try:
        executor.update_parameters(**parameters)
    except (ValueError, TypeError) as error:
        raise UserError(f"--slurm: {error}") from None
    return executor


def submit(sweep: Sweep, names: Sequence[str], executor: Any, more: Sequence[str]) -> dict[str, str]:
    """Hand over what is named, as one array of jobs; returns and remembers the number of each."""
    with busy(f"writing {len(names)} experiments"):
        for name in names:
            sweep.write_config(name)
    jobs = [Job([*COMMAND, *evolve_arguments(sweep, name, more)], str(sweep.log(name).resolve())) for name in names]
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        with executor.batch():
            submitted = [executor.submit(job) for job in jobs]
    except (FailedSubmissionError, FailedJobError, OSError) as error:
        raise UserError(f"--executor slurm: the cluster did not take the jobs: {str(error).strip()}") from None
    numbers = {name: str(job.job_id) for name, job in zip(names, submitted, strict=True)}
    write_jobs(sweep.path, {**read_jobs(sweep.path), **numbers})
    return numbers


def states_on_cluster(jobs: dict[str, str]) -> dict[str, str]:
    """State of the runs that are in the queue."""
    if not jobs:
        return {}
    command = [
        "squeue",
        "--noheader",
        "--array",
        "--jobs",
        ",".join(sorted({job.split("_")[0] for job in jobs.values()})),
    ]
    lines: list[str] = []
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # no cluster here, or no such jobs any more
        done = subprocess.run([*command, "--format=%i %T"], capture_output=True, text=True, timeout=60, check=True)
        lines = done.stdout.splitlines()
    queued = dict(line.split(maxsplit=1) for line in lines if len(line.split(maxsplit=1)) == 2)
    return {name: f"{queued[job].lower()} (job {job})" for name, job in jobs.items() if job in queued}
