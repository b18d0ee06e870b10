"""SIGINT and SIGTERM at every phase: the run ends politely, its folder is whole, and it goes on as if nothing was."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

from vsr.experiments.torture.children import Process
from vsr.experiments.torture.ends import different, read_end
from vsr.experiments.torture.ground import RUN, Ground, last_line
from vsr.experiments.torture.here import Ended

WHAT = "Ctrl-C or SIGTERM at a random moment, then resume"
POLITE = 130
ENDLESS = "generations=100000"
PATIENCE = 60.0
"""In which a run that was asked to stop must have done so [s]."""
ORDERS = ((signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT))
FIRST_MOMENT = 0.2
"""In which Python starts and nothing can be heard yet [s]."""
BETWEEN = 0.05
"""Between two signals [s]."""


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """Every other run has no end of its own, so that a signal that is not heard shows."""
    run = ground.trial_folder(f"signal:{number}") / RUN
    chosen = ORDERS[number // 2 % len(ORDERS)]
    endless, fresh = number % 2 == 1, number // 6 % 2 == 1
    after = random.uniform(FIRST_MOMENT if fresh else 0, ground.fresh_seconds if fresh else ground.seconds)
    more = ("--set", ENDLESS) if endless else ()
    signals = tuple((after + BETWEEN * index, int(one)) for index, one in enumerate(chosen))
    process = Process(ground.evolve(run, *more), run.parent, fresh=fresh, signals=signals)
    [ended] = ground.nursery.run(process, seconds=after + PATIENCE)
    named = f"{' twice, '.join(sorted({one.name for one in chosen}))} after {after:.2f} s"
    found = faults_of_ending(ended, len(chosen) == 1, endless, named)
    if found:
        return found
    if not endless:
        return [f"{named}: {fault}" for fault in ground.faults_of_resuming(run)]
    return [f"{named}: {fault}" for fault in _faults_of_going_on(ground, run)]


def faults_of_ending(ended: Ended, once: bool, endless: bool, named: str) -> list[str]:
    """Of a run that was sent a signal: once or twice, without an end of its own or with one, named so."""
    if ended.traceback:
        return [f"{named}: {ended.traceback}"]
    if ended.code == -signal.SIGKILL:
        return [f"{named}: it was not heard; the run went on for {PATIENCE:g} s"]
    allowed = {POLITE, *(() if endless else (0,)), *(() if once else (1, -signal.SIGINT))}
    if ended.code not in allowed:
        return [f"{named}: code {ended.code}: {last_line(ended)}"]
    return []


def _faults_of_going_on(ground: Ground, run: Path) -> list[str]:
    """Of a run without end: its first generations are those of the undisturbed one, and it goes on for one more."""
    done = max((int(file.stem) for file in (run / "checkpoints").glob("*.npz")), default=0)
    total = max(done + 1, ground.end.generations)
    ended, _ = ground.worker.run(ground.evolve(run, "--no-report", "--set", f"generations={total}"), run.parent)
    if ended.code != 0:
        return [f"resuming ended with code {ended.code}: {last_line(ended)}"]
    end = read_end(run)
    if total == ground.end.generations:
        return [f"after resuming, {what}" for what in different(end, ground.end)]
    rows = [row for row in end.statistics if row["generation"] < ground.end.generations]
    if rows != ground.end.statistics or len({row["generation"] for row in end.statistics}) != total:
        return ["after resuming, the statistics differ"]
    first = {name: values[:, : ground.end.generations] for name, values in end.lineage.items()}
    same = all(first[name].tobytes() == values.tobytes() for name, values in ground.end.lineage.items())
    return [] if same else ["after resuming, the lineage differs"]
