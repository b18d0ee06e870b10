"""Workspace: how well the chambers of a body, held at its left end, bring its right end to a grid of targets.

Nothing moves in time: for every target the pressures or volumes are found that bring the tip nearest to it
(vsr.physics.statics). Bodies of any shape can be compared, because what is held and what is the tip follow from the
body: all nodes farthest to the left, and the middle of those farthest to the right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, model_validator

from vsr.physics.points.model import PointModel
from vsr.physics.statics.reach import Effectors, ReachSettings, bounds_of, pose_at, reach
from vsr.physics.statics.voxels import resting
from vsr.robot import ENGINE_KINDS, EngineName, Material
from vsr.spec import Count, Real, Seconds
from vsr.tasks.base import Task
from vsr.tasks.measures import Summary
from vsr.world.state import WorldModel, WorldState

Place = tuple[Real, ...]
MOST_TARGETS = 1000
"""More for each body are a mistake."""
SEARCH = ReachSettings(tolerance=1e-3, standstill=1e-3, most_iterations=8, most_steps=8, many=True)
"""A fitness need not know drives to the last digit."""
HANG = ReachSettings(most_steps=60, many=True)
"""Before it is pumped a body hangs, which is far from the shape it was drawn in."""


class Found(NamedTuple):
    """What was found for one body."""

    distance: Array
    """of the tip from every target [m], infinite where no equilibrium was found, (targets,)"""
    side: Array
    """of a voxel [m], ()"""


def reachable(episode: Summary) -> Array:
    """Share of targets that the tip comes to within a tenth of a voxel's side."""
    found: Found = episode.account
    return (found.distance <= 0.1 * found.side).mean()


def closeness(episode: Summary) -> Array:
    """Mean over targets of exp(-distance over a voxel's side): 1 if all are reached."""
    found: Found = episode.account
    return jnp.exp(-found.distance / found.side).mean()


class Workspace(Task):
    """Reach a grid of targets with the right end of a body whose left end is held. Needs points and chambers."""

    type: Literal["workspace"] = "workspace"
    duration: Seconds = 1 / 60
    """[s]; nothing of it counts, so the shortest is best"""
    low: Annotated[Place, Field(min_length=2, max_length=3)]
    """lowest target, seen from the middle of the held end, as heights of ports are [m]"""
    high: Annotated[Place, Field(min_length=2, max_length=3)]
    """highest target likewise [m]"""
    counts: Annotated[tuple[Annotated[Count, Field(ge=1, le=100)], ...], Field(min_length=2, max_length=3)]
    """targets along every axis"""
    measures: tuple[str, ...] = Field(default=("closeness", "reachable"), min_length=1)
    """what is measured"""

    own_measures = {"closeness": closeness, "reachable": reachable}  # noqa: RUF012

    @model_validator(mode="after")
    def _grid(self) -> Workspace:
        if not len(self.low) == len(self.high) == len(self.counts):
            raise ValueError("low, high and counts need as many numbers each: 2 for a body in 2-D, 3 in 3-D")
        if math.prod(self.counts) > MOST_TARGETS:
            raise ValueError(f"{math.prod(self.counts)} targets; at most {MOST_TARGETS}")
        return self

    def issues(self, engine: EngineName, dimension: int, materials: Sequence[Material]) -> list[tuple[str, str]]:
        found = []
        if "fluid" in ENGINE_KINDS[engine].meaningless:
            others = " or ".join(name for name, kind in ENGINE_KINDS.items() if "fluid" not in kind.meaningless)
            found.append(("type", f"workspace needs masses that hold fluid, and {engine} do not: use {others}"))
        if not any(material.fluid is not None for material in materials):
            found.append(("type", "workspace needs chambers: give a material `fluid`"))
        if len(self.low) != dimension:
            found.append(("low", f"{len(self.low)} numbers given; bodies are in {dimension}-D: {dimension}"))
        return found

    def targets(self, dtype: jnp.dtype) -> Array:
        """Seen from the middle of the held end [m], (targets, dimension)."""
        axes = [jnp.linspace(*ends) for ends in zip(self.low, self.high, self.counts, strict=True)]
        return jnp.stack([part.reshape(-1) for part in jnp.meshgrid(*axes, indexing="ij")], -1).astype(dtype)

    def begin(self, world: WorldModel, state: WorldState) -> Found:
        model: PointModel = world.robots[0]
        position = jnp.broadcast_to(model.rest_position, (*model.node_mass.shape, model.dimension))
        exists = model.inverse_mass > 0
        x = position[..., 0]
        base = exists & (x <= jnp.where(exists, x, jnp.inf).min())
        tip = exists & (x >= jnp.where(exists, x, -jnp.inf).max())
        clamped = replace(model, inverse_mass=jnp.where(base, 0, model.inverse_mass))
        given = resting(clamped, replace(world.environment, terrain=None))
        effectors = _mean_of(tip, model)
        # Heights of ports are seen from there too, so that a body's place in its grid plays no part.
        position = position - _mean_of(base, model).at(position)[0]
        size = jnp.where(exists, position[..., 0], 0).max()
        start = pose_at(given, position, given.drive, size=size, settings=HANG)
        bounds = bounds_of(clamped)

        def distance(target: Array) -> Array:
            found = reach(given, effectors, target[None], bounds, start, size=size, settings=SEARCH)
            return jnp.where(found.pose.converged, found.distance[0], jnp.inf)

        return Found(jax.vmap(distance)(self.targets(position.dtype)), model.voxel_side)

    def accumulate(self, account: Any, world: WorldModel, before: WorldState, after: WorldState, action: Array) -> Any:
        return account

    def reward(self, account: Any, world: WorldModel, before: WorldState, after: WorldState, action: Array) -> Array:
        """Nothing happens in time."""
        return jnp.zeros((), action.dtype)


def _mean_of(nodes: Array, model: PointModel) -> Effectors:
    """The middle of some nodes; nodes: True for those, (layers, n)."""
    share = nodes.reshape(1, -1).astype(model.mass.dtype)
    number = jnp.arange(share.shape[1])[None]
    return Effectors(number, share / jnp.maximum(share.sum(), 1), jnp.ones(1, model.mass.dtype))
