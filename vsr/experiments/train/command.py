"""`vsr train bulldozing`: a policy by an evolution strategy, into a folder with curve, weights and film.

A whole generation is one program on the device: all individuals, and the mean of the search, in the same trials.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.arrays import CorruptFileError, read_arrays
from vsr.envs.machines import bulldozing
from vsr.evo.evolution_strategy import Climb, EvolutionStrategy, ask, start, tell
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say
from vsr.experiments.devices import prepare
from vsr.experiments.memory import needs_of_training, require_memory
from vsr.experiments.options import TrainOptions
from vsr.experiments.stopping import EXIT_CODE, graceful_shutdown, on_interrupt
from vsr.experiments.storage.files import write_arrays, write_json
from vsr.experiments.train.pictures import plot_curve, write_film
from vsr.experiments.train.policy import Outcome, evaluate, features, first_genes, record

FULL = 10_000, 0.02
"""Grains of the paper's world and their radius [m]: fewer are larger, so that the heap keeps its volume."""
SKY, EGO = (36, 18), (12, 12)
"""Pixels of the cameras: the policy takes means over blocks of them, so the paper's would only cost time."""
SETTINGS, CURVE, SEARCH, POLICY = "settings.json", "curve.json", "search.npz", "policy.npz"


class Stopped(UserError):
    """The user has stopped a training; all of it is saved."""

    exit_code = EXIT_CODE


def train(options: TrainOptions) -> None:
    """Train, then draw the curve and a film; raises UserError for what cannot be."""
    folder, curve = _folder(options)
    if options.population % 2:
        raise UserError(f"--population {options.population}: individuals come in opposite pairs; give an even number")
    prepare(options.device)
    require_memory("vsr train", needs_of_training(options.population, options.trials, options.grains))
    settings = EvolutionStrategy(population_size=options.population)
    radius = FULL[1] * (FULL[0] / options.grains) ** (1 / 3)  # of grains [m]
    scenario = bulldozing.scenario(options.grains, radius=radius, duration=options.seconds, seed=options.seed)
    scenario = replace(scenario, sky=replace(scenario.sky, pixels=SKY), eye=replace(scenario.eye, pixels=EGO))
    first_key, search_key, key = jax.random.split(jax.random.key(options.seed), 3)
    inputs = features(scenario, bulldozing.observe(scenario, bulldozing.reset(key, scenario)))
    search = start(search_key, first_genes(first_key, len(inputs)))
    if (folder / SEARCH).exists():
        search = _stored(folder, search, curve)
    write_json(folder / SETTINGS, {**_lasting(options), "radius": radius, "genes": len(search.mean)})
    say(f"{options.grains} grains of {1000 * radius:.0f} mm, {scenario.pace.substeps} steps an action")
    for generation in range(len(curve), options.generations):
        with on_interrupt(_standing(folder, generation)):
            began = time.perf_counter()
            asked = jnp.concatenate([ask(settings, search), search.mean[None]])
            trials = jax.random.split(jax.random.fold_in(key, generation), options.trials)
            outcome = jax.block_until_ready(evaluate(scenario, asked, trials))
            search = tell(settings, search, outcome.reward[:-1])
            curve.append(_row(generation, outcome, time.perf_counter() - began))
            with graceful_shutdown() as stop:  # three files that belong together
                _store(folder, search, curve)
        _report_progress(curve[-1])
        if stop:
            raise Stopped(_standing(folder, generation + 1))
    plot_curve(curve, folder / "curve.png")
    if options.film:
        write_film(scenario, record(scenario, search.mean, key), folder / "film.gif")
    say(f"written to {folder}")


def _lasting(options: TrainOptions) -> dict[str, Any]:
    """Options that a training keeps when it is resumed."""
    return {name: getattr(options, name) for name in ("population", "grains", "seconds", "trials", "seed")}


def _folder(options: TrainOptions) -> tuple[Path, list[dict[str, Any]]]:
    """Where the run is, and what it has done so far."""
    folder = Path(options.out)
    settings = folder / SETTINGS
    if not options.resume:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"--out {folder}: it is there already; give another, or go on with --resume")
        folder.mkdir(parents=True, exist_ok=True)
        return folder, []
    if not settings.is_file():
        raise UserError(f"--out {folder}: there is no {SETTINGS}, so there is no run to go on with")
    before = _read(settings, dict)
    changed = [name for name, value in _lasting(options).items() if before.get(name) != value]
    if changed:
        given = ", ".join(f"--{name} {before.get(name)}" for name in changed)
        raise UserError(f"--out {folder}: the run was begun with {given}; give the same")
    curve = folder / CURVE
    return folder, _read(curve, list) if curve.is_file() else []


def _read(file: Path, kind: type) -> Any:
    """Contents of a JSON file, if it is of a kind."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file}: corrupted ({error}); begin again with another --out") from None
    if not isinstance(found, kind):
        raise UserError(f"{file}: corrupted (it holds {type(found).__name__}); begin again with another --out")
    return found


def _standing(folder: Path, done: int) -> str:
    """For whoever stops a training."""
    return f"stopped after {done} generations, all saved in {folder}; to go on, add --resume to the same command"


def _row(generation: int, outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Numbers of one generation, null for what is not one."""
    reward = np.asarray(outcome.reward, float)
    others = reward[:-1][np.isfinite(reward[:-1])]
    return {
        "generation": generation,
        "mean": float(others.mean()) if len(others) else None,
        "best": float(others.max()) if len(others) else None,
        "policy": float(reward[-1]) if np.isfinite(reward[-1]) else None,
        "policy_share_in_goal": float(outcome.share[-1]),
        "failed": int(np.asarray(outcome.failed).sum()),
        "seconds": round(seconds, 3),
    }


def _report_progress(row: dict[str, Any]) -> None:
    def number(value: float | None) -> str:
        return "failed" if value is None else f"{value:.3f}"

    say(
        f"generation {row['generation']}: policy {number(row['policy'])}, mean {number(row['mean'])}, "
        f"best {number(row['best'])}, {row['policy_share_in_goal']:.0%} in the goal at the end, "
        f"{row['failed']} failed, {row['seconds']:.1f} s"
    )


def _store(folder: Path, search: Climb, curve: list[dict[str, Any]]) -> None:
    """The search first, with the curve's last row: a curve that is a row short is fixed, one too long would not be."""
    arrays = {
        "mean": search.mean,
        "gradient": search.gradient,
        "square": search.square,
        "generation": search.generation,
    }
    write_arrays(folder / SEARCH, {name: np.asarray(value) for name, value in arrays.items()}, {"row": curve[-1]})
    write_arrays(folder / POLICY, {"genes": np.asarray(search.mean)})
    write_json(folder / CURVE, curve)


def _stored(folder: Path, like: Climb, curve: list[dict[str, Any]]) -> Climb:
    """The search as it was left; curve: gets its last row if that was not written any more."""
    try:
        found = read_arrays(folder / SEARCH)
    except CorruptFileError as error:
        raise UserError(f"{error}; begin again with another --out") from None
    stored, shapes = (
        found.arrays,
        {name: getattr(like, name).shape for name in ("mean", "gradient", "square", "generation")},
    )
    if {name: array.shape for name, array in stored.items()} != shapes:
        raise UserError(f"{folder / SEARCH}: it is not of this training; begin again with another --out")
    done = int(stored["generation"])
    if done == len(curve) + 1 and "row" in found.label:
        curve.append(found.label["row"])
    if done != len(curve):
        raise UserError(
            f"{folder / CURVE}: it has {len(curve)} rows, but {SEARCH} is of {done} generations; put back the one that "
            "belongs to the other, or begin again with another --out"
        )
    return Climb(**{name: jnp.asarray(array) for name, array in stored.items()}, key=like.key)
