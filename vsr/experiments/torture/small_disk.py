"""A disk that is really full: a run on a tmpfs that is too small for it."""

from __future__ import annotations

from random import Random

from vsr.experiments.torture.children import Process
from vsr.experiments.torture.disk import PAGE
from vsr.experiments.torture.ground import RUN, Ground, last_line

WHAT = "a run on a disk too small for it, then resume on a larger one"
ENOUGH = 1.5
"""Times what a run needs: the largest disks that are tried."""


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """A run on a disk of a random size; its folder is then copied to a larger one, where it goes on."""
    folder = ground.trial_folder(f"disk:{number}")
    disk = folder / "disk"
    disk.mkdir()
    needed = sum(-(-file.stat().st_size // PAGE) + 1 for file in ground.whole.rglob("*"))
    pages = random.randint(2, int(ENOUGH * needed))
    process = Process(ground.evolve(disk / RUN, "--no-report"), folder, small_disk=(str(disk), pages * PAGE))
    [ended] = ground.nursery.run(process)
    named = f"a disk of {pages * PAGE // 1024} kB"
    run = folder / "copy" / RUN
    if ended.traceback:
        return [f"{named}: {ended.traceback}"]
    if ended.code not in (0, 2) or (ended.code == 2 and "No space left" not in ended.output):
        return [f"{named}: code {ended.code}: {last_line(ended)}"]
    return [f"{named}: {fault}" for fault in ground.faults_of_resuming(run)]
