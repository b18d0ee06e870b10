"""The work of `vsr evolve`: an experiment from a file, run to its end or to Ctrl-C, into a folder that can go on."""

from __future__ import annotations

import contextlib
import math
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.arrays import MOST_BYTES
from vsr.experiments.config import load_experiment
from vsr.experiments.config.plugins import plugin_files
from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.config.yaml import Document, read_yaml
from vsr.experiments.console import Pulse, busy, say
from vsr.experiments.devices import check_implementation, prepare
from vsr.experiments.evolve.coordinator import Leader, check_same_command, end_together, follow
from vsr.experiments.evolve.display import Display, Progress, open_display
from vsr.experiments.evolve.fitness import confirmed
from vsr.experiments.evolve.generation import (
    Evolution,
    SearchStates,
    compile_evolution,
    program_digest,
    search_shapes,
)
from vsr.experiments.experiment import Experiment, grid_name
from vsr.experiments.formatting import clock, count
from vsr.experiments.hosts import detect_peer_loss
from vsr.experiments.launch import Launch, find_launch
from vsr.experiments.memory import explain_out_of_memory, memory_lines, needs_of_experiment, require_memory
from vsr.experiments.options import EvolveOptions, RunOptions
from vsr.experiments.ranks import middle
from vsr.experiments.run_time import Operations, seconds_of, time_lines
from vsr.experiments.shipped import EXPERIMENT, find_config, run_name, source_of
from vsr.experiments.stopping import EXIT_CODE, exit_if_interrupted, graceful_shutdown, on_interrupt
from vsr.experiments.storage.provenance import describe_session, differences
from vsr.experiments.storage.run_folder import RunFolder, RunStatus, check_run, is_free, is_run
from vsr.experiments.storage.runs import Run, read_run
from vsr.experiments.storage.settings import CONFIG, check_same_experiment, read_meta, read_settings
from vsr.experiments.storage.sources import Sources, sources_of, with_registered
from vsr.experiments.storage.statistics import GenerationStats, gather
from vsr.physics.failure import REASONS, by_reason, failure_summary
from vsr.scene import precision
from vsr.world.build import build_beds, build_systems

CURVE = "fitness.png"
SECONDS_OF_PATIENCE = 30.0
"""How long a generation may take, after the first, before a message reports that it is at work."""
LOOK_AGAIN = 0.01
"""How often the host looks whether a generation is done or the user asked to stop [s]."""


def all_settings(options: RunOptions) -> list[str]:
    """`--set`, and `--seeds` and `--seed` as further ones."""
    if options.seeds is not None and options.seed is not None:
        raise UserError("--seeds and --seed: give one of them; --seeds 10 means 0 to 9, --seed 3 just that one")
    seeds = options.seeds if options.seed is None else [options.seed]
    return [*options.settings, *([] if seeds is None else [f"seeds={seeds}"])]


class _Stop(Exception):
    """The user asked to stop."""


class Stopped(UserError):
    """The user has stopped a run; all of it is saved."""

    exit_code = EXIT_CODE
    leave_at_once = True  # rather than wait for a generation that nobody needs any more


def evolve(options: EvolveOptions) -> Path | None:
    """Run an experiment; returns its folder, or None on a process that only takes part in another's."""
    launch = find_launch(options.coordinator, options.processes, options.process)
    if launch is None:
        experiment, path = read_options(options)
        prepare(options.device)
        run_experiment(experiment, path, **_run_as(options), display=open_display(experiment, str(path)))
    else:
        path = _evolve_together(options, launch)
    if path is not None:
        with on_interrupt(
            f"the run is whole, its report was left out; to write it: vsr report {shlex.quote(str(path))}"
        ):
            exit_if_interrupted()
            _conclude(path, options.report)
    return path


def _evolve_together(options: EvolveOptions, launch: Launch) -> Path | None:
    """The part of one process of several: the first leads, the others follow."""
    if launch.process == 0:
        say(f"process 0 of {launch.processes} waits for the others")
    try:
        prepare(options.device, launch)
    except UserError as error:
        error.leave_at_once = True  # without JAX's goodbye, for which the others would be needed
        raise
    path = None
    with end_together() as at_work:
        check_same_command(repr(replace(options, process=None)))
        if launch.process > 0:
            with graceful_shutdown() as stop:
                follow(stop)
        else:
            experiment, path = read_options(options)
            leader = Leader(experiment, str(_config_file(options)), at_work)
            display = open_display(experiment, str(path))
            run_experiment(experiment, path, **_run_as(options), display=display, leader=leader)
    return path


def _run_as(options: EvolveOptions) -> dict[str, Any]:
    return {"given": options.config, "source": source_of(_config_file(options)), "resume": options.resume}


def read_options(options: EvolveOptions) -> tuple[Experiment, Path]:
    """The experiment with everything written out, and where its run goes; all that can be wrong is reported here."""
    given = _given(options)
    experiment = with_registered(_experiment(options).resolved())
    if experiment.learns_together and experiment.learning is None:  # which files of robots leave out
        raise UserError(f"{given}: robot.controller.shared: it is learned by PPO: give `learning: {{method: ppo}}` too")
    path = Path(options.out) if options.out else given if is_run(given) else Path("runs") / run_name(given)
    require_free(path, experiment, options.resume)
    return experiment, path


def require_free(path: Path, experiment: Experiment, resume: bool) -> None:
    """Raise UserError where a run can neither begin nor go on."""
    if is_run(path):
        if not resume:
            raise UserError(f"{path}: it already holds a run; add --resume to go on with it, or give another --out")
        check_same_experiment(path, experiment)
    elif not is_free(path):
        raise UserError(f"{path}: it exists and is not a run folder; give another --out")


def _say_what_is_run(run: Path) -> None:
    """Name the code that a run folder brings along: whoever goes on with somebody else's run should know."""
    try:
        named = read_yaml(run / CONFIG)
    except ConfigError:  # meta.json has the same settings
        named = Document(str(run / CONFIG), read_meta(run)[0].get("experiment"))
    for file in plugin_files(named):
        if file.is_relative_to(run.resolve()):
            say(f"running the plugin {file}, which the run brings along")


def _given(options: EvolveOptions) -> Path:
    """The file, maybe a shipped one, or the run."""
    return find_config(options.config, EXPERIMENT, folders=True)


def _experiment(options: EvolveOptions) -> Experiment:
    """Of a file, or of a run, whichever of its files has it."""
    given, settings = _given(options), all_settings(options)
    if not given.is_dir():
        return load_experiment(given, settings, run_plugins=True)
    check_run(given)
    _say_what_is_run(given)
    return read_settings(given, settings, run_plugins=True).experiment


def _config_file(options: EvolveOptions) -> Path:
    given = _given(options)
    return given / CONFIG if is_run(given) else given


def run_experiment(
    experiment: Experiment,
    path: Path,
    *,
    given: str,
    source: str,
    resume: bool,
    display: Display,
    leader: Leader | None = None,
    waiting: Callable[[str], None] | None = None,
) -> None:
    """Begin a run or go on with it.

    given: what messages call the experiment; source: where it is from; waiting: gets lines about work that takes long,
    by default stderr.
    """
    check_implementation(experiment.physics)
    needs = needs_of_experiment(experiment)
    require_memory(given, needs)
    require_storable(experiment)
    # Errors of building are reported before there is a folder. A bed of sand takes a while to settle.
    building = busy("building the world", report=waiting)
    with precision(experiment.physics.precision), building, explain_out_of_memory(needs):
        dtype, beds = jnp.dtype(experiment.physics.precision), experiment.bed_numbers(fresh=True)
        world = experiment.world, experiment.robot.body, experiment.schedule(), dtype
        build_systems(*world) if len(beds) == 1 else build_beds(*world, beds)
    folder = RunFolder(path, experiment)
    began = time.monotonic()
    try:
        with precision(experiment.physics.precision), graceful_shutdown() as stop:
            done, searches = _open(folder, source, resume, display)
            if done == experiment.generations:
                display.say(f"{path}: already finished, {count(done)} generations")
                return
            _announce(display, [("file", source), ("run", _describe(experiment)), *memory_lines(needs)])
            left = experiment.generations - done
            again = f"what was saved before is whole: to go on, vsr evolve {path} --resume"
            with on_interrupt(f"ended at once; {again}"), explain_out_of_memory(needs, again):
                estimate = partial(_estimate, display, left)
                evolution = _compile(experiment, path, stop, leader, estimate, waiting)
                _note_compilation(folder, display, time.monotonic() - began)
                how = "programs of an earlier run read" if evolution.were_kept else "compiled"
                display.say(f"{how} in {time.monotonic() - began:.1f} s; the run is in {path}")
                _go_on(evolution, folder, searches or evolution.start(), done, display, stop, leader)
    finally:
        display.close()
        folder.close()


def require_storable(experiment: Experiment) -> None:
    """Raise UserError if a checkpoint would be larger than what is read of a file."""
    leaves = jax.tree.leaves(search_shapes(experiment))
    size = len(experiment.seeds) * sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    if size > MOST_BYTES:
        raise UserError(
            f"optimizer: its state takes {size / 2**30:.1f} GiB in a checkpoint, at most {MOST_BYTES / 2**30:.0f} GiB: "
            "reduce the population, cells of archives, genes or seeds"
        )


def _open(folder: RunFolder, source: str, resume: bool, display: Display) -> tuple[int, SearchStates | None]:
    """Generations done and the searches there, None for the beginning."""
    experiment = folder.experiment
    sources = sources_of(experiment)
    warnings = _unkept(sources, experiment.fitness.measure)
    if not (resume and is_run(folder.path)):
        if resume:
            display.say(f"{folder.path}: there is no run to go on with; starting one")
        meta = {"config": source, "seeds": list(experiment.seeds), "plugins": sources.digests}
        registered: dict[str, Any] = {"registered": list(sources.unkept)} if sources.unkept else {}
        if sources.fitness is not None:
            registered["python_fitness"] = {"measure": experiment.fitness.measure, "source": sources.fitness}
        folder.create({**meta, **registered, "sessions": [describe_session(0)]}, sources)
        _warn(display, warnings)
        return 0, None
    folder.lock()
    standing = folder.inspect(search_shapes(experiment))
    done, meta = standing.done, standing.settings.meta
    warnings += standing.warnings
    if experiment.generations < done:
        raise UserError(
            f"{folder.path}: it has {count(done)} generations already, {count(experiment.generations)} are asked for"
        )
    _check_sources(folder.path, standing, sources)
    if done < experiment.generations:
        now = describe_session(done)
        if meta["sessions"] and (changed := differences(meta["sessions"][-1], now)):
            warnings.append(f"not as when the run began, so its last digits may differ: {'; '.join(changed)}")
        warnings += folder.reopen(standing, sources)
        meta, _ = read_meta(folder.path)
        folder.write_meta({**meta, "sessions": [*meta["sessions"], now]})
        display.say(f"{folder.path}: going on after generation {done}")
    else:
        warnings += folder.repair(standing)
    _warn(display, warnings)
    return done, standing.checkpoint.searches


def _warn(display: Display, warnings: Sequence[str]) -> None:
    for warning in warnings:
        display.say(f"warning: {warning}")


def _unkept(sources: Sources, goal: str) -> list[str]:
    """Components without which nobody can read the run."""
    if sources.fitness is not None:
        function = (
            f"{goal}: the fitness is a function in Python, which the run folder does not hold. Give it again as "
            "`fitness` of vsr.evolve or vsr.load to resume, read or verify the run; its best robots play without it"
        )
        return [function, *_unkept(replace(sources, fitness=None), goal)]
    if not sources.unkept:
        return []
    kept = "".join(f"; a copy of {file.name} is kept" for file in sources.scripts)
    return [
        f"{' and '.join(sources.unkept)}: registered by code that is no plugin{kept}. Nobody can simulate this run's "
        "robots without it: put it into a module and name that module under `plugins`"
    ]


def _check_sources(path: Path, standing: RunStatus, sources: Sources) -> None:
    changed = sources.changed_since(standing.plugins) if standing.plugins or sources.files else None
    if changed is not None:
        where = sources.files.get(changed)
        back = f"put {changed if where is None else where} back as it was"
        raise UserError(
            f"{path}: module '{changed}', of a plugin or imported by one, is not what it was when the run began; "
            f"{back}, or start again with another --out"
        )


def _announce(display: Display, lines: Sequence[tuple[str, str]]) -> None:
    for name, value in lines:
        display.say(f"{name}: {value}")


def _estimate(display: Display, generations: int, operations: Operations) -> None:
    """Say how long generations should take; operations: of one."""
    _announce(display, time_lines(seconds_of(operations), generations))


def _compile(
    experiment: Experiment,
    path: Path,
    stop: list[int],
    leader: Leader | None,
    estimate: Callable[[Operations], None],
    waiting: Callable[[str], None] | None,
) -> Evolution:
    """Compile in another thread, so that Ctrl-C is heard meanwhile; estimate: called before, with the operations."""
    result: list[Evolution | BaseException] = []
    counted: list[Operations] = []

    def work() -> None:
        try:
            with precision(experiment.physics.precision):
                compiler = leader.compile if leader else compile_evolution
                result.append(compiler(experiment, counted.append))
        except BaseException as error:  # to be raised where someone waits for it
            result.append(error)

    def wait(thread: threading.Thread, what: str, done: Callable[[], object]) -> None:
        with busy(what, report=waiting):
            while thread.is_alive() and not done():
                thread.join(LOOK_AGAIN)
                if stop and not leader:  # others compile too, and only listen when they are done
                    break

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    wait(thread, "tracing", lambda: counted)
    if counted and not stop:
        estimate(counted[0])
    wait(thread, "compiling", lambda: False)
    if stop:
        raise Stopped(f"stopped while compiling; to begin: vsr evolve {path} --resume")
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _note_compilation(folder: RunFolder, display: Display, seconds: float) -> None:
    """Keep with the present start how long it took until the first generation could begin.

    With code of the user's own, what is computed is kept too: raises UserError if that is not what the run has computed
    so far, as where data that a plugin reads, or a component registered in Python, was changed.
    """
    meta, _ = read_meta(folder.path)
    *before, now = meta["sessions"]
    now = {**now, "compile_seconds": round(seconds, 1)}
    own = sources_of(folder.experiment)
    if own.has_any:
        now["program"] = program_digest(folder.experiment)
        last = next((start for start in reversed(before) if "program" in start), now)
        function = [] if own.fitness is None else [f"'{folder.experiment.fitness.measure}'"]
        names = ", ".join([*function, *own.unkept, *(f"module '{name}'" for name in own.files)])
        if last["program"] != now["program"]:
            if all(one.startswith("devices was") for one in differences(last, now)):
                folder.write_meta({**meta, "sessions": before})
                raise UserError(
                    f"{folder.path}: it does not compute what it did when the run began, with the same settings, "
                    f"versions and files of plugins; {names}: put back what was changed there, or in the data it "
                    "reads, or start again with another --out"
                )
            _warn(display, [f"versions are others, so a change in what {names} computes would not be noticed"])
    folder.write_meta({**meta, "sessions": [*before, now]})


def _go_on(
    evolution: Evolution,
    folder: RunFolder,
    searches: SearchStates,
    done: int,
    display: Display,
    stop: list[int],
    leader: Leader | None,
) -> None:
    """Generation after generation; while the host writes one down, the device works on the next."""
    experiment = folder.experiment
    saved = done
    last_end = time.monotonic()
    last_save = -math.inf  # the first generation is saved at once: those who watch see a robot

    def begin(searches: SearchStates) -> tuple[SearchStates, tuple[GenerationStats, ...]]:
        return leader.begin(evolution, searches, stop) if leader else evolution.step(searches)

    pending = begin(searches)
    try:
        while done < experiment.generations:
            following, pending_stats = pending
            patience = Pulse.FIRST if last_save == -math.inf else SECONDS_OF_PATIENCE
            pulse = Pulse(partial(_working, display, done + 1), patience)
            _wait_for(pending_stats[-1].best, stop, pulse)
            is_last = done + 1 == experiment.generations
            if not is_last:
                pending = begin(following)
            with detect_peer_loss() if leader else contextlib.nullcontext():
                stats = gather(pending_stats)
                if is_last and evolution.confirm is not None:  # before it counts as done, so that no run ends without
                    stats = _with_confirmed(evolution, experiment, stats, stop, leader, pulse)
            searches, done = following, done + 1
            seconds, last_end = time.monotonic() - last_end, time.monotonic()
            folder.record(done - 1, stats, seconds)
            display.show(_progress(experiment, done - 1, stats, seconds))
            due = folder.is_full or last_end - last_save >= experiment.checkpoint_seconds
            if done == experiment.generations or due:
                folder.checkpoint(done, searches)
                saved, last_save = done, time.monotonic()
    except _Stop:
        if saved < done:
            folder.checkpoint(done, searches)
        raise Stopped(
            f"stopped after {count(done)} of {count(experiment.generations)} generations, all saved; to go on: "
            f"vsr evolve {folder.path} --resume"
        ) from None


def _with_confirmed(
    evolution: Evolution,
    experiment: Experiment,
    stats: GenerationStats,
    stop: list[int],
    leader: Leader | None,
    pulse: Pulse,
) -> GenerationStats:
    """The last generation with the fitness of its best robots in fresh trials; raises _Stop."""
    assert evolution.confirm is not None
    pending = leader.confirm(evolution, stats.best_genes, stop) if leader else evolution.confirm(stats.best_genes)
    _wait_for(pending[-1], stop, pulse)
    known = np.isfinite(stats.best)
    middle, low, high = (np.where(known, found, -np.inf) for found in confirmed(experiment, pending))
    return replace(stats, confirmed=middle, confirmed_low=low, confirmed_high=high)


def _wait_for(result: Any, stop: list[int], pulse: Pulse) -> None:
    """Sleep until the device is done with a result; raises _Stop as soon as the user asks for it."""
    while not stop and not result.is_ready():
        time.sleep(LOOK_AGAIN)
        pulse.beat()
    if stop:
        raise _Stop


def _working(display: Display, generation: int, seconds: float) -> None:
    display.say(f"generation {count(generation)} is at work for {clock(seconds)}")


def _progress(experiment: Experiment, generation: int, stats: GenerationStats, seconds: float) -> Progress:
    sign = experiment.fitness.sign
    best, median = sign * np.asarray(stats.best), sign * np.asarray(stats.median)
    return Progress(generation, best, median, int(np.sum(stats.failed)), seconds, by_reason(stats.failures))


def _describe(experiment: Experiment) -> str:
    robot, schedule = experiment.robot, experiment.schedule()
    seeds = len(experiment.seeds)
    return (
        f"{count(experiment.optimizer.population_size)} robots of {count(robot.gene_count)} genes "
        f"in a {grid_name(experiment)} grid, "
        f"{count(experiment.generations)} generations, {seeds} seed{'s' if seeds > 1 else ''}, "
        f"{schedule.total_time:g} s of {schedule.substeps} substeps per {schedule.time_step:.4g} s"
    )


def _conclude(path: Path, report: bool) -> None:
    """Draw the fitness curve, write the report if asked for, and report the gain and the commands to look at it."""
    from vsr.experiments.plot.curves import plot_runs

    run = read_run(path)
    plot_runs([run], path / CURVE)
    say(_gain(run))
    say(f"fitness curve: {path / CURVE}")
    if report:
        _report(run)
    if any(path.glob("best/seed-*.yaml")):
        say(f"watch the best: vsr play {shlex.quote(str(path))}")


def _report(run: Run) -> None:
    """Write the page about a run; raises UserError if the user can help it, as with a full disk."""
    from vsr.experiments.report.command import REPORT, write_report

    target, began = run.path / REPORT, time.monotonic()
    again = f"vsr report {shlex.quote(str(run.path))}"
    try:
        write_report([run], target)
    except KeyboardInterrupt:
        say(f"the run is whole, its report was left out; to write it: {again}")
    except UserError as error:
        raise UserError(f"{error}; the run is whole, its report was left out; to write it: {again}") from None
    except Exception as error:  # the run itself is whole and must not seem to have failed
        say(f"warning: the report could not be written: {type(error).__name__}: {error}; to try again: {again}")
    else:
        say(f"report: {target} (written in {time.monotonic() - began:.1f} s)")


def _gain(run: Run) -> str:
    """How much better the best robot is than the best of the first generation."""
    goal = run.experiment.fitness
    first, last = (goal.sign * float(middle(run.fitness[:, generation])) for generation in (0, -1))
    of_seeds = " (medians over seeds)" if len(run.experiment.seeds) > 1 else ""
    if not math.isfinite(last):
        failures = by_reason(np.stack([run.failures[reason.name] for reason in REASONS], -1))
        why = f": {failure_summary(failures, int(np.nansum(run.failed)))}" if failures else ""
        return f"all robots failed, so there is no best {goal.measure}{why}"
    if not math.isfinite(first):
        return f"best {goal.measure} {last:.4g}; all robots of the first generation failed{of_seeds}"
    searched = goal.sign * float(middle(run.search_fitness[:, -1]))
    how = f" in the {run.experiment.evaluation.confirmation}, {searched:.4g} in the search" if run.is_confirmed else ""
    line = f"best {goal.measure} {last:.4g}{how}, {first:.4g} in the first generation{of_seeds}"
    if goal.sign > 0 and first > 0:
        return f"{line}: {last / first:.1f} times as much"
    return f"{line}: {abs(last - first):.4g} {'more' if goal.sign > 0 else 'less'}"
