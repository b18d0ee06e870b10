"""Measures of an episode: each is a function of its `Summary`, and larger need not be better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.spec import Registry
from vsr.tasks.gait import Gait, duty, rhythm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Summary:
    """One robot's episode."""

    start: Array
    """center at the start [m], (dimension,)"""
    end: Array
    """center at the end [m], (dimension,)"""
    box: Array
    """sides of the initial bounding box [m], (dimension,)"""
    total_time: Array
    """[s], ()"""
    mean_height: Array
    """mean over control steps of the center's height [m], ()"""
    mean_squared_control: Array
    """mean over control calls and voxels of the squared control value, ()"""
    failure: Array
    """why the episode is no use, 0 if it is (vsr.physics.failure), ()"""
    broken_springs: Array | None = None
    """how many springs broke, (); None if none can"""
    ended: Array | None = None
    """whether the task was over before its time, (); None if it cannot be"""
    gait: Gait | None = None
    """how it walked; None if no measure asked for it"""
    account: Any = None
    """what the task accumulated (`Task.accumulate`)"""

    @property
    def failed(self) -> Array:
        """Whether the episode is no use, ()."""
        return self.failure > 0


Measure = Callable[[Summary], Array]
PYTHON = "python:"
"""Names of measures that a function in Python makes of others begin so: no file can bring such a function."""


@dataclass(frozen=True)
class Combined:
    """A measure that a function makes of others; `Task.evaluate` gives it their values."""

    function: Callable[[Mapping[str, Array]], Array]
    reads: frozenset[str]
    """names of the others"""

    @property
    def __wrapped__(self) -> Callable[..., Array]:
        """What `inspect.unwrap` finds: where the function is from decides whose code it is."""
        return self.function

    def __call__(self, episode: Summary) -> Array:
        raise TypeError("a measure of measures is evaluated by its task")


def with_inputs(names: Iterable[str], known: Mapping[str, Any]) -> frozenset[str]:
    """Names of measures, and of those that they are made of."""
    return frozenset(one for name in names for one in (name, *getattr(known.get(name), "reads", ())))


def travel_velocity(episode: Summary) -> Array:
    """Displacement of the center along x over the duration [m/s]."""
    return (episode.end[0] - episode.start[0]) / episode.total_time


def relative_velocity(episode: Summary) -> Array:
    """Travel velocity over the larger side of the initial bounding box [1/s]."""
    return travel_velocity(episode) / episode.box.max()


def average_height(episode: Summary) -> Array:
    """Mean height of the center [m]."""
    return episode.mean_height


def average_squared_control(episode: Summary) -> Array:
    """Mean over calls and voxels of the squared, clipped control value."""
    return episode.mean_squared_control


def broken_springs(episode: Summary) -> Array:
    """How many springs broke; 0 if none can."""
    count = 0 if episode.broken_springs is None else episode.broken_springs
    return jnp.asarray(count, episode.total_time.dtype)


def gait_frequency(episode: Summary) -> Array:
    """Frequency with most power in the center's vertical velocity, 0 if nothing moves [Hz]."""
    return rhythm(_gait(episode))


def contact_time(episode: Summary) -> Array:
    """Share of control calls at which the robot touched the ground."""
    gait = _gait(episode)
    return gait.contact / jnp.maximum(gait.calls, 1)


def rear_duty(episode: Summary) -> Array:
    """Share of control calls at which the first column of voxels along x touched the ground."""
    gait = _gait(episode)
    return duty(gait)[jnp.argmax(gait.columns > 0)]


def front_duty(episode: Summary) -> Array:
    """Share of control calls at which the last column of voxels along x touched the ground."""
    gait = _gait(episode)
    return duty(gait)[len(gait.columns) - 1 - jnp.argmax(gait.columns[::-1] > 0)]


def mean_duty(episode: Summary) -> Array:
    """Share of control calls at which a column of voxels touched the ground, mean over columns."""
    gait = _gait(episode)
    return (duty(gait) * gait.columns).sum() / jnp.maximum(gait.columns.sum(), 1)


def _gait(episode: Summary) -> Gait:
    if episode.gait is None:
        raise ValueError("this episode's gait was not followed: name the measure under the task's `measures`")
    return episode.gait


OF_GAIT = (gait_frequency, contact_time, rear_duty, front_duty, mean_duty)
MEASURES: Registry[Measure] = Registry(
    "measure",
    {
        function.__name__: function
        for function in (
            travel_velocity,
            relative_velocity,
            average_height,
            average_squared_control,
            broken_springs,
            *OF_GAIT,
        )
    },
)
"""Every measure of any task by its name."""

NEED_GAIT = frozenset(function.__name__ for function in OF_GAIT)
"""Measures for which every control step must be looked at."""

WITHOUT_GRADIENTS = frozenset({*NEED_GAIT, "broken_springs"})
"""Measures that count something, so that a small change of a robot changes nothing."""

DEFAULT_MEASURES = ("travel_velocity", "relative_velocity", "average_height", "average_squared_control")
"""Those taken unless others are asked for: what every robot has."""
