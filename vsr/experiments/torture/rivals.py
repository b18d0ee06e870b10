"""Two processes on one folder, readers while it is written, locks that were left, a clock that goes backwards."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from random import Random

from vsr.experiments.runs.locks import LOCK
from vsr.experiments.torture.children import Process
from vsr.experiments.torture.faults import Fault
from vsr.experiments.torture.ground import RUN, Ground, faults_of_finished, last_line
from vsr.experiments.torture.here import Ended

WHAT = "two processes on one folder, a reader meanwhile, a stale lock, a clock that goes backwards"
READERS = (("compare", RUN), ("plot", RUN), ("report", RUN, "--out", "page.html"))
TAKEN = "another process is writing"
A_DAY = 86400.0


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """One of them after the other."""
    folder = ground.trial_folder(f"rival:{number}")
    return (two_writers, reader_meanwhile, stale_lock, clock_backwards)[number % 4](ground, folder, random)


def two_writers(ground: Ground, folder: Path, random: Random) -> list[str]:
    """One of them wins; the other is refused, or finds the run finished."""
    run, later = folder / RUN, random.choice((0.0, 0.0, random.uniform(0, ground.seconds)))
    order = ground.evolve(run, "--no-report")
    both = ground.nursery.run(Process(order, folder), Process(order, folder, begin=later))
    return [
        *(fault for ended in both for fault in _faults_of_writer(ended)),
        *([] if any(ended.code == 0 for ended in both) else ["neither of two processes came to an end"]),
        *ground.faults_of_resuming(run),
    ]


def _faults_of_writer(ended: Ended) -> list[str]:
    refused = ended.code == 2 and TAKEN in ended.output
    return [] if ended.code == 0 or refused else [f"of two processes, one ended with {ended.code}: {last_line(ended)}"]


def reader_meanwhile(ground: Ground, folder: Path, random: Random) -> list[str]:
    """Readers see a run at any moment of its making."""
    run = folder / RUN
    asked = [Process(random.choice(READERS), folder, begin=random.uniform(0.2, 0.8) * ground.seconds) for _ in range(2)]
    writer, *others = ground.nursery.run(Process(ground.evolve(run, "--no-report"), folder), *asked)
    found = []
    for process, ended in zip(asked, others, strict=True):
        if ended.traceback or ended.code not in (0, 2):
            found.append(f"vsr {process.arguments[0]} while the run is written: {last_line(ended)}")
    return [*found, *faults_of_finished(writer, run, ground.end)]


def stale_lock(ground: Ground, folder: Path, random: Random) -> list[str]:
    """What a dead process, another program or a copy left as a lock keeps nobody out."""
    run = folder / RUN
    shutil.copytree(ground.half, run)
    lock = run / LOCK
    lock.unlink(missing_ok=True)
    left = random.choice(("none", "old", "full", "future"))
    if left != "none":
        lock.write_bytes(b"" if left == "old" else random.randbytes(100))
        when = time.time() + (A_DAY if left == "future" else -A_DAY)
        os.utime(lock, (when, when))
    return [f"a lock that was left ({left}): {fault}" for fault in ground.faults_of_resuming(run)]


def clock_backwards(ground: Ground, folder: Path, random: Random) -> list[str]:
    """Files come from the future, and the clock jumps back by an hour while a run goes on."""
    run = folder / RUN
    shutil.copytree(ground.half, run)
    ahead = time.time() + A_DAY
    for file in run.rglob("*"):
        os.utime(file, (ahead, ahead))
    fault = Fault(clock_jumps_at=random.randrange(20))
    [ended] = ground.nursery.run(Process(ground.evolve(run), folder, fault=fault))
    found = faults_of_finished(ended, run, ground.end)
    watched = ground.worker.watch(RUN, folder)
    if watched.code != 0:
        found.append(f"vsr watch of files from the future: {last_line(watched)}")
    return [f"a clock that goes backwards: {fault}" for fault in found]
