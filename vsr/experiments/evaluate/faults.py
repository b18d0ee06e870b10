"""Trials as arrays: how robots start, and what is wrong with them and their world. All trials share one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.controllers import Controller, decide, first_memory
from vsr.experiments.evaluate.sets import EvaluationSet, Fault
from vsr.experiments.evaluation import Start, starts_of
from vsr.sensors import Sense
from vsr.world.defaults import VoxelLike

DRAWS = 20_251
"""The seed of dead voxels and of noise."""


class Trials(NamedTuple):
    """Simulations that differ in data only, (trials,) each."""

    start: Start
    dead: Array
    """how many voxels"""
    order: Array
    """in which voxels die, (trials, *cells)"""
    noise: Array
    """of readings, in their units"""
    number: Array
    """for whatever is random"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Impaired:
    """A controller of a robot with faults."""

    own: Controller
    alive: Array
    """0 for dead voxels, *cells"""
    noise: Array
    """()"""
    number: Array
    """()"""

    @property
    def senses(self) -> tuple[Sense, ...]:
        return self.own.senses

    @property
    def rate_limit(self) -> Array | None:
        return getattr(self.own, "rate_limit", None)

    def first_memory(self) -> Any:
        return first_memory(self.own)

    def decide(self, memory: Any, time: Array, readings: Array | None) -> tuple[Array, Any]:
        if readings is not None:
            key = jax.random.fold_in(jax.random.key(DRAWS), self.number)
            key = jax.random.fold_in(key, jax.lax.bitcast_convert_type(time.astype(jnp.float32), jnp.uint32))
            felt = readings + self.noise * jax.random.normal(key, readings.shape, readings.dtype)
            readings = felt * self.alive
        values, memory = decide(self.own, memory, time, readings)
        return self.alive * values, memory


def trials_of(
    described: EvaluationSet,
    faults: Sequence[Fault],
    grounds: int,
    voxels: VoxelLike,
    cells: tuple[int, ...],
    dtype: jnp.dtype,
) -> Trials:
    """All starts of all faults on several grounds, (grounds * faults * starts,), the grounds first."""
    starts, count = described.starts, grounds * len(faults) * described.starts
    usual = starts_of(described.jitter.for_voxels(voxels), starts, dtype)

    def of_start(values: Array | None, otherwise: float) -> np.ndarray:
        own = np.full(starts, otherwise) if values is None else np.asarray(values)
        return np.tile(own, grounds * len(faults))

    def of_fault(values: Sequence[float]) -> np.ndarray:
        return np.tile(np.repeat(np.asarray(values, float), starts), grounds)

    mass, stiffness, friction, gravity = (
        of_fault([getattr(fault, name) for fault in faults]) for name in ("mass", "stiffness", "friction", "gravity")
    )
    numbers = {
        "higher": of_start(usual.higher, 0.0),
        "frequency": of_start(usual.frequency, 1.0) * np.sqrt(stiffness / mass),
        "damping": of_start(usual.damping, 1.0),
        "friction": of_start(usual.friction, 1.0) * friction,
        "mass": mass,
        "gravity": gravity,
    }
    ground = jnp.repeat(jnp.arange(grounds), len(faults) * starts) if grounds > 1 else None
    of_starts = np.tile(np.arange(starts), grounds * len(faults))
    orders = [np.random.default_rng([DRAWS, start]).permutation(int(np.prod(cells))) for start in range(starts)]
    return Trials(
        start=Start(**{name: jnp.asarray(values, dtype) for name, values in numbers.items()}, ground=ground),
        dead=jnp.asarray(of_fault([fault.dead for fault in faults]), jnp.int32),
        order=jnp.asarray(np.stack(orders)[of_starts].reshape(count, *cells), jnp.int32),
        noise=jnp.asarray(of_fault([fault.noise for fault in faults]), dtype),
        number=jnp.asarray(of_starts, jnp.uint32),
    )


def impaired(controller: Controller, present: Array, trial: Trials) -> Impaired:
    """A controller in one trial; present: 1 where there is a voxel, *cells."""
    here = present > 0
    place = jnp.where(here, trial.order, present.size)
    rank = (place.reshape(-1, 1) > place.reshape(1, -1)).sum(1).reshape(place.shape)
    alive = here & (rank >= trial.dead)
    return Impaired(controller, alive.astype(present.dtype), trial.noise * 1, trial.number)
