"""Where trials take place: a folder of its own, with an undisturbed run and a stopped one to compare with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vsr.experiments.config import UserError, load_experiment
from vsr.experiments.experiment import Experiment
from vsr.experiments.torture.children import Nursery, Process, Reader, Worker
from vsr.experiments.torture.ends import End, different, read_end
from vsr.experiments.torture.faults import Fault
from vsr.experiments.torture.here import Ended

GENERATIONS = 4
SMALLER = (
    f"generations={GENERATIONS}",
    "checkpoint_seconds=0",
    "ea.n_pop=6",
    "ea.n_tour=2",
    "evaluation.starts=1",
    "task.duration=0.5",
)
"""What makes a run short; each is left out where an experiment does not accept it."""
SEEDS = 2
COMPILING = 1800.0
"""In which the first run must have ended [s]."""
RUN = "run"
"""What run folders of trials are called, wherever they are."""


@dataclass
class Ground:
    """All that trials need."""

    folder: Path
    """of the campaign's own"""
    config: Path
    settings: tuple[str, ...]
    nursery: Nursery
    worker: Worker
    reader: Reader
    end: End = field(default_factory=End)
    """what an undisturbed run comes to"""
    seconds: float = 0.0
    """that a run takes with its report, when everything is compiled [s]"""
    fresh_seconds: float = 0.0
    """the same for a process that imports everything itself [s]"""
    cold_seconds: float = 0.0
    """the same when nothing is compiled either [s]"""
    reports: bool = True
    """whether runs are to end with a report"""
    operations: list[str] = field(default_factory=list)
    """on files, in a run without a report"""
    answers: dict[tuple[str, str], object] = field(default_factory=dict)
    """of commands about whole and half, as they should be"""

    @property
    def whole(self) -> Path:
        """A run that nothing disturbed."""
        return self.folder / "whole" / RUN

    @property
    def half(self) -> Path:
        """The same run, stopped before its last checkpoint but one."""
        return self.folder / "half" / RUN

    def close(self) -> None:
        """End its processes."""
        for server in (self.nursery, self.worker, self.reader):
            server.close()

    def evolve(self, run: Path, *more: str) -> tuple[str, ...]:
        """The arguments that begin or go on with a run."""
        settings = [word for setting in self.settings for word in ("--set", setting)]
        report = () if self.reports or "--no-report" in more else ("--no-report",)
        return "evolve", str(self.config), *settings, "--out", str(run), "--resume", *more, *report

    def trial_folder(self, name: str) -> Path:
        """An empty folder for one trial."""
        folder = self.folder / "trials" / name.replace(":", "-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def faults_of_resuming(self, run: Path) -> list[str]:
        """Go on with a run to its end: what of that is not as it should be."""
        ended, _ = self.worker.run(self.evolve(run, "--no-report"), run.parent)
        return faults_of_finished(ended, run, self.end)


def faults_of_finished(ended: Ended, run: Path, end: End) -> list[str]:
    """Of a command that should have brought a run to an end."""
    if ended.code != 0:
        return [f"resuming ended with code {ended.code}: {last_line(ended)}"]
    try:
        return [f"after resuming, {what}" for what in different(read_end(run), end)]
    except Exception as error:  # whatever keeps a finished run from being read is a fault of it
        return [f"after resuming, the run cannot be read: {type(error).__name__}: {error}"]


def last_line(ended: Ended) -> str:
    """Of what a command said, or of its traceback."""
    return ended.traceback or (ended.output.strip().splitlines() or ["(no output)"])[-1]


def smaller(config: Path, settings: Sequence[str] = ()) -> tuple[Experiment, tuple[str, ...]]:
    """An experiment made short, and by which settings; raises UserError if it is faulty without them."""
    kept = list(settings)
    experiment = load_experiment(config, kept, run_plugins=True)
    wishes = [*SMALLER, f"seeds={list(experiment.seeds[:SEEDS])}"]
    if experiment.evaluation.refine is not None:
        wishes.append("evaluation.refine.starts=1")
    for wish in wishes:
        try:
            experiment = load_experiment(config, [*kept, wish], run_plugins=True)
            kept.append(wish)
        except UserError:
            continue
    return experiment, tuple(kept)


def open_ground(config: Path, settings: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Ground:
    """A ground on which nothing was run yet; raises UserError if the experiment is faulty."""
    _, kept = smaller(config, settings)
    return Ground(folder, config.resolve(), kept, Nursery(environment), Worker(environment), Reader(environment))


def run_undisturbed(ground: Ground, say: Callable[[str], None]) -> None:
    """Run the experiment three times, and once to be stopped; raises UserError if it does not even run so."""
    ground.nursery.begin()
    ground.worker.begin()
    say(f"{ground.config} made small by {', '.join(ground.settings)}; compiling")
    cold, fresh = (ground.folder / name / RUN for name in ("cold", "fresh"))
    ground.cold_seconds = _run_whole(ground, cold, True).seconds
    say("undisturbed runs")
    ground.fresh_seconds = _run_whole(ground, fresh, True).seconds
    run_whole(ground)
    for other in (cold, fresh):
        if unlike := different(read_end(other), ground.end):
            raise UserError(f"{ground.config}: two undisturbed runs differ: {'; '.join(unlike)}")
    say(f"a run takes {ground.seconds:.1f} s; one that is stopped")
    stop_half(ground)


def run_whole(ground: Ground) -> None:
    """Make the run that others are compared with."""
    ground.seconds = _run_whole(ground, ground.whole, False).seconds
    ground.end = read_end(ground.whole)


def _run_whole(ground: Ground, run: Path, fresh: bool) -> Ended:
    run.parent.mkdir(parents=True)
    [ended] = ground.nursery.run(Process(ground.evolve(run), run.parent, fresh=fresh), seconds=COMPILING)
    if ended.code != 0:
        raise UserError(f"{ground.config}: it does not run undisturbed:\n{ended.output.strip()}")
    return ended


def stop_half(ground: Ground) -> None:
    """Count the operations on files of a run, then let the disk of another be full at its third checkpoint."""
    counted = ground.trial_folder("counted") / RUN
    ended, record = ground.worker.run(
        ground.evolve(counted, "--no-report"), counted.parent, fault=Fault(str(counted)), seconds=COMPILING
    )
    ground.operations = record.operations
    checkpoint = f"open checkpoints/{ground.end.generations - 1:08d}.npz"
    places = [number for number, operation in enumerate(record.operations) if operation.startswith(checkpoint)]
    if ended.code != 0 or not places:
        raise UserError(f"{ground.config}: its run cannot be followed: {last_line(ended)}")
    ground.half.parent.mkdir(parents=True)
    fault = Fault(str(ground.half), places[0], "ENOSPC")
    ended, _ = ground.worker.run(ground.evolve(ground.half, "--no-report"), ground.half.parent, fault=fault)
    if ended.code != 2:
        raise UserError(f"{ground.config}: a full disk does not stop its run: {last_line(ended)}")
