"""A finished and a stopped run for comparison, and every command that reads run folders."""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import vsr.experiments.evolve.command as evolve_module
from faults.injection import Fault, Record, injected
from faults.processes import Job, Result, call_here, run_here, spawn
from vsr.experiments.config import UserError, dump_yaml, load_experiment
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.storage.run_folder import check_run
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait
from vsr.experiments.watch.server import open_server

SMALLER = (
    "generations=4", "checkpoint_seconds=0",
    "optimizer.population_size=6", "optimizer.tournament_size=2", "evaluation.trials=1", "task.duration=0.5",
    "seeds=2",
)  # fmt: skip
"""Settings that make a run short; those that an experiment does not accept are left out."""
COMPILE_SECONDS = 1800.0
"""In which the first run must have ended [s]."""
RUN = "run"
"""Name of every trial's run folder."""
TIMINGS = ("seconds", "compile_seconds", "crc32")
"""Columns of the statistics that depend on the load of the computer, and check sums that contain them."""
CHANGING = ("quiet", "busySeconds")
"""Keys of the page's state that change from one moment to the next."""
SHOWN_SECONDS = 0.2
"""Duration of episodes that are drawn [s]."""


@dataclass(frozen=True)
class End:
    """Everything of a finished run that must not depend on what happened on the way."""

    checkpoint: dict[str, Any] = field(default_factory=dict)
    """name and arrays of the last one"""
    statistics: dict[str, Any] = field(default_factory=dict)
    """by column, without timings"""
    lineage: dict[str, Any] = field(default_factory=dict)
    """all readable pieces, joined along generations"""
    best: dict[str, Any] = field(default_factory=dict)
    """texts of the best robots' files"""

    def differences(self, other: End) -> list[str]:
        """Parts that are not bit for bit those of another end."""
        found = []
        for part in ("checkpoint", "statistics", "lineage", "best"):
            mine, others = getattr(self, part), getattr(other, part)
            names = [name for name in sorted({*mine, *others}) if mine.get(name) != others.get(name)]
            found += [f"{part}: {name} differs" for name in names]
        return found


def read_end(run: Path) -> End:
    """Of a run folder that nobody is writing, without the code under test."""
    newest = max((run / "checkpoints").glob("[0-9]*.npz"))
    pieces = []
    for file in sorted((run / "lineage").glob("[0-9]*.npz")):
        try:
            piece = _arrays(file)
            if {"id", "parents"} <= set(piece) and all(array.ndim > 1 for array in piece.values()):
                pieces.append(piece)
        except Exception:  # corrupted, in one of many ways: then it lacks something that an undisturbed run has
            continue
    joined = {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in (pieces or [{}])[0]}
    best = {file.name: file.read_text(encoding="utf-8") for file in sorted((run / "best").glob("*.yaml"))}
    return End({"name": newest.name, **_comparable(_arrays(newest))}, _statistics(run), _comparable(joined), best)


def _arrays(file: Path) -> dict[str, np.ndarray]:
    with np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _comparable(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in arrays.items()}


def _statistics(run: Path) -> dict[str, Any]:
    if (run / "statistics.bin").is_file():  # a line of JSON, then a record of each generation
        line, _, data = (run / "statistics.bin").read_bytes().partition(b"\n")
        shape = len(json.loads(line)["columns"]), len(json.loads(line)["seeds"])
        record = [("seconds", "<f8"), ("values", "<f8", shape), ("generation", "<u4"), ("crc32", "<u4")]
        records = np.frombuffer(data, record)
        return {"header": line, **_comparable({name: records[name] for name in ("values", "generation")})}
    rows = [json.loads(line) for line in (run / "statistics.jsonl").read_text(encoding="utf-8").splitlines()]
    names = {name for row in rows for name in row if name not in TIMINGS}
    return {name: [row.get(name) for row in rows] for name in names}


@dataclass
class Reference:
    """An experiment, its reference runs, and the folder in which trials take place."""

    folder: Path
    config: Path
    settings: tuple[str, ...] = ()
    reports: bool = True
    """whether runs in workers end with a report"""
    end: End = field(default_factory=End)
    """of the finished run"""
    seconds: float = 0.0
    """that a run takes with its report, when everything is compiled and imported [s]"""
    fresh_seconds: float = 0.0
    """the same for a process that imports everything itself [s]"""
    cold_seconds: float = 0.0
    """the same when nothing is compiled either [s]"""
    operations: list[str] = field(default_factory=list)
    """on files, in a run without a report"""
    answers: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    """of commands about the reference runs"""

    @property
    def finished(self) -> Path:
        return self.folder / "finished" / RUN

    @property
    def stopped(self) -> Path:
        """The same run, stopped by a full disk before its last checkpoint but one."""
        return self.folder / "stopped" / RUN

    @functools.cached_property
    def seed(self) -> int:
        """The first of the experiment's."""
        return load_experiment(self.config, self.settings, run_plugins=True).seeds[0]

    def evolve(self, run: Path | str, *more: str) -> tuple[str, ...]:
        """The arguments that begin or resume a run."""
        settings = [word for setting in self.settings for word in ("--set", setting)]
        report = () if self.reports or "--no-report" in more else ("--no-report",)
        return "evolve", str(self.config), *settings, "--out", str(run), "--resume", *more, *report

    def trial_folder(self, name: str) -> Path:
        """An empty folder for one trial."""
        folder = self.folder / "trials" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def evolve_here(self, run: Path, *more: str, fault: Fault | None = None) -> tuple[Result, Record]:
        """Begin or resume a run in this process, maybe with a fault."""
        with injected(fault or Fault()) as record:
            return run_here(self.evolve(run, "--no-report", *more), run.parent), record

    def issues_of_resuming(self, run: Path) -> list[str]:
        """Resume a run to its end: what of that is not as it should be."""
        return self.issues_of_finished(self.evolve_here(run)[0], run)

    def issues_of_finished(self, result: Result, run: Path) -> list[str]:
        """Of a command that should have brought a run to its end."""
        if result.code != 0:
            return [f"resuming ended with code {result.code}: {result.last_line}"]
        try:
            return [f"after resuming, {what}" for what in read_end(run).differences(self.end)]
        except Exception as error:  # whatever keeps a finished run from being read is an issue
            return [f"after resuming, the run cannot be read: {type(error).__name__}: {error}"]

    def make(self, *, measure: bool = False) -> Reference:
        """Run the experiment undisturbed, count the operations on files, then stop another run.

        measure: whether also to time a run that imports everything itself, with and without compiled programs.
        """
        for name in ("cold", "fresh", "finished") if measure else ("finished",):
            run = self.folder / name / RUN
            run.parent.mkdir(parents=True)
            job = Job(self.evolve(run), run.parent, fresh=name != "finished")
            [result] = spawn(job, seconds=COMPILE_SECONDS)
            assert result.code == 0, result.output
            setattr(self, "seconds" if name == "finished" else f"{name}_seconds", result.seconds)
            end = read_end(run)
            assert self.end == End() or end == self.end, "two undisturbed runs differ"
            self.end = end
        counted = self.trial_folder("counted") / RUN
        result, record = self.evolve_here(counted, fault=Fault(str(counted)))
        assert result.code == 0, result.output
        self.operations = record.operations
        written = [place for place, one in enumerate(self.operations) if one.startswith("open checkpoints/")]
        self.stopped.parent.mkdir(parents=True)
        result, _ = self.evolve_here(self.stopped, fault=Fault(str(self.stopped), written[-2]))
        assert (result.code, result.traceback) == (2, ""), result.output
        return self


def smaller(config: Path, settings: Sequence[str] = ()) -> tuple[str, ...]:
    """Settings that make an experiment short; raises UserError if it is invalid without them."""
    experiment, kept = load_experiment(config, settings, run_plugins=True), tuple(settings)
    refine = () if experiment.evaluation.refine is None else ("evaluation.refine.trials=1",)
    for setting in (*SMALLER, *refine):
        try:
            load_experiment(config, (*kept, setting), run_plugins=True)
            kept = *kept, setting
        except UserError:
            continue
    return kept


def compile_once() -> Callable[..., Any]:
    """In place of `compile_evolution`: runs in this process share compiled programs."""
    known: dict[str, Any] = {}

    def compiled(experiment: Any, _: Any = None) -> Any:
        key = dump_yaml(experiment.model_copy(update={"generations": 1}))
        if key not in known:
            known[key] = compile_evolution(experiment)
        return known[key]

    return compiled


COMPILE = (evolve_module, "compile_evolution")
"""Where runs look for it."""


# Commands that read run folders


@dataclass(frozen=True)
class Reader:
    """A command about the run folder `run` of the current folder."""

    name: str
    arguments: tuple[str, ...]
    answer: Callable[[Result, Path], Any]
    """in comparable form, from the command's result and the folder it ran in"""


def readers(reference: Reference, seed: int, only: Sequence[str] = ()) -> list[Reader]:
    """All of them, or those of some names; seed: whose best robot is simulated."""

    def printed(result: Result, _: Path) -> Any:
        return json.JSONDecoder().raw_decode(result.output, result.output.find("{"))[0]

    def written(name: str) -> Callable[[Result, Path], Any]:
        return lambda _, folder: (folder / name).read_bytes()

    def page(_: Result, folder: Path) -> Any:
        return re.sub(r"Written by vsr report, [^.]* UTC", "", (folder / "page.html").read_text(encoding="utf-8"))

    every = [
        Reader("compare", ("compare", RUN, "--json", "-"), printed),
        Reader("plot", ("plot", RUN, "--out", "curves.png"), written("curves.png")),
        Reader("play", ("play", RUN, "--out", "strip.png", "--seconds", str(SHOWN_SECONDS)), written("strip.png")),
        Reader("report", ("report", RUN, "--out", "page.html"), page),
        Reader("simulate", ("simulate", f"{RUN}/best/seed-{seed}.yaml", "--json", "-"), printed),
        Reader("refine", ("refine", RUN, "--factors", "1", "--trials", "1", "--json", "a.json"), written("a.json")),
        Reader("verify", ("verify", RUN, "--json", "-"), printed),
        Reader("evaluate", ("evaluate", RUN, "--on", "transfer", "--json", "a.json"), written("a.json")),
        Reader("watch", ("watch", RUN), printed),
        Reader("resume", reference.evolve(RUN, "--no-report"), lambda _, folder: read_end(folder / RUN)),
    ]
    return [reader for reader in every if not only or reader.name in only]


def read(
    reader: Reader, source: Path, folder: Path, change: Callable[[Path], None] = lambda _: None
) -> tuple[Result, Any]:
    """Run a command on a changed copy of a run; its result and answer, None if the exit code is not 0.

    The copy's files are dated back by an hour: newer ones could be of a run in progress on another computer.
    """
    folder.mkdir(exist_ok=True)
    shutil.copytree(source, folder / RUN)
    change(folder / RUN)
    then = time.time() - 3600
    for file in (folder / RUN).rglob("*"):
        os.utime(file, (then, then), follow_symlinks=False)
    result = watch_once(folder) if reader.name == "watch" else run_here(reader.arguments, folder)
    return result, reader.answer(result, folder) if result.code == 0 and not result.traceback else None


def watch_once(folder: Path) -> Result:
    """The state that the page of `vsr watch` shows, and whether there is a robot."""

    def look() -> None:
        try:
            sys.stdout.write(json.dumps(_watch_answers(Path(RUN))))
        except UserError as error:
            sys.stdout.write(str(error))
            sys.exit(error.exit_code)

    return call_here(look, folder)


def _watch_answers(run: Path) -> dict[str, Any]:
    check_run(run)
    follower = Follower(run)
    follower.look()
    portrait = Portrait(follower, SHOWN_SECONDS)

    def get(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8")
        connection.close()
        return answer.status, text

    with open_server(0, follower, portrait) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            get("/state.json")  # a page that is watched is drawn
            portrait.look()
            (status, text), (robot, _) = get("/state.json"), get("/robot.html")
        finally:
            server.shutdown()
    if status == 200:
        text = json.loads(text, object_hook=lambda part: {key: part[key] for key in part if key not in CHANGING})
    return {"status": status, "robot": robot, "state": text}
