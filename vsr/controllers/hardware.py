"""Hardware between a controller and its voxels: noise of sensors and actuators, delay, a limit to the rate of control.

A reading gets noise before any controller sees it. What the controller decides is clipped to [-1, 1], gets noise, waits
for some calls, and is then followed no faster than the rate limit allows. Noise is normal, new for every voxel at every
call, and the same whenever an episode with the same seed is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.controllers.base import Controller, decide, first_memory, is_policy, observes_task, rate_limit
from vsr.controllers.mlp import RateLimit
from vsr.sensors import Sensor
from vsr.spec import Count, Real, Spec

Deviation = Annotated[Real, Field(ge=0)]


class Hardware(Spec):
    """What a robot's sensors and actuators add to its controller."""

    sensor_noise: Deviation = 0.0
    """standard deviation of what is added to every reading, in the unit of the reading"""
    control_noise: Deviation = 0.0
    """standard deviation of what is added to every control value"""
    delay: Annotated[Count, Field(ge=0, le=1000)] = 0
    """control intervals that pass before a control value is in force; until the first one arrives it is 0"""
    rate_limit: RateLimit | None = None
    """how fast a control value can change [1/s]; null for any speed"""
    seed: Annotated[Count, Field(ge=0, lt=2**32)] = 0
    """of the noise"""

    def around(self, controller: Controller, cells: tuple[int, ...], dtype: Any) -> Controller:
        """The controller as its robot has it; cells: of the robot's grid."""
        limits = [limit for limit in (rate_limit(controller), self.rate_limit) if limit is not None]
        return Equipped(
            own=controller,
            sensor_noise=jnp.asarray(self.sensor_noise, dtype) if self.sensor_noise else None,
            control_noise=jnp.asarray(self.control_noise, dtype) if self.control_noise else None,
            rate_limit=jnp.asarray(jnp.stack(list(map(jnp.asarray, limits))).min(), dtype) if limits else None,
            start=jnp.zeros((), jnp.uint32),
            waiting=jnp.zeros((self.delay, *cells), dtype),
            seed=self.seed,
        )


class Passing(NamedTuple):
    """What is on its way through the hardware."""

    own: Any
    """memory of the controller"""
    waiting: Array
    """control values that are not yet in force, the oldest first, (delay, *cells)"""
    calls: Array
    """made so far, ()"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Equipped:
    """A controller behind its robot's hardware."""

    own: Controller
    sensor_noise: Array | None
    """standard deviation, (); None for none"""
    control_noise: Array | None
    """standard deviation, (); None for none"""
    rate_limit: Array | None
    """[1/s], (); `rollout` and `record` see to it"""
    start: Array
    """number of the start, each of which has noise of its own, ()"""
    waiting: Array
    """control values before the first call, (delay, *cells)"""
    seed: int = field(metadata={"static": True})

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        return self.own.sensors

    @property
    def is_policy(self) -> bool:
        return is_policy(self.own)

    @property
    def observes_task(self) -> bool:
        return observes_task(self.own)

    def first_memory(self) -> Passing:
        return Passing(first_memory(self.own), self.waiting, jnp.zeros((), jnp.uint32))

    def decide(self, memory: Passing, time: Array, readings: Array | None) -> tuple[Array, Passing]:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), self.start), memory.calls)
        of_sensors, of_control = jax.random.split(key)
        if readings is not None and self.sensor_noise is not None:
            readings = readings + self.sensor_noise * jax.random.normal(of_sensors, readings.shape, readings.dtype)
        values, own = decide(self.own, memory.own, time, readings)
        values = jnp.clip(values, -1, 1)
        if self.control_noise is not None:
            values = values + self.control_noise * jax.random.normal(of_control, values.shape, values.dtype)
        line = jnp.concatenate([memory.waiting, values[None]])
        return line[0], Passing(own, line[1:], memory.calls + 1)


def in_trial(controller: Controller, number: Array) -> Controller:
    """The same with the noise of a start, if it has any; number: of the start, ()."""
    return replace(controller, start=number.astype(jnp.uint32)) if isinstance(controller, Equipped) else controller
