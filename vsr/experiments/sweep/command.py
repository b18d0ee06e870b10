"""The work of `vsr sweep`: check every combination, run what is not finished, report the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vsr.experiments.config.loading import load_variants
from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.console import busy, say, warn
from vsr.experiments.evolve.command import all_settings
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import count
from vsr.experiments.options import SweepOptions
from vsr.experiments.shipped import EXPERIMENT, find_config, run_name
from vsr.experiments.sweep.folder import (
    Sweep,
    check_place,
    combine,
    is_sweep,
    read_axes,
    read_jobs,
    read_sweep,
    swept,
    write_sweep,
)
from vsr.experiments.sweep.launch import read_parameters, run_here, slurm_executor, states_on_cluster, submit
from vsr.experiments.sweep.summary import FINISHED, Line, show_sweep, summarize, write_summary

MOST_FAULTY = 50
"""Combinations whose faults are reported; more would only repeat them."""


class Unfinished(UserError):
    """Some runs of a sweep have failed or were stopped; the others are finished."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def sweep(options: SweepOptions) -> Path:
    """Run a sweep, go on with one, or show how one stands; returns its folder."""
    _check_options(options)
    folder = Path(options.config)
    if is_sweep(folder):
        plan = _read_again(options, folder)
        start = options.resume
    else:
        options = replace(options, config=str(find_config(options.config, EXPERIMENT)))
        plan = plan_sweep(options)
        check_place(plan, options.resume)
        start = True
    executor = _executor(options, plan) if start else None
    if start and not is_sweep(folder):
        write_sweep(plan, options.config, all_settings(options))
    queued = states_on_cluster(read_jobs(plan.path))
    names = [name for name in plan.unfinished() if name not in queued] if start else []
    if executor is not None:
        return _hand_over(options, plan, names, executor)
    codes, stopped = run_here(plan, names, options.jobs, _more(options)) if names else ({}, False)
    failed = {name: f"failed with exit code {code}" for name, code in codes.items() if code not in (0, 130)}
    lines = summarize(plan, {**queued, **failed})
    _report(plan, lines)
    _judge(plan, lines, stopped, start)
    return plan.path


def plan_sweep(options: SweepOptions) -> Sweep:
    """Every combination as an experiment; raises ConfigError with the faults of all of them."""
    settings = all_settings(options)
    if not options.sweeps:
        raise UserError(
            "--sweep: missing; give values, such as --sweep optimizer.population_size=50,100, or the folder of a sweep"
        )
    axes = read_axes(options.sweeps, settings)
    combinations = combine(axes)
    experiments, problems, faulty = [], dict[Problem, None](), 0
    with busy(f"checking {count(len(combinations))} combinations"):
        for experiment in load_variants(
            options.config, settings, [swept(axes, item) for item in combinations], run_plugins=True
        ):
            if isinstance(experiment, Experiment):
                experiments.append(experiment.resolved())
                continue
            problems.update(dict.fromkeys(experiment.problems))
            faulty += 1
            if faulty == MOST_FAULTY:
                break
    if problems:
        raise ConfigError(list(problems))
    path = Path(options.out) if options.out else Path("runs") / f"{run_name(Path(options.config))}-sweep"
    return Sweep(path, tuple(axes), tuple(combinations), tuple(experiments))


def _read_again(options: SweepOptions, folder: Path) -> Sweep:
    changed = {
        "--sweep": options.sweeps, "--set": options.settings, "--seeds": options.seeds, "--seed": options.seed,
        "--out": options.out,
    }  # fmt: skip
    if given := [option for option, value in changed.items() if value not in (None, ())]:
        raise UserError(
            f"{' and '.join(given)}: {folder} is a sweep, whose values are settled; give the file it was made from to "
            "change them, or leave this out"
        )
    return read_sweep(folder, run_plugins=options.resume or options.trust_plugins)


def _check_options(options: SweepOptions) -> None:
    if options.slurm and options.executor != "slurm":
        raise UserError(f"--slurm {options.slurm[0]}: only with --executor slurm")
    if options.jobs > 1 and options.executor == "slurm":
        raise UserError(
            f"--jobs {options.jobs}: only on this computer; with --executor slurm: --slurm array_parallelism=N"
        )


def _executor(options: SweepOptions, plan: Sweep) -> Any:
    """None to run here."""
    if options.executor == "local":
        return None
    return slurm_executor((plan.path / "jobs").resolve(), read_parameters(options.slurm))


def _hand_over(options: SweepOptions, plan: Sweep, names: Sequence[str], executor: Any) -> Path:
    if names:
        submit(plan, names, executor, _more(options))
    lines = summarize(plan, {name: f"submitted (job {job})" for name, job in read_jobs(plan.path).items()})
    _report(plan, lines)
    say(f"{len(names)} jobs submitted; how they stand: vsr sweep {plan.path}")
    return plan.path


def _more(options: SweepOptions) -> list[str]:
    return ["--device", options.device] if options.device else []


def _report(plan: Sweep, lines: list[Line]) -> None:
    show_sweep([axis.path for axis in plan.axes], lines)
    for text in write_summary(plan, lines):
        say(text)
    warn([warning for line in lines for warning in line.warnings])


def _judge(plan: Sweep, lines: list[Line], stopped: bool, started: bool) -> None:
    """The exit code: 0 if there is nothing to fix."""
    unfinished = [line for line in lines if line.state != FINISHED]
    if not unfinished or not started:
        return
    text = f"{len(unfinished)} of {len(lines)} runs are not finished; to go on: vsr sweep {plan.path} --resume"
    raise Unfinished(f"stopped: {text}" if stopped else text, 130 if stopped else 1)
