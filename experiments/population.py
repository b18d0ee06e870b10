"""Many robots at once: the only place that maps over robots.

All robots of one call share the grid, the schedule and the kind of controller: one compilation and one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from vsr.controllers import Controller
from vsr.physics.model import Environment, Model, State
from vsr.rollout import Episode, Schedule, rollout

Tree = TypeVar("Tree")


def stack(trees: Sequence[Tree]) -> Tree:
    """Equal pytrees as one, with a new leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@partial(jax.jit, static_argnames="schedule")
def rollout_population(
    models: Model, controllers: Controller, environment: Environment, states: State, schedule: Schedule
) -> Episode:
    """One life per robot. Leading axis (robots,) on models, controllers and states; one environment for all."""

    def live(model: Model, controller: Controller, state: State) -> Episode:
        return rollout(model, controller, environment, state, schedule)

    return jax.vmap(live)(models, controllers, states)


def repeat(tree: Any, count: int) -> Any:
    """The same pytree for every robot."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), tree)
