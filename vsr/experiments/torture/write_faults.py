"""A disk that is full, or fails, at any operation on the files of a run."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from random import Random

from vsr.experiments.runs.rows import STATISTICS
from vsr.experiments.torture.faults import Fault, Record
from vsr.experiments.torture.ground import RUN, Ground, last_line
from vsr.experiments.torture.here import Ended

WHAT = "ENOSPC or EIO at one operation on a run's files, then resume"
ERRORS = ("ENOSPC", "EIO")


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """Let one operation fail; after as many trials as there are operations, each has failed once."""
    count = len(ground.operations)
    order = list(range(count))
    Random(f"{number // count}").shuffle(order)
    error = ERRORS[(number + number // count) % len(ERRORS)]
    run = ground.trial_folder(f"write:{number}") / RUN
    fault = Fault(str(run), order[number % count], error, lasts=random.random() < 0.5)
    ended, record = ground.worker.run(ground.evolve(run, "--no-report"), run.parent, fault=fault)
    operation = record.operations[fault.at] if fault.at is not None and fault.at < len(record.operations) else "none"
    named = f"{error} at {operation}{'' if fault.lasts else ', once'}"
    found = [*_faults_of_ending(ended, error, operation), *lost_files(run, record)]
    return [f"{named}: {what}" for what in found or ground.faults_of_resuming(run)]


def _faults_of_ending(ended: Ended, error: str, operation: str) -> list[str]:
    if ended.traceback:
        return [ended.traceback]
    if ended.code == 0 and operation.split()[0] in ("none", "unlink"):
        return []  # nothing failed, or something that was to go stays
    reason = os.strerror(getattr(errno, error))
    if ended.code != 2:
        return [f"code {ended.code}: {last_line(ended)}"]
    return [] if reason in ended.output else [f"it does not say '{reason}': {last_line(ended)}"]


def lost_files(run: Path, record: Record) -> list[str]:
    """Files that were complete before the fault and are no longer so."""
    lost = []
    for name, (size, digest) in record.whole.items():
        try:
            data = (run / name).read_bytes()
        except OSError:
            data = b""
        kept = data[:size] if name == STATISTICS else data  # lines may have been added
        if hashlib.sha256(kept).hexdigest() != digest:
            lost.append(f"{name} was complete before and is no longer")
    return lost
