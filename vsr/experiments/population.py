"""Many robots at once: the only place that maps over robots and shares them out among devices.

All robots of one call share the grid, the schedule and the kind of controller: one compilation and one batch. Processor
cores count as devices (see experiments.devices), and a core simulates its robots in parts that stay in its cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vsr.controllers import Controller
from vsr.environment import Environment
from vsr.episode import Trajectory, begin, record, rollout, scenario_of
from vsr.physics.engine import AnyModel, AnyState
from vsr.tasks import Summary, Task
from vsr.world.schedule import Schedule

Tree = TypeVar("Tree")

CELLS_IN_CACHE = 1024
"""Cells simulated together on one core: more do not stay in its cache, fewer do not pay for starting the kernels."""
ROBOTS_IN_VECTORS = 32, 8
"""Robots lie side by side in memory: groups are multiples of the first number if they can be, else of the second."""
DEVICES = "devices"
ONE_OF_PARTS = "one_of_parts_"
"""How the name of a function begins that runs as many times as it ends with; XLA must not know (see `in_parts`)."""
SHARED_OUT = PartitionSpec(DEVICES)


def stack(trees: Sequence[Tree]) -> Tree:
    """Equal pytrees as one, with a new leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def repeat(tree: Any, count: int) -> Any:
    """The same pytree for every robot."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), tree)


@partial(jax.jit, static_argnames=("schedule", "task"))
def rollout_population(
    models: AnyModel,
    controllers: Controller,
    environment: Environment,
    states: AnyState,
    schedule: Schedule,
    task: Task | None = None,
    systems: dict[str, Any] | None = None,
) -> Summary:
    """One episode per robot. Leading axis (robots,) on models, controllers and states; one environment for all.

    Without a task, locomotion; systems: what else moves in each robot's world, the same for all.
    """

    def episode_of(robot: tuple[AnyModel, Controller, AnyState]) -> Summary:
        model, controller, state = robot
        scenario = scenario_of(model, environment, schedule, task, controller.sensors, systems)
        return rollout(scenario, controller, begin(scenario, state))

    robots, *grid = models.present.shape
    return on_all_devices(episode_of, (models, controllers, states), robots_at_once(robots, math.prod(grid)))


@partial(jax.jit, static_argnames=("schedule", "task"))
def record_population(
    models: AnyModel,
    controllers: Controller,
    environment: Environment,
    states: AnyState,
    schedule: Schedule,
    task: Task | None = None,
    systems: dict[str, Any] | None = None,
) -> tuple[Summary, Trajectory]:
    """The same with all states on the way, which for many robots take much memory."""

    def episode_of(robot: tuple[AnyModel, Controller, AnyState]) -> tuple[Summary, Trajectory]:
        model, controller, state = robot
        scenario = scenario_of(model, environment, schedule, task, controller.sensors, systems)
        return record(scenario, controller, begin(scenario, state))

    robots, *grid = models.present.shape
    return on_all_devices(episode_of, (models, controllers, states), robots_at_once(robots, math.prod(grid)))


def robots_at_once(robots: int, cells: int) -> int:
    """How many robots a device should simulate together; cells: of one robot's grid.

    Accelerators take all they get. A processor core takes as many as fit its cache, or fewer so that all have work.
    """
    share = math.ceil(robots / jax.device_count())
    if jax.default_backend() != "cpu":
        return share
    many, few = ROBOTS_IN_VECTORS
    in_cache = many * max(1, round(CELLS_IN_CACHE / cells / many))
    return min(in_cache, share if share <= few else few * math.ceil(share / few))


def on_all_devices(function: Callable[[Any], Any], individuals: Any, at_once: int) -> Any:
    """Map a function over the leading axis, shared out evenly among all devices, in parts on each."""
    mesh = device_mesh()
    total = jax.tree.leaves(individuals)[0].shape[0]
    padded = _filled_up(individuals, math.ceil(total / mesh.size) * mesh.size)
    share = jax.shard_map(
        lambda own: in_parts(function, own, at_once),
        mesh=mesh,
        in_specs=SHARED_OUT,
        out_specs=SHARED_OUT,
        check_vma=False,
    )
    return jax.tree.map(lambda leaf: leaf[:total], share(padded))


def in_parts(function: Callable[[Any], Any], individuals: Any, at_once: int) -> Any:
    """Map a function over the leading axis, `at_once` individuals at a time; the last part is filled up."""
    total = jax.tree.leaves(individuals)[0].shape[0]
    parts = math.ceil(total / at_once)
    if parts == 1 and jax.default_backend() != "cpu":
        return jax.tree.map(lambda leaf: leaf[:total], jax.vmap(function)(_filled_up(individuals, at_once)))
    # Of a loop of one turn, or over the only part, XLA would make another program, which rounds otherwise.
    places = max(parts, 2)
    divided = jax.tree.map(
        lambda leaf: leaf.reshape(places, at_once, *leaf.shape[1:]), _filled_up(individuals, places * at_once)
    )

    def part(own: Any) -> Any:
        return jax.vmap(function)(own)

    part.__name__ = f"{ONE_OF_PARTS}{parts}"
    together = jax.jit(part)  # traced once for its shapes and the loop
    shapes = jax.eval_shape(together, jax.tree.map(lambda leaf: leaf[0], divided))
    empty = jax.tree.map(lambda shape: jnp.zeros((places, *shape.shape), shape.dtype), shapes)

    def with_part(number: Array, results: Any) -> Any:
        found = together(jax.tree.map(lambda leaf: leaf[number], divided))
        return jax.tree.map(lambda all_parts, one: all_parts.at[number].set(one), results, found)

    results = jax.lax.fori_loop(0, _unknown(parts, divided), with_part, empty)
    return jax.tree.map(lambda leaf: leaf.reshape(places * at_once, *leaf.shape[2:])[:total], results)


def _unknown(number: int, witness: Any) -> Array:
    """A number that XLA does not know; witness: arrays that only a running program knows."""
    known = [leaf for leaf in jax.tree.leaves(witness) if leaf.size and jnp.issubdtype(leaf.dtype, jnp.number)]
    first = known[0].reshape(-1)[0] if known else 0
    return jnp.where((first > 0) & (first < 0), 0, number)


def from_first_device(tree: Any) -> Any:
    """The first device's values, for all of them; leading axis (devices,), shared out, on every leaf. Pure."""

    def from_first(piece: Array) -> Array:
        # Bits are added up, because 0.0 + -0.0 is not -0.0.
        bits = piece[0].view(f"uint{8 * piece.dtype.itemsize}")
        bits = jax.lax.psum(jnp.where(jax.lax.axis_index(DEVICES) == 0, bits, 0), DEVICES)
        return bits.view(piece.dtype)

    spread = partial(jax.tree.map, from_first)
    return jax.shard_map(spread, mesh=device_mesh(), in_specs=SHARED_OUT, out_specs=PartitionSpec(), check_vma=False)(
        tree
    )


def device_mesh() -> Mesh:
    """All devices in a row: those of all processes, process 0's first."""
    return Mesh(np.array(sorted(jax.devices(), key=lambda device: device.process_index)), DEVICES)


def everywhere() -> NamedSharding:
    """The same on every device."""
    return NamedSharding(device_mesh(), PartitionSpec())


def _filled_up(individuals: Any, size: int) -> Any:
    """As many individuals as asked for; copies of the first fill up what is missing."""

    def fill(leaf: Array) -> Array:
        missing = size - leaf.shape[0]
        return jnp.concatenate([leaf, jnp.broadcast_to(leaf[:1], (missing, *leaf.shape[1:]))]) if missing else leaf

    return jax.tree.map(fill, individuals)
