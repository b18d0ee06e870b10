"""SIGKILL at any moment, then resume: the run ends as one that nobody killed."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

from vsr.experiments.runs import is_run
from vsr.experiments.torture.children import Process
from vsr.experiments.torture.ground import RUN, Ground, last_line

WHAT = "SIGKILL at a random moment of a run, then resume"
COLD = 10
"""Every so many trials nothing is compiled yet, so that a kill may come while XLA works."""
MOST_KILLS = 3


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """Kill a run once or more often, then let it end; returns what is not as it should be."""
    run = ground.trial_folder(f"kill:{number}") / RUN
    cold = number % COLD == COLD - 1
    for _ in range(random.randint(1, MOST_KILLS)):
        seconds = ground.cold_seconds if cold else ground.seconds
        environment = {"XDG_CACHE_HOME": str(run.parent / "cache")} if cold else {}
        ended = kill_once(ground, run, random.uniform(0, seconds), environment)
        if ended:
            return ended
        cold = False
    return ground.faults_of_resuming(run)


def kill_once(ground: Ground, run: Path, after: float, environment: dict[str, str]) -> list[str]:
    """Begin or go on with a run and kill it so many seconds later; what is wrong with what it leaves.

    environment: given only where nothing is compiled, and then nothing is imported either.
    """
    process = Process(
        ground.evolve(run),
        run.parent,
        fresh=bool(environment),
        signals=((after, signal.SIGKILL),),
        environment=environment,
    )
    [ended] = ground.nursery.run(process)
    if ended.code not in (0, -signal.SIGKILL):
        return [f"killed after {after:.2f} s it ended with code {ended.code}: {last_line(ended)}"]
    if is_run(run):
        ended, _ = ground.worker.run(("compare", RUN), run.parent)
        if ended.traceback or ended.code not in (0, 2):
            return [f"vsr compare of a killed run: {last_line(ended)}"]
    return []
