"""The work of `vsr sweep`: check every combination, run what is not finished, tell what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import load_experiment
from experiments.config.problems import ConfigError, Problem, UserError
from experiments.evolve.command import EvolutionOrder
from experiments.evolve.display import say
from experiments.sweep.axes import combine, read_axes
from experiments.sweep.cluster import read_parameters, slurm_executor, states_on_cluster, submit
from experiments.sweep.folder import Sweep, check_place, is_sweep, read_jobs, read_sweep, write_sweep
from experiments.sweep.local import run_here
from experiments.sweep.summary import FINISHED, Line, summarise, write_summary
from experiments.terminal import show_sweep


@dataclass(frozen=True)
class SweepOrder(EvolutionOrder):
    """Runs of several values, here or on a cluster."""

    sweeps: tuple[str, ...] = ()
    executor: str = "local"
    jobs: int = 1
    slurm: tuple[str, ...] = ()


class Unfinished(UserError):
    """Some runs of a sweep have failed or were stopped; the others are finished."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def sweep(order: SweepOrder) -> Path:
    """Run a sweep, go on with one, or show how one stands; returns its folder."""
    _check_options(order)
    folder = Path(order.config)
    if is_sweep(folder):
        plan = _read_again(order, folder)
        start = order.resume
    else:
        plan = plan_sweep(order)
        check_place(plan, order.resume)
        start = True
    executor = _executor(order, plan) if start else None
    if start and not is_sweep(folder):
        write_sweep(plan, order.config)
    queued = states_on_cluster(read_jobs(plan.path))
    names = [name for name in plan.unfinished() if name not in queued] if start else []
    if executor is not None:
        return _hand_over(order, plan, names, executor)
    codes, stopped = run_here(plan, names, order.jobs, _more(order)) if names else ({}, False)
    failed = {name: f"failed with exit code {code}" for name, code in codes.items() if code not in (0, 130)}
    lines = summarise(plan, {**queued, **failed})
    _tell(plan, lines)
    _judge(plan, lines, stopped, start)
    return plan.path


def plan_sweep(order: SweepOrder) -> Sweep:
    """Every combination as an experiment; raises ConfigError with the faults of all of them."""
    settings = order.all_settings()
    if not order.sweeps:
        raise UserError(
            "--sweep: missing; say what varies, for example --sweep ea.n_pop=50,100, or give the folder of a sweep"
        )
    axes = read_axes(order.sweeps, settings)
    combinations = combine(axes)
    experiments, problems = [], dict[Problem, None]()
    for combination in combinations:
        swept = [f"{axis.path}={value}" for axis, value in zip(axes, combination.values, strict=True)]
        try:
            experiments.append(load_experiment(order.config, settings, swept).resolved())
        except ConfigError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise ConfigError(list(problems))
    path = Path(order.out) if order.out else Path("runs") / f"{Path(order.config).stem}-sweep"
    return Sweep(path, tuple(axes), tuple(combinations), tuple(experiments))


def _read_again(order: SweepOrder, folder: Path) -> Sweep:
    changed = {
        "--sweep": order.sweeps, "--set": order.settings, "--seeds": order.seeds, "--seed": order.seed,
        "--out": order.out,
    }  # fmt: skip
    if given := [option for option, value in changed.items() if value not in (None, ())]:
        raise UserError(
            f"{' and '.join(given)}: {folder} is a sweep, whose values are settled; give the file it was made from to "
            "change them, or leave this out"
        )
    return read_sweep(folder)


def _check_options(order: SweepOrder) -> None:
    if order.slurm and order.executor != "slurm":
        raise UserError(f"--slurm {order.slurm[0]}: only with --executor slurm")
    if order.jobs > 1 and order.executor == "slurm":
        raise UserError(
            f"--jobs {order.jobs}: only on this computer; with --executor slurm: --slurm array_parallelism=N"
        )


def _executor(order: SweepOrder, plan: Sweep) -> Any:
    """None to run here."""
    if order.executor == "local":
        return None
    return slurm_executor((plan.path / "jobs").resolve(), read_parameters(order.slurm))


def _hand_over(order: SweepOrder, plan: Sweep, names: Sequence[str], executor: Any) -> Path:
    if names:
        submit(plan, names, executor, _more(order))
    lines = summarise(plan, {name: f"submitted (job {job})" for name, job in read_jobs(plan.path).items()})
    _tell(plan, lines)
    say(f"{len(names)} jobs submitted; how they stand: vsr sweep {plan.path}")
    return plan.path


def _more(order: SweepOrder) -> list[str]:
    return ["--device", order.device] if order.device else []


def _tell(plan: Sweep, lines: list[Line]) -> None:
    show_sweep([axis.path for axis in plan.axes], lines)
    for text in write_summary(plan, lines):
        say(text)


def _judge(plan: Sweep, lines: list[Line], stopped: bool, started: bool) -> None:
    """The exit code: 0 if there is nothing to mend."""
    unfinished = [line for line in lines if line.state != FINISHED]
    if not unfinished or not started:
        return
    text = f"{len(unfinished)} of {len(lines)} runs are not finished; to go on: vsr sweep {plan.path} --resume"
    raise Unfinished(f"stopped: {text}" if stopped else text, 130 if stopped else 1)
