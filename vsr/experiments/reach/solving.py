"""From a described search to arrays, and what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.environment import Environment
from vsr.experiments.config.problems import UserError
from vsr.experiments.reach.spec import Reach, voxel_at
from vsr.lattice.integrators import NodeState
from vsr.physics.engine import assemble_body
from vsr.physics.fluid.law import NO_LIMIT
from vsr.physics.points.fluid import followed
from vsr.physics.statics.reach import Bounds, Effectors, Pose, Reached, bounds_of, pose_at, reach, track
from vsr.physics.statics.voxels import (
    Resting,
    chamber_pressures,
    chamber_volumes,
    depth,
    resting,
)
from vsr.robot import Body
from vsr.robot.corners import corner_steps


class Problem(NamedTuple):
    """One body, ready to be searched."""

    given: Resting
    start: Array
    """the undeformed body where it is placed [m], (layers, n, dimension)"""
    effectors: Effectors
    axis: Effectors
    """its two points, or none"""
    bounds: Bounds
    size: Array
    """longest side of the body's grid [m], ()"""


@dataclass(frozen=True)
class VariantResult:
    """Results of a variant; arrays of numpy, one row a pose: those given first, then those for targets."""

    name: str
    """of the variant"""
    body: Body
    symbols: tuple[str, ...]
    """of the fluid in every chamber"""
    by_volume: np.ndarray
    """whether a chamber's volume is driven, (m,)"""
    size: float
    """[m]"""
    names: tuple[str, ...]
    """of given poses"""
    position: np.ndarray
    """of nodes [m], (poses, layers, n, dimension)"""
    drive: np.ndarray
    """(poses, m)"""
    pressure: np.ndarray
    """at the ports [Pa], (poses, m)"""
    volume: np.ndarray
    """[m³], (poses, m)"""
    rest_volume: np.ndarray
    """[m³], (m,)"""
    residual: np.ndarray
    """[N], (poses,)"""
    converged: np.ndarray
    """(poses,)"""
    depth: np.ndarray
    """of the deepest node inside obstacles [m], (poses,)"""
    angle: np.ndarray | None
    """of the axis over the horizontal [degrees], (poses,)"""
    target: np.ndarray
    """[m], (targets, effectors, dimension)"""
    effector: np.ndarray
    """[m], (targets, effectors, dimension)"""
    distance: np.ndarray
    """[m], (targets, effectors)"""
    iterations: np.ndarray
    """(targets,)"""
    arrived: np.ndarray
    """(targets,)"""
    reached: np.ndarray
    """(targets,)"""
    seconds: float
    """that the search took, after compilation"""
    model: Any


def problem_of(spec: Reach, body: Body) -> Problem:
    """The arrays; in the precision that is open."""
    dtype = jnp.dtype(spec.precision)
    model = assemble_body(body, dtype=dtype, anchored=spec.anchored())
    bodies = jax.tree.map(lambda value: value.astype(dtype), tuple(one.build() for one in spec.obstacles))
    environment = Environment(gravity=jnp.asarray(spec.gravity, dtype), bodies=bodies)
    shift = jnp.asarray(spec.place or (0.0,) * body.dimension, dtype)
    start = jnp.broadcast_to(model.rest_position + shift, (*model.node_mass.shape, body.dimension))
    points = [one.at for one in spec.effectors]
    weights = [one.weight for one in spec.effectors]
    size = max(body.cells.shape) * body.voxel_side
    return Problem(
        given=resting(model, environment),
        start=start,
        effectors=effectors_of(body, model, points, weights, dtype),
        axis=effectors_of(body, model, list(spec.axis or ()), [1.0] * len(spec.axis or ()), dtype),
        bounds=bounds_of(model),
        size=jnp.asarray(size, dtype),
    )


def effectors_of(body: Body, model: Any, points: list, weights: list[float], dtype: Any) -> Effectors:
    """Points of the undeformed body between the corners of the voxels they are in."""
    corners, nodes = 2**body.dimension, [size + 1 for size in body.cells.shape]
    layer = np.asarray(model.layer).argmax(0)
    node, share = np.zeros((len(points), corners), int), np.zeros((len(points), corners))
    for number, point in enumerate(points):
        found = voxel_at(body, point)
        assert found is not None
        cell, inside = found
        for corner, steps in enumerate(corner_steps(body.dimension)):
            place = tuple(c + s for c, s in zip(cell, steps, strict=True))
            node[number, corner] = layer[(corner, *cell)] * np.prod(nodes) + np.ravel_multi_index(place, nodes)
            share[number, corner] = np.prod([i if s else 1 - i for i, s in zip(inside[::-1], steps, strict=True)])
    amid = np.asarray(model.chambers.follows).reshape(-1)[node] > 0
    lost = [point for point, row in zip(points, np.any(amid & (share > 1e-6), axis=1).tolist(), strict=True) if row]
    if lost:
        raise UserError(f"{list(lost[0])} is amid the fluid, where nothing has a place: give a point of a wall")
    return Effectors(jnp.asarray(node), jnp.asarray(share, dtype), jnp.asarray(weights, dtype))


@jax.jit
def _pose(problem: Problem, start: Array, drive: Array) -> Pose:
    return pose_at(problem.given, start, drive, size=problem.size)


@jax.jit
def _each(problem: Problem, targets: Array, restarts: Pose) -> Reached:
    """The best of all trials for every target."""

    def one(target: Array) -> Reached:
        def from_start(start: Pose) -> Reached:
            return reach(problem.given, problem.effectors, target, problem.bounds, start, size=problem.size)

        found = _mapped(from_start, restarts)
        cost = (problem.effectors.weight * found.distance**2).sum(-1)
        best = jnp.argmin(jnp.where(found.pose.converged, cost, jnp.inf))
        return jax.tree.map(lambda leaf: leaf[best], found)

    return _mapped(one, targets)


def _mapped(function: Any, values: Any) -> Any:
    """All at once on an accelerator, one after the other on a processor, where each then takes only its own time."""
    return jax.lax.map(function, values) if jax.default_backend() == "cpu" else jax.vmap(function)(values)


@jax.jit
def _track(problem: Problem, targets: Array, start: Pose, change: Array, change_of_others: Array) -> Reached:
    return track(
        problem.given,
        problem.effectors,
        targets,
        problem.bounds,
        start,
        change=change,
        change_of_others=change_of_others,
        size=problem.size,
    )


def solve(spec: Reach, name: str, body: Body) -> VariantResult:
    """Everything that was asked of one variant."""
    problem = problem_of(spec, body)
    model: Any = problem.given.model
    bounds = problem.bounds
    symbols = _symbols(body, model)
    rest = jnp.where(model.chambers.numbers.by_volume > 0, model.chambers.rest_volume, 0)
    first = _pose(problem, problem.start, jnp.clip(rest, bounds.low, bounds.high))
    given = [_given(problem, first, symbols, drives) for drives in spec.poses.values()]
    targets = jnp.asarray(spec.targets() if spec.effectors else np.zeros((0, 0, body.dimension)), problem.size.dtype)
    found, seconds = None, 0.0
    if len(targets):
        search = (
            partial(_track, problem, targets, first, *_changes(spec, model))
            if spec.moves
            else partial(_each, problem, targets, _starts(spec, problem, first))
        )
        jax.block_until_ready(search())
        began = time.perf_counter()
        found = jax.block_until_ready(search())
        seconds = time.perf_counter() - began
    poses = jax.tree.map(lambda *leaves: np.stack(leaves), *given) if given else None
    if found is not None:
        of_targets = jax.tree.map(np.asarray, found.pose)
        poses = of_targets if poses is None else jax.tree.map(lambda a, b: np.concatenate([a, b]), poses, of_targets)
    assert poses is not None
    return _found(spec, name, body, problem, symbols, poses, targets, found, seconds)


def _found(
    spec: Reach,
    name: str,
    body: Body,
    problem: Problem,
    symbols: tuple[str, ...],
    poses: Pose,
    targets: Array,
    found: Reached | None,
    seconds: float,
) -> VariantResult:
    model: Any = problem.given.model
    none = len(targets)

    def seen(position: Array, drive: Array) -> tuple[Array, ...]:
        return (
            _complete(model, position),
            chamber_pressures(model, position, drive),
            chamber_volumes(model, position),
            depth(problem.given, position),
            problem.axis.at(position),
        )

    position, pressure, volume, deep, axis = map(np.asarray, jax.jit(jax.vmap(seen))(poses.position, poses.drive))
    shape = (none, len(spec.effectors))
    return VariantResult(
        name=name,
        body=body,
        symbols=symbols,
        by_volume=np.asarray(model.chambers.numbers.by_volume) > 0,
        size=float(problem.size),
        names=tuple(spec.poses),
        position=position,
        drive=np.asarray(poses.drive),
        pressure=pressure,
        volume=volume,
        rest_volume=np.asarray(model.chambers.rest_volume),
        residual=np.asarray(poses.residual),
        converged=np.asarray(poses.converged),
        depth=deep,
        angle=_angle(axis) if spec.axis else None,
        target=np.asarray(targets),
        effector=np.zeros((*shape, body.dimension)) if found is None else np.asarray(found.effector),
        distance=np.zeros(shape) if found is None else np.asarray(found.distance),
        iterations=np.zeros(none, int) if found is None else np.asarray(found.iterations),
        arrived=np.zeros(none, bool) if found is None else np.asarray(found.arrived),
        reached=np.zeros(none, bool) if found is None else np.asarray(found.reached),
        seconds=seconds,
        model=model,
    )


def _symbols(body: Body, model: Any) -> tuple[str, ...]:
    names, cells = list(body.materials), body.cells
    member = np.asarray(model.chambers.member) > 0
    return tuple(names[cells[one].flat[0]] if one.any() else "" for one in member)


def _given(problem: Problem, first: Pose, symbols: tuple[str, ...], drives: dict[str, float]) -> Pose:
    chambers = problem.given.model.chambers
    assert chambers is not None
    value = jnp.asarray([drives.get(symbol, 0.0) for symbol in symbols], problem.size.dtype)
    drive = jnp.where(chambers.numbers.by_volume > 0, chambers.rest_volume * (1 + value), value)
    return _pose(problem, first.position, drive)


def _starts(spec: Reach, problem: Problem, first: Pose) -> Pose:
    """Poses under no drive and under drives spread over the bounds; those that are no equilibrium are the first."""
    low, high = problem.bounds.low, problem.bounds.high
    shares = np.random.default_rng(0).uniform(size=(spec.restarts - 1, len(low)))
    poses = [first]
    for share in shares:
        pose = _pose(problem, first.position, low + jnp.asarray(share, low.dtype) * (high - low))
        poses.append(pose if bool(pose.converged) else first)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *poses)


def _changes(spec: Reach, model: Any) -> tuple[Array, Array]:
    """Of drives and of what is not driven, from one target to the next."""
    volume = model.chambers.numbers.by_volume > 0
    rest = jnp.maximum(model.chambers.rest_volume, jnp.finfo(model.mass.dtype).tiny)
    step = 1 / spec.frequency
    pressure = NO_LIMIT if spec.rates.pressure is None else spec.rates.pressure * step
    content = NO_LIMIT if spec.rates.volume is None else spec.rates.volume * step
    return jnp.where(volume, content, pressure), jnp.where(volume, pressure, content / rest)


def _complete(model: Any, position: Array) -> Array:
    """With nodes amid the fluid where they belong."""
    parts = tuple(jnp.moveaxis(position, -1, 0))
    moving = followed(model, NodeState(parts, tuple(jnp.zeros_like(part) for part in parts)))
    return jnp.stack(moving.position, -1)


def _angle(axis: np.ndarray) -> np.ndarray:
    """Over the horizontal [degrees]."""
    along = axis[:, 1] - axis[:, 0]
    return np.degrees(np.arctan2(along[:, -1], np.linalg.norm(along[:, :-1], axis=1)))
