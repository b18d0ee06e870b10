"""Point masses behind the contract of engines (vsr.physics.contract)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.body.corners import corner_steps
from vsr.body.material import Material
from vsr.compute.implementation import Implementation
from vsr.compute.rotation import rotation_by, turn
from vsr.environment import Environment
from vsr.physics.contract import X_AND_UP, Hull, RigidParts, SurfacePoints, Vertices
from vsr.physics.failure import Failure, empty_or
from vsr.physics.points import geometry
from vsr.physics.points.advance import advance_through, beyond_kernel
from vsr.physics.points.assembly import PointMaterials, assemble_points, layers_needed, most_layers
from vsr.physics.points.breaking import broken_springs
from vsr.physics.points.energy import energies
from vsr.physics.points.fluid import chambers_seen
from vsr.physics.points.gather import corners_of_nodes, nodes_of_corners
from vsr.physics.points.model import USUAL_INTEGRATOR, PointModel, PointState
from vsr.physics.points.stability import longest_substep
from vsr.physics.points.telemetry import failure


class PointEngine:
    """Point masses in 2-D and 3-D, shared by voxels with a common face."""

    usual_integrator = USUAL_INTEGRATOR
    fixed_substep: float | None = None
    scales: tuple[str, ...] = ("frequency", "damping", "friction", "mass")

    advance = staticmethod(advance_through)
    layers_needed = staticmethod(layers_needed)
    rest_state = staticmethod(geometry.rest_state)
    failure = staticmethod(failure)
    energies = staticmethod(energies)
    most_layers = staticmethod(most_layers)
    assemble = staticmethod(assemble_points)
    longest_substep = staticmethod(longest_substep)
    voxel_motion = staticmethod(geometry.voxel_motion)
    chambers = staticmethod(chambers_seen)
    center = staticmethod(geometry.center)
    bounding_box = staticmethod(geometry.bounding_box)

    def check(
        self, materials: Sequence[Material], integrator: str | None, implementation: Implementation
    ) -> dict[str, str]:
        breaks = any(material.yield_force is not None for material in materials)
        holds_fluid = any(material.fluid is not None for material in materials)
        if implementation == "differentiable" and (breaks or holds_fluid):
            reason = "springs break at once (yield_force)" if breaks else "a material is a fluid"
            return {"implementation": f"'differentiable' has no slopes for this body: {reason}; use 'auto' or 'xla'"}
        obstacle = beyond_kernel(
            integrator or USUAL_INTEGRATOR,
            breaks,
            holds_fluid,
            any(material.actuation in ("horizontal", "vertical") for material in materials),
        )
        if implementation != "fused" or obstacle is None:
            return {}
        return {"implementation": f"'fused' cannot move this body: {obstacle}; use 'auto' or 'xla'"}

    def accurate_substep(self, material: Material) -> float:
        return math.inf

    def table(
        self,
        materials: Sequence[Material],
        voxel_side: float,
        dimension: int,
        dtype: jnp.dtype | type,
        cells: np.ndarray | None = None,
    ) -> PointMaterials:
        return PointMaterials.of(materials, voxel_side, dimension, dtype, cells)

    def scaled(
        self,
        model: PointModel,
        frequency: Array | float,
        damping: Array | float,
        friction: Array | float,
        mass: Array | float | None = None,
    ) -> PointModel:
        model = replace(
            model,
            stiffness=frequency**2 * model.stiffness,
            damping=frequency * damping * model.damping,
            friction=friction * model.friction,
        )
        if mass is None:
            return model
        fluid = 0 if model.chambers is None else model.chambers.fluid_mass
        heavier = mass * (model.node_mass - fluid) + fluid
        free = model.inverse_mass > 0
        return replace(
            model,
            mass=mass * model.mass,
            stiffness=mass * model.stiffness,
            damping=mass * model.damping,
            node_mass=heavier,
            inverse_mass=jnp.where(free, 1 / jnp.where(free, heavier, 1), 0),
        )

    def turned(
        self, state: PointState, pivot: Array, angle: Array | float, plane: tuple[int, int] = X_AND_UP
    ) -> PointState:
        rotation, axes = rotation_by(angle, state.position.dtype), jnp.array(plane)

        def turned(vector: Array) -> Array:
            return vector.at[..., axes].set(turn(rotation, vector[..., axes]))

        return replace(state, position=pivot + turned(state.position - pivot), velocity=turned(state.velocity))

    def prepared(
        self, model: PointModel, environment: Environment, substep: float, implementation: Implementation = "auto"
    ) -> PointModel:
        return model

    def packed(self, model: PointModel, state: PointState, implementation: Implementation = "auto") -> PointState:
        return state

    def unpacked(self, state: PointState) -> PointState:
        return state

    def takes_many_controls(self, implementation: Implementation, dtype: jnp.dtype) -> bool:
        return False

    def surface_points(self, model: PointModel, state: PointState) -> SurfacePoints:
        return SurfacePoints(
            position=state.position,
            velocity=state.velocity,
            inverse_mass=model.inverse_mass,
            lever=None,
            inverse_inertia=None,
            exists=model.node_mass > 0,
            friction=model.friction,
            restitution=model.restitution,
        )

    def push(self, model: PointModel, state: PointState, impulses: Array) -> PointState:
        return replace(state, velocity=state.velocity + model.inverse_mass[..., None] * impulses)

    def hull(self, model: PointModel, state: PointState) -> Hull:
        dimension, layer = model.dimension, model.layer
        return Hull(
            position=corners_of_nodes(state.position, layer[..., None], dimension),
            velocity=corners_of_nodes(state.velocity, layer[..., None], dimension),
            readiness=corners_of_nodes(model.inverse_mass, layer, dimension),
            friction=corners_of_nodes(model.friction, layer, dimension),
        )

    def push_hull(self, model: PointModel, state: PointState, impulses: Array) -> PointState:
        pushed = nodes_of_corners(impulses, model.layer[..., None], model.dimension)
        return replace(state, velocity=state.velocity + model.inverse_mass[..., None] * pushed)

    def vertices(self, model: PointModel, state: PointState) -> Vertices:
        return Vertices(*self.surface_points(model, state))

    def vertex_places(self, model: PointModel) -> Array:
        sizes = model.node_mass.shape[1:]
        number = np.arange(math.prod(sizes), dtype=np.int32).reshape(sizes)
        windows = (
            tuple(slice(step, step + size - 1) for step, size in zip(steps, sizes, strict=True))
            for steps in corner_steps(model.dimension)
        )
        here = jnp.asarray(np.stack([number[window] for window in windows]))
        return here + math.prod(sizes) * model.layer.argmax(0).astype(jnp.int32)

    def push_vertices(self, model: PointModel, state: PointState, impulses: Array, shifts: Array) -> PointState:
        ready = model.inverse_mass[..., None]
        return replace(state, position=state.position + ready * shifts, velocity=state.velocity + ready * impulses)

    def carriers(self, model: PointModel, state: PointState) -> None:
        return None

    def with_carriers(self, state: PointState, table: Array) -> PointState:
        raise NotImplementedError("points carry themselves")

    def flaw(self, model: PointModel) -> Array:
        leaks = jnp.zeros((), bool) if model.chambers is None else model.chambers.leaks
        return empty_or(model.present, jnp.where(leaks, int(Failure.leaking), 0))

    def momentum(self, model: PointModel, state: PointState) -> Array:
        return (model.node_mass[..., None] * state.velocity).sum(tuple(range(1 + model.dimension)))

    def total_mass(self, model: PointModel) -> Array:
        return model.node_mass.sum()

    def least_damping(self, model: PointModel) -> Array:
        there = (model.stiffness > 0) & (model.present > 0)
        critical = jnp.sqrt(2 * jnp.where(there, model.stiffness, 1) * model.mass)
        return jnp.where(there, model.damping / critical, jnp.inf).min()

    def broken_springs(self, model: PointModel, state: PointState) -> Array | None:
        return None if state.intact is None else broken_springs(model, state).sum()

    def rigid_parts(self, model: PointModel) -> RigidParts:
        present = np.asarray(model.present) > 0
        layer = np.asarray(model.layer)[:, :, present].argmax(0)
        nodes = tuple(size + 1 for size in present.shape)
        cells = np.nonzero(present)
        slots = [
            layer[corner] * np.prod(nodes)
            + np.ravel_multi_index([cell + step for cell, step in zip(cells, steps, strict=True)], nodes)
            for corner, steps in enumerate(corner_steps(present.ndim))
        ]
        slot = np.stack(slots, 1).astype(int)
        return RigidParts(
            slot=slot,
            offset=np.zeros((*slot.shape, present.ndim)),
            half_side=np.zeros(len(slot)),
            springs=np.asarray(model.stiffness)[:, present].T > 0,
            lacking=None if model.springs is None else np.asarray(model.springs)[:, present].T == 0,
        )

    def angles(self, states: PointState) -> None:
        return None

    def intact_springs(self, states: PointState) -> np.ndarray | None:
        return None if states.intact is None else np.asarray(states.intact)
