"""Point masses behind the contract of engines (vsr.physics.contract)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import Implementation
from vsr.compute.vector import rotation_by, turn
from vsr.environment import Environment
from vsr.physics.contract import (
    X_AND_UP,
    ChambersSeen,
    Energies,
    Engine,
    Hull,
    KernelLayout,
    PointMotion,
    RigidParts,
    SpringEnds,
    Vertices,
    VoxelMotion,
)
from vsr.physics.failure import Failure, empty_or
from vsr.physics.points import geometry
from vsr.physics.points.advance import advance_through, beyond_kernel
from vsr.physics.points.assembly import PointMaterials, assemble_points, layers_needed, most_layers
from vsr.physics.points.energy import energies
from vsr.physics.points.fluid import chambers_seen
from vsr.physics.points.geometry import failure
from vsr.physics.points.model import DEFAULT_INTEGRATOR, PointModel, PointState
from vsr.physics.points.springs import broken_springs
from vsr.physics.points.stability import longest_substep
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry
from vsr.robot.material import Material


class PointKernel(KernelLayout):
    """Nodes as the kernel of point masses has them: as they are."""

    def carriers(self, model: PointModel, state: PointState) -> PointMotion:
        return PointMotion(*(part.reshape(-1, model.dimension) for part in (state.position, state.velocity)))

    def with_carriers(self, state: PointState, *moving: Array) -> PointState:
        position, velocity = (part.reshape(state.position.shape) for part in moving)
        return replace(state, position=position, velocity=velocity)


class PointEngine(Engine):
    """Point masses in 2-D and 3-D, shared by voxels with a common face."""

    kernel = PointKernel()
    default_integrator = DEFAULT_INTEGRATOR
    scales = ("frequency", "damping", "friction", "mass")

    def advance(
        self,
        model: PointModel,
        environment: Environment,
        state: PointState,
        controls: Array,
        *,
        substep: float,
        count: int,
        implementation: Implementation = "auto",
    ) -> tuple[PointState, Telemetry]:
        return advance_through(
            model, environment, state, controls, substep=substep, count=count, implementation=implementation
        )

    def layers_needed(self, present: np.ndarray) -> int:
        return layers_needed(present)

    def rest_state(self, model: PointModel) -> PointState:
        return geometry.rest_state(model)

    def failure(self, model: PointModel, state: PointState, fastest: Array | float = EXPLOSION_SPEED) -> Array:
        return failure(model, state, fastest)

    def energies(
        self, model: PointModel, environment: Environment, state: PointState, control: Array, substep: float
    ) -> Energies | None:
        return energies(model, environment, state, control, substep)

    def most_layers(self, dimension: int) -> int:
        return most_layers(dimension)

    def assemble(
        self,
        cells: Array,
        table: PointMaterials,
        voxel_side: Array | float,
        *,
        layers: int,
        integrator: str | None = None,
        anchored: Array | np.ndarray | None = None,
    ) -> PointModel:
        return assemble_points(cells, table, voxel_side, layers=layers, integrator=integrator, anchored=anchored)

    def longest_substep(
        self, materials: Sequence[Material], voxel_side: float, dimension: int, integrator: str | None
    ) -> float:
        return longest_substep(materials, voxel_side, dimension, integrator)

    def voxel_motion(self, model: PointModel, environment: Environment, state: PointState) -> VoxelMotion:
        return geometry.voxel_motion(model, environment, state)

    def chambers(self, model: PointModel, state: PointState, control: Array) -> ChambersSeen | None:
        return chambers_seen(model, state, control)

    def center(self, model: PointModel, state: PointState) -> Array:
        return geometry.center(model, state)

    def bounding_box(self, model: PointModel, state: PointState) -> tuple[Array, Array]:
        return geometry.bounding_box(model, state)

    def check(
        self, materials: Sequence[Material], integrator: str | None, implementation: Implementation
    ) -> dict[str, str]:
        breaks = any(material.yield_force is not None for material in materials)
        holds_fluid = any(material.fluid is not None for material in materials)
        if implementation == "differentiable" and (breaks or holds_fluid):
            reason = "springs break at once (yield_force)" if breaks else "a material is a fluid"
            return {"implementation": f"'differentiable' has no gradients for this body: {reason}; use 'auto' or 'xla'"}
        obstacle = beyond_kernel(integrator or DEFAULT_INTEGRATOR, breaks)
        if implementation != "fused" or obstacle is None:
            return {}
        return {"implementation": f"'fused' cannot move this body: {obstacle}; use 'auto' or 'xla'"}

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

    def hull(self, model: PointModel, state: PointState) -> Hull:
        return geometry.hull(model, state)

    def push_hull(self, model: PointModel, state: PointState, impulses: Array) -> PointState:
        return replace(state, velocity=state.velocity + geometry.pushed_at_hull(model, impulses))

    def vertices(self, model: PointModel, state: PointState) -> Vertices:
        return geometry.vertices(model, state)

    def vertex_indices(self, model: PointModel) -> Array:
        return geometry.vertex_indices(model)

    def push_vertices(self, model: PointModel, state: PointState, impulses: Array, shifts: Array) -> PointState:
        ready = model.inverse_mass[..., None]
        return replace(state, position=state.position + ready * shifts, velocity=state.velocity + ready * impulses)

    def flaw(self, model: PointModel) -> Array:
        leaks = jnp.zeros((), bool) if model.chambers is None else model.chambers.leaks
        return empty_or(model.present, jnp.where(leaks, int(Failure.leaking), 0))

    def momentum(self, model: PointModel, state: PointState) -> Array:
        return geometry.momentum(model, state)

    def total_mass(self, model: PointModel) -> Array:
        return model.node_mass.sum()

    def least_damping(self, model: PointModel) -> Array:
        there = (model.stiffness > 0) & (model.present > 0)
        critical = jnp.sqrt(2 * jnp.where(there, model.stiffness, 1) * model.mass)
        return jnp.where(there, model.damping / critical, jnp.inf).min()

    def broken_springs(self, model: PointModel, state: PointState) -> Array | None:
        return None if state.intact is None else broken_springs(model, state).sum()

    def spring_ends(self, dimension: int) -> list[SpringEnds]:
        return geometry.spring_ends(dimension)

    def rigid_parts(self, model: PointModel) -> RigidParts:
        present = np.asarray(model.present) > 0
        return (
            super()
            .rigid_parts(model)
            ._replace(
                springs=np.asarray(model.stiffness)[:, present].T > 0,
                lacking=None if model.springs is None else np.asarray(model.springs)[:, present].T == 0,
            )
        )

    def intact_springs(self, states: PointState) -> np.ndarray | None:
        return None if states.intact is None else np.asarray(states.intact)
