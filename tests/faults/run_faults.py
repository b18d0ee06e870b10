"""Faults that meet a run in progress: kills, signals, failing and full disks, concurrent writers and readers.

A trial returns its issues: promises of docs/develop/reliability.md that did not hold, each as a sentence.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from random import Random

from faults.injection import Fault, Record, mount_tmpfs
from faults.processes import CACHE, CONTEXT, Job, Result, run_here, spawn
from faults.reference import RUN, Reference, read_end, watch_once
from vsr.experiments.storage.checkpoints import newest_generation
from vsr.experiments.storage.run_folder import is_run

COLD = 10
"""In every so many trials nothing is compiled yet, so that a kill may come while XLA works."""
MOST_KILLS = 3
INTERRUPTED = 130
"""Exit code of a run that saved and stopped."""
PATIENCE = 60.0
"""In which a run that was asked to stop must have done so [s]."""
SIGNALS = ((signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT))
FIRST_MOMENT = 0.2
"""In which Python starts and handles no signal yet [s]."""
BETWEEN_SIGNALS = 0.05
"""[s]"""
ERRORS = ("ENOSPC", "EIO")
PAGE = 4096
"""Of a tmpfs [bytes]."""
LARGEST_DISK = 1.5
"""Of those that are tried, over the size of a run."""
DAY = 86400.0
"""[s]"""


def kill(reference: Reference, number: int, random: Random) -> list[str]:
    """Kill a run one to three times, then resume it."""
    run = reference.trial_folder(f"kill-{number}") / RUN
    cold = number % COLD == COLD - 1 and reference.cold_seconds > 0
    for _ in range(random.randint(1, MOST_KILLS)):
        after = random.uniform(0, reference.cold_seconds if cold else reference.seconds)
        cache = {"environment": {CACHE: str(run.parent / "cache")}} if cold else {}
        signals = ((after, int(signal.SIGKILL)),)
        [result] = spawn(Job(reference.evolve(run), run.parent, fresh=cold, signals=signals, **cache))
        if result.code not in (0, -signal.SIGKILL):
            return [f"killed after {after:.2f} s it ended with code {result.code}: {result.last_line}"]
        if is_run(run):
            result = run_here(("compare", RUN), run.parent)
            if result.traceback or result.code not in (0, 2):
                return [f"vsr compare of a killed run: {result.last_line}"]
        cold = False
    return reference.issues_of_resuming(run)


def interrupt(reference: Reference, number: int, random: Random) -> list[str]:
    """Send SIGINT or SIGTERM at a random moment; every other run has no end of its own, so that a lost signal shows."""
    run = reference.trial_folder(f"signal-{number}") / RUN
    chosen = SIGNALS[number // 2 % len(SIGNALS)]
    endless, fresh = number % 2 == 1, number // 6 % 2 == 1 and reference.fresh_seconds > 0
    after = random.uniform(*((FIRST_MOMENT, reference.fresh_seconds) if fresh else (0, reference.seconds)))
    more = ("--set", "generations=100000") if endless else ()
    signals = tuple((after + BETWEEN_SIGNALS * index, int(one)) for index, one in enumerate(chosen))
    [result] = spawn(
        Job(reference.evolve(run, *more), run.parent, fresh=fresh, signals=signals), seconds=after + PATIENCE
    )
    named = f"{' and '.join(one.name for one in chosen)} after {after:.2f} s"
    issues = issues_of_interruption(result, len(chosen) == 1, endless)
    if not issues:
        issues = _issues_of_going_on(reference, run) if endless else reference.issues_of_resuming(run)
    return [f"{named}: {issue}" for issue in issues]


def issues_of_interruption(result: Result, once: bool, endless: bool) -> list[str]:
    """Of a run that was sent a signal once or twice, with or without an end of its own."""
    if result.traceback:
        return [result.traceback]
    if result.code == -signal.SIGKILL:
        return [f"it was not handled; the run went on for {PATIENCE:g} s"]
    allowed = {INTERRUPTED, *(() if endless else (0,)), *(() if once else (1, -signal.SIGINT))}
    return [] if result.code in allowed else [f"code {result.code}: {result.last_line}"]


def _issues_of_going_on(reference: Reference, run: Path) -> list[str]:
    """Of a run without an end: one generation more, it is like an undisturbed run of as many."""
    total = f"generations={newest_generation(run) + 1}"
    undisturbed = run.parent / "undisturbed"
    for folder in (run, undisturbed):
        result, _ = reference.evolve_here(folder, "--set", total)
        if result.code != 0:
            return [f"resuming ended with code {result.code}: {result.last_line}"]
    return [f"after resuming, {what}" for what in read_end(run).differences(read_end(undisturbed))]


def fail_write(reference: Reference, number: int, random: Random) -> list[str]:
    """Let one operation on a file fail; after as many trials as a run has operations, each has failed once."""
    turn, count = divmod(number, len(reference.operations))
    order = list(range(len(reference.operations)))
    Random(f"{turn}").shuffle(order)
    error = ERRORS[(number + turn) % len(ERRORS)]
    run = reference.trial_folder(f"write-{number}") / RUN
    fault = Fault(str(run), order[count], error, lasts=random.random() < 0.5)
    result, record = reference.evolve_here(run, fault=fault)
    operation = record.operations[order[count]] if order[count] < len(record.operations) else "none"
    issues = [*_issues_of_failed_write(result, error, operation), *lost_files(run, record)]
    named = f"{error} at {operation}{'' if fault.lasts else ', once'}"
    return [f"{named}: {issue}" for issue in issues or reference.issues_of_resuming(run)]


def _issues_of_failed_write(result: Result, error: str, operation: str) -> list[str]:
    if result.traceback:
        return [result.traceback]
    if result.code == 0 and operation.split()[0] in ("none", "unlink"):
        return []  # nothing failed, or something that was to be removed stays
    if result.code != 2:
        return [f"code {result.code}: {result.last_line}"]
    reason = os.strerror(getattr(errno, error))
    return [] if reason in result.output else [f"it does not say '{reason}': {result.last_line}"]


def lost_files(run: Path, record: Record) -> list[str]:
    """Files that were complete before the fault and are no longer."""
    lost = []
    for name, (size, digest) in record.complete.items():
        data = (run / name).read_bytes() if (run / name).is_file() else b""
        kept = data[:size] if name.startswith("statistics.") else data  # generations may have been added
        if hashlib.sha256(kept).hexdigest() != digest:
            lost.append(f"{name} was complete before and is no longer")
    return lost


@functools.cache
def can_mount() -> bool:
    """Whether a process may have a file system of its own; another one tries, as there is no way back."""
    with tempfile.TemporaryDirectory() as folder:
        process = CONTEXT.Process(target=mount_tmpfs, args=(folder, 16 * PAGE))
        process.start()
        process.join()
    return process.exitcode == 0


def fill_disk(reference: Reference, number: int, random: Random) -> list[str]:
    """Run on a file system of a random size; the folder is then copied to a larger one and resumed there."""
    folder = reference.trial_folder(f"disk-{number}")
    (folder / "disk").mkdir()
    needed = sum(-(-file.stat().st_size // PAGE) + 1 for file in reference.finished.rglob("*"))
    size = PAGE * random.randint(2, int(LARGEST_DISK * needed))
    [result] = spawn(Job(reference.evolve(folder / "disk" / RUN, "--no-report"), folder, tmpfs=size))
    if result.traceback or result.code not in (0, 2) or (result.code == 2 and "No space left" not in result.output):
        issues = [f"code {result.code}: {result.last_line}"]
    else:
        issues = reference.issues_of_resuming(folder / "copy" / RUN)
    return [f"a disk of {size // 1024} kB: {issue}" for issue in issues]


def write_concurrently(reference: Reference, number: int, random: Random) -> list[str]:
    """Two writers, readers meanwhile, a stale lock, a clock that goes backwards: one after the other."""
    folder = reference.trial_folder(f"writers-{number}")
    return (two_writers, readers_meanwhile, stale_lock, clock_backwards)[number % 4](reference, folder, random)


def two_writers(reference: Reference, folder: Path, random: Random) -> list[str]:
    """One of them wins; the other is refused, or finds the run finished."""
    run, delay = folder / RUN, random.choice((0.0, 0.0, random.uniform(0, reference.seconds)))
    command = reference.evolve(run, "--no-report")
    results = spawn(Job(command, folder), Job(command, folder, delay=delay))
    refused = [result for result in results if result.code == 2 and "another process is writing" in result.output]
    other = [result for result in results if result.code != 0 and result not in refused]
    issues = [f"of two processes, one ended with {result.code}: {result.last_line}" for result in other]
    if not any(result.code == 0 for result in results):
        issues.append("neither of two processes came to an end")
    return [*issues, *reference.issues_of_resuming(run)]


def readers_meanwhile(reference: Reference, folder: Path, random: Random) -> list[str]:
    """Readers see a run at any moment of its making."""
    commands = (("compare", RUN), ("plot", RUN), ("report", RUN, "--out", "page.html"))
    jobs = [Job(random.choice(commands), folder, delay=random.uniform(0.2, 0.8) * reference.seconds) for _ in range(2)]
    writer, *results = spawn(Job(reference.evolve(folder / RUN, "--no-report"), folder), *jobs)
    issues = [
        f"vsr {job.arguments[0]} while the run is written: {result.last_line}"
        for job, result in zip(jobs, results, strict=True)
        if result.traceback or result.code not in (0, 2)
    ]
    return [*issues, *reference.issues_of_finished(writer, folder / RUN)]


def stale_lock(reference: Reference, folder: Path, random: Random) -> list[str]:
    """A lock left by a dead process, another program or a copy keeps nobody out."""
    run = shutil.copytree(reference.stopped, folder / RUN)
    lock, left = run / "lock", random.choice(("none", "old", "full", "future"))
    lock.unlink(missing_ok=True)
    if left != "none":
        lock.write_bytes(b"" if left == "old" else random.randbytes(100))
        when = time.time() + (DAY if left == "future" else -DAY)
        os.utime(lock, (when, when))
    return [f"a stale lock ({left}): {issue}" for issue in reference.issues_of_resuming(run)]


def clock_backwards(reference: Reference, folder: Path, random: Random) -> list[str]:
    """Files come from the future, and the clock jumps back by an hour during a run."""
    run = shutil.copytree(reference.stopped, folder / RUN)
    ahead = time.time() + DAY
    for file in run.rglob("*"):
        os.utime(file, (ahead, ahead))
    fault = Fault(clock_jumps_at=random.randrange(20))
    [result] = spawn(Job(reference.evolve(run, "--no-report"), folder, fault=fault))
    issues = reference.issues_of_finished(result, run)
    watched = watch_once(folder)
    if watched.code != 0:
        issues.append(f"vsr watch of files from the future: {watched.last_line}")
    return [f"a clock that goes backwards: {issue}" for issue in issues]
