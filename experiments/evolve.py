"""The work of `vsr evolve`: an experiment from a file, run to its end or to Ctrl-C, into a folder that can go on."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from evo import Search
from experiments.config import load_experiment
from experiments.config.plugins import plugin_modules
from experiments.config.problems import UserError
from experiments.devices import prepare
from experiments.display import Display, Progress, open_display
from experiments.evolution import Evolution, Report, compile_evolution, start
from experiments.experiment import Experiment
from experiments.runs import RunFolder, check_same_experiment, is_free, is_run, read_run
from experiments.runs.folder import CONFIG, META
from experiments.runs.meta import describe_start, differences
from vsr.scene import precision

CURVE = "fitness.png"
LOOK_AGAIN = 0.01
"""How often the host looks whether a generation is done or the user wants to stop [s]."""


@dataclass(frozen=True)
class Order:
    """What the command line asks for."""

    config: str
    settings: tuple[str, ...] = ()
    seeds: int | None = None
    seed: int | None = None
    out: str | None = None
    resume: bool = False
    device: str | None = None


class _Stop(Exception):
    """The user wants to stop."""


class Stopped(UserError):
    """The user has stopped a run; all of it is saved."""

    exit_code = 130  # as shells have it for Ctrl-C


def evolve(order: Order) -> Path:
    """Run an experiment; returns its folder."""
    experiment, path = read_order(order)
    prepare(order.device)
    display = open_display(experiment, str(path))
    with precision(experiment.physics.precision):
        _evolve(experiment, path, order.resume, display)
    return path


def read_order(order: Order) -> tuple[Experiment, Path]:
    """The experiment with everything written out, and where its run goes; all that can be wrong is told here."""
    given = Path(order.config)
    of_run = is_run(given)
    if order.seeds is not None and order.seed is not None:
        raise UserError("--seeds and --seed: give one of them; --seeds 10 means 0 to 9, --seed 3 just that one")
    settings = list(order.settings)
    if order.seeds is not None:
        settings.append(f"seeds={order.seeds}")
    if order.seed is not None:
        settings.append(f"seeds=[{order.seed}]")
    experiment = load_experiment(given / CONFIG if of_run else given, settings).resolved()
    path = Path(order.out) if order.out else given if of_run else Path("runs") / given.stem
    if is_run(path):
        if not order.resume:
            raise UserError(f"{path}: it already holds a run; add --resume to go on with it, or give another --out")
        check_same_experiment(path, experiment)
    elif not is_free(path):
        raise UserError(f"{path}: it exists and is not a run folder; give another --out")
    return experiment, path


def _evolve(experiment: Experiment, path: Path, resume: bool, display: Display) -> None:
    folder = RunFolder(path, experiment)
    began = time.monotonic()
    try:
        done, search = _open(folder, resume, display)
        if done >= experiment.generations:
            display.say(f"{path}: already finished, {done} generations")
        else:
            display.say(f"{_describe(experiment)}; compiling")
            evolution = compile_evolution(experiment)
            display.say(f"compiled in {time.monotonic() - began:.1f} s; the run is in {path}")
            _go_on(evolution, folder, search or evolution.start(), done, display)
    finally:
        display.close()
        folder.close()
    _conclude(path, display)


def _open(folder: RunFolder, resume: bool, display: Display) -> tuple[int, Search | None]:
    """Generations done and the search there, None for the beginning."""
    meta_file = folder.path / META
    if not (resume and is_run(folder.path)):
        folder.create(plugin_modules(folder.experiment.plugins))
        folder.write_meta({"seeds": list(folder.experiment.seeds), "starts": [describe_start(0)]})
        return 0, None
    done, search, warnings = folder.reopen(jax.eval_shape(lambda: start(folder.experiment)))
    for warning in warnings:
        display.say(f"warning: {warning}")
    seeds = list(folder.experiment.seeds)
    meta: dict[str, Any] = json.loads(meta_file.read_text()) if meta_file.exists() else {"seeds": seeds, "starts": []}
    now = describe_start(done)
    if meta["starts"] and (changed := differences(meta["starts"][-1], now)):
        display.say(f"warning: not as when the run began, so its last digits may differ: {'; '.join(changed)}")
    meta["starts"].append(now)
    folder.write_meta(meta)
    if done:
        display.say(f"{folder.path}: going on after generation {done}")
    return done, search


def _go_on(evolution: Evolution, folder: RunFolder, search: Search, done: int, display: Display) -> None:
    """Generation after generation; while the host writes one down, the device works on the next."""
    experiment = folder.experiment
    saved = done
    last_save = last_end = time.monotonic()
    pending = evolution.step(search)
    with _stopping_politely() as stop:
        try:
            while done < experiment.generations:
                following, report = pending
                _wait_for(report, stop)
                search, done = following, done + 1
                if done < experiment.generations:
                    pending = evolution.step(search)
                told: Report = jax.device_get(report)
                seconds, last_end = time.monotonic() - last_end, time.monotonic()
                folder.record(done - 1, told, seconds)
                display.show(_progress(experiment, done - 1, told, seconds))
                if done == experiment.generations or last_end - last_save >= experiment.checkpoint_seconds:
                    folder.checkpoint(search)
                    saved, last_save = done, time.monotonic()
        except _Stop:
            if saved < done:
                folder.checkpoint(search)
            display.close()
            raise Stopped(
                f"stopped after {done} of {experiment.generations} generations, all saved; to go on: "
                f"vsr evolve {folder.path} --resume"
            ) from None


def _wait_for(report: Report, stop: list[int]) -> None:
    """Sleep until the device is done; raises _Stop as soon as the user wants it."""
    while not stop and not report.best.is_ready():  # pyright: ignore[reportAttributeAccessIssue]
        time.sleep(LOOK_AGAIN)
    if stop:
        raise _Stop


@contextlib.contextmanager
def _stopping_politely() -> Iterator[list[int]]:
    """While it is open, the first Ctrl-C (or a cluster's SIGTERM) is only noted; the second one ends at once."""
    noted: list[int] = []

    def note(number: int, _: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, note) for number in signals]
    except ValueError:  # not in the main thread, where signals do not come
        yield noted
        return
    try:
        yield noted
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _progress(experiment: Experiment, generation: int, report: Report, seconds: float) -> Progress:
    sign = experiment.fitness.sign
    best, median = sign * np.asarray(report.best), sign * np.asarray(report.median)
    return Progress(generation, best, median, int(np.sum(report.failed)), seconds)


def _describe(experiment: Experiment) -> str:
    robot, schedule = experiment.robot, experiment.schedule()
    rows, columns = robot.body.possible.shape
    seeds = len(experiment.seeds)
    return (
        f"{experiment.ea.n_pop} robots of {robot.gene_count} genes in a {columns}x{rows} grid, "
        f"{experiment.generations} generations, {seeds} seed{'s' if seeds > 1 else ''}, "
        f"{schedule.total_time:g} s of {schedule.substeps} substeps per {schedule.time_step:.4g} s"
    )


def _conclude(path: Path, display: Display) -> None:
    """Draw the fitness curve and say how much was gained."""
    from experiments.curves import plot_runs

    run = read_run(path)
    plot_runs([run], path / CURVE)
    first, last = run.best[:, 0], run.best[:, -1]
    measure = run.experiment.fitness.measure
    start_value, end_value = float(np.nanmedian(first)), float(np.nanmedian(last))
    of_seeds = " (medians over seeds)" if len(first) > 1 else ""
    line = f"best {measure} {end_value:.4g}, {start_value:.4g} in the first generation{of_seeds}"
    if start_value > 0:
        line += f": {end_value / start_value:.1f} times as much"
    display.say(line)
    display.say(f"fitness curve: {path / CURVE}")
    display.say(f"watch the best: vsr simulate {path / 'best' / f'seed-{run.experiment.seeds[0]}.yaml'} --out best.gif")
