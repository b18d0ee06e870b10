"""Evolved robots evaluated again by the program that evaluated them when they evolved.

Robots that are computed together are rounded by the same program, which another number of robots, or another shape of a
network, need not give. So the robot goes back to its place in a population of the same size, the others being copies of
it. Where device or versions are others, the last digits are not to be had, and it is evaluated alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.evo import Evaluation
from vsr.experiments.encodings import Genes
from vsr.experiments.evolve.evaluation import asks_when, evaluate_all
from vsr.experiments.evolve.generation import asked_genes, compile_evolution
from vsr.experiments.experiment import Experiment
from vsr.experiments.population import robots_at_once
from vsr.experiments.storage.robots import Record
from vsr.scene import precision


@dataclass(frozen=True)
class Claim:
    """A robot and what is said of it."""

    record: Record
    experiment: Experiment
    """in which it evolved"""
    exactly: bool
    """whether device and versions are those of its evolution"""


def replay(claims: Sequence[Claim], done: Callable[[], None] = lambda: None) -> list[float]:
    """The measure of every robot, not a number where it failed; done: called after each robot."""
    found = [float("nan")] * len(claims)
    for places in _alike(claims):
        members = [claims[place] for place in places]
        with precision(members[0].experiment.physics.precision):
            for chosen, values in _evaluated(members):
                for member, value in zip(chosen, values, strict=True):
                    found[places[member]] = value
                    done()
    return found


def _alike(claims: Sequence[Claim]) -> list[list[int]]:
    """Places of those that one program can evaluate."""
    kinds: list[tuple[Claim, list[int]]] = []
    for place, claim in enumerate(claims):
        for first, places in kinds:
            if first.exactly == claim.exactly and first.experiment == claim.experiment:
                places.append(place)
                break
        else:
            kinds.append((claim, [place]))
    return [places for _, places in kinds]


def _evaluated(members: Sequence[Claim]) -> Iterator[tuple[list[int], list[float]]]:
    """Places and measures of robots, as many at a time as go together."""
    evaluate, seats, populations, n_pop = _program(members)
    sign = members[0].experiment.fitness.sign
    waiting = list(range(len(members)))
    while waiting:
        chosen = _together(members, seats, waiting)
        told = [_when(members, [place for place in chosen if seats[place][0] == one]) for one in range(populations)]
        genes = tuple(
            _population(members, {seats[place][1]: place for place in chosen if seats[place][0] == one}, n_pop)
            for one in range(populations)
        )
        when = (tuple(told),) if asks_when(members[0].experiment) else ()
        found = [np.asarray(evaluation.fitness) for evaluation in evaluate(genes, *when)]
        yield chosen, [sign * _fitness(members[place], found[seats[place][0]], seats[place][1]) for place in chosen]
        waiting = [place for place in waiting if place not in chosen]


Seat = tuple[int, int]
"""In which of the populations, and where in it."""


def _program(members: Sequence[Claim]) -> tuple[Callable[..., tuple[Evaluation, ...]], list[Seat], int, int]:
    """What evaluates populations, everyone's seat in them, their number and their size."""
    experiment = members[0].experiment
    if members[0].exactly:
        n_pop = experiment.ea.n_pop
        seats = [(one.record.place, one.record.individual % n_pop) for one in members]
        return compile_evolution(experiment).evaluate, seats, len(experiment.seeds), n_pop
    robots = robots_at_once(len(members) * experiment.evaluation.starts, experiment.robot.body.possible.size)
    everyone = [(place, 0) for place in range(len(members))]
    return jax.jit(partial(evaluate_all, experiment, robots)), everyone, len(members), 1


def _together(members: Sequence[Claim], seats: Sequence[Seat], waiting: Sequence[int]) -> list[int]:
    """Robots that are evaluated at once: no two on one seat.

    Where leaders are looked at again, no two in one population either: nobody else is to lead there. Nor where starts
    are drawn anew in every generation, as there is one for all.
    """
    options = members[0].experiment.evaluation
    alone = options.refine is not None or asks_when(members[0].experiment)
    taken: dict[Any, int] = {}
    for place in waiting:
        taken.setdefault(seats[place][0] if alone else seats[place], place)
    return list(taken.values())


def _when(members: Sequence[Claim], chosen: Sequence[int]) -> Any:
    """Seed and generation of the robot in a population, or of anyone."""
    record = members[chosen[0] if chosen else 0].record
    return jnp.array([record.seed, record.generation], jnp.uint32)


def _population(members: Sequence[Claim], at: dict[int, int], n_pop: int) -> Genes:
    """Genes of a population; at: which robots sit where. Everywhere else are copies of the first of them."""
    filling = members[next(iter(at.values()), 0)].record

    def part(name: str, kind: Any) -> Any:
        genes = np.tile(np.asarray(filling.genes[name], kind), (n_pop, 1))
        for seat, place in at.items():
            genes[seat] = members[place].record.genes[name]
        return jnp.asarray(genes)

    return {name: part(name, shape.dtype) for name, shape in asked_genes(members[0].experiment)[0].items()}


def _fitness(claim: Claim, fitness: np.ndarray, seat: int) -> float:
    """Of one robot, larger is better, not a number if it failed; fitness: of its population.

    Where leaders are looked at again, it hangs in the last digit on a robot's rank among them, which nobody knows any
    more. All of the population are copies of this one, on all ranks: the nearest to what was said is it.
    """
    if claim.experiment.evaluation.refine is None:
        value = fitness[seat]
    else:
        said = claim.experiment.fitness.sign * claim.record.score
        known = fitness[np.isfinite(fitness)]
        value = known[np.argmin(abs(known - said))] if known.size else np.nan
    return float(value) if np.isfinite(value) else float("nan")
