"""`vsr train bulldozing`: a policy by an evolution strategy, into a folder with curve, weights and film.

A whole generation is one program on the device: all individuals, and the mean of the search, in the same trials.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.envs.machines import bulldozing
from vsr.evo.evolution_strategy import Climb, EvolutionStrategy, ask, start, tell
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say
from vsr.experiments.devices import prepare
from vsr.experiments.memory import needs_of_training, require_memory
from vsr.experiments.options import TrainOptions
from vsr.experiments.stopping import graceful_shutdown, on_interrupt
from vsr.experiments.storage.files import write_arrays, write_json
from vsr.experiments.train.bulldozer import Outcome, evaluate, features, first_genes, record
from vsr.experiments.train.folder import SETTINGS, Row, Stopped, open_folder
from vsr.experiments.train.pictures import plot_curve, write_film

FULL = 10_000, 0.02
"""Grains of the paper's world and their radius [m]: fewer are larger, so that the heap keeps its volume."""
SKY, EGO = (36, 18), (12, 12)
"""Pixels of the cameras: the policy takes means over blocks of them, so the paper's would only cost time."""
POLICY = "policy.npz"
OPTIONS = {"generations": 100, "population": 64, "grains": 1024, "seconds": 15.0, "trials": 2}
"""Options of machines, and their defaults."""


def train_machine(options: TrainOptions) -> None:
    """Train, then draw the curve and a film; raises UserError for what cannot be."""
    given = {name: default if (own := getattr(options, name)) is None else own for name, default in OPTIONS.items()}
    seed = options.seed or 0
    generations, population, grains, seconds, trials = given.values()
    lasting = {**{name: given[name] for name in given if name != "generations"}, "seed": seed}
    if population % 2:
        raise UserError(f"--population {population}: individuals come in opposite pairs; give an even number")
    folder = open_folder(options.out, options.resume, lasting)
    prepare(options.device)
    require_memory("vsr train", needs_of_training(population, trials, grains))
    settings = EvolutionStrategy(population_size=population)
    radius = FULL[1] * (FULL[0] / grains) ** (1 / 3)  # of grains [m]
    scenario = bulldozing.scenario(grains, radius=radius, duration=seconds, seed=seed)
    scenario = replace(scenario, sky=replace(scenario.sky, pixels=SKY), eye=replace(scenario.eye, pixels=EGO))
    first_key, search_key, key = jax.random.split(jax.random.key(seed), 3)
    inputs = features(scenario, bulldozing.observe(scenario, bulldozing.reset(key, scenario)))
    search = start(search_key, first_genes(first_key, len(inputs)))
    search = Climb(*folder.restore(_kept(search)), key=search.key)
    write_json(folder.path / SETTINGS, {**lasting, "radius": radius, "genes": len(search.mean)})
    say(f"{grains} grains of {1000 * radius:.0f} mm, {scenario.pace.substeps} steps an action")
    for generation in range(len(folder.curve), generations):
        with on_interrupt(folder.standing("generations")):
            began = time.perf_counter()
            asked = jnp.concatenate([ask(settings, search), search.mean[None]])
            own = jax.random.split(jax.random.fold_in(key, generation), trials)
            outcome = jax.block_until_ready(evaluate(scenario, asked, own))
            search = tell(settings, search, outcome.reward[:-1])
            with graceful_shutdown() as stop:  # files that belong together
                folder.store(_kept(search), _row(generation, outcome, time.perf_counter() - began))
                write_arrays(folder.path / POLICY, {"genes": np.asarray(search.mean)})
        _report_progress(folder.curve[-1])
        if stop:
            raise Stopped(folder.standing("generations"))
    labels = {"policy": "policy", "mean": "mean of the population", "best": "best of it"}
    lines = {label: [row[name] for row in folder.curve] for name, label in labels.items()}
    rounds = [row["generation"] for row in folder.curve]
    plot_curve(folder.path / "curve.png", rounds, lines, "generation", "reward per step")
    if options.film:
        write_film(scenario, record(scenario, search.mean, key), folder.path / "film.gif")
    say(f"written to {folder.path}")


def _kept(search: Climb) -> tuple[Any, ...]:
    """What changes of a search."""
    return search.mean, search.gradient, search.square, search.generation


def _row(generation: int, outcome: Outcome, seconds: float) -> Row:
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
