"""EvoGym's point masses behind the contract of engines (vsr.physics.contract)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import KERNELS, Implementation, chosen
from vsr.compute.vector import rotation_by, turn
from vsr.environment import Environment
from vsr.environment.model import as_exact
from vsr.physics.contract import (
    X_AND_UP,
    Engine,
    Hull,
    KernelLayout,
    OwnBody,
    RigidParts,
    SpringEnds,
    Vertices,
    VoxelMotion,
)
from vsr.physics.evogym.assembly import EvogymMaterials, assemble_evogym
from vsr.physics.evogym.law import SIDE, SUBSTEP
from vsr.physics.evogym.model import EvogymModel, EvogymObject, EvogymState, Moving, code_at
from vsr.physics.evogym.step import batched_advance
from vsr.physics.points import geometry
from vsr.physics.points.assembly import layers_needed, most_layers
from vsr.physics.points.geometry import failure, telemetry
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry, through_intervals
from vsr.robot.material import Material
from vsr.terrain.blocks import Cells

INTEGRATOR = "rk4"


class EvogymLayout(KernelLayout):
    """Tables of bodies, which are made once."""

    def prepared(
        self,
        model: EvogymModel,
        environment: Environment,
        substep: float,
        implementation: Implementation = "auto",
    ) -> EvogymModel:
        if model.ground is None or chosen(implementation, model.present.dtype) not in KERNELS:
            return model
        from vsr.physics.evogym.kernel import prepared

        return prepared(model, as_exact(environment, model.present.dtype), rest_state(model))

    def scan(self, model: EvogymModel, implementation: Implementation) -> Callable[..., Any]:
        name = "xla" if model.ground is None else chosen(implementation, model.present.dtype)
        if name not in KERNELS:
            return jax.lax.scan
        from vsr.compute.gpu.turns import scan

        return partial(scan, interpret=name == "interpreted")


def rest_state(model: EvogymModel) -> EvogymState:
    """See vsr.physics.contract.Engine.rest_state."""
    position = jnp.broadcast_to(model.rest_position, (*model.node_mass.shape, 2))
    still = jnp.zeros_like(position)
    return EvogymState(position, still, still, jnp.zeros((), bool), tuple(map(_at_start, model.objects)))


class EvogymEngine(Engine):
    """Point masses as EvoGym has them, in 2-D. What a body looks like is asked as of our own points."""

    default_integrator = INTEGRATOR
    fixed_substep = SUBSTEP
    own_contact = True
    scales = ("frequency",)
    kernel = EvogymLayout()

    def assemble(
        self,
        cells: Array,
        table: EvogymMaterials,
        voxel_side: Array | float,
        *,
        layers: int,
        integrator: str | None = None,
        anchored: Array | np.ndarray | None = None,
    ) -> EvogymModel:
        return assemble_evogym(cells, table, voxel_side, layers=layers, integrator=integrator, anchored=anchored)

    def most_layers(self, dimension: int) -> int:
        return most_layers(dimension)

    def layers_needed(self, present: np.ndarray) -> int:
        return layers_needed(present)

    def center(self, model: EvogymModel, state: EvogymState) -> Array:
        return geometry.center(model, state)

    def bounding_box(self, model: EvogymModel, state: EvogymState) -> tuple[Array, Array]:
        return geometry.bounding_box(model, state)

    def momentum(self, model: EvogymModel, state: EvogymState) -> Array:
        return geometry.momentum(model, state)

    def failure(self, model: EvogymModel, state: EvogymState, fastest: Array | float = EXPLOSION_SPEED) -> Array:
        return failure(model, state, fastest)

    def vertices(self, model: EvogymModel, state: EvogymState) -> Vertices:
        return geometry.vertices(model, state)

    def vertex_indices(self, model: EvogymModel) -> Array:
        return geometry.vertex_indices(model)

    def hull(self, model: EvogymModel, state: EvogymState) -> Hull:
        return geometry.hull(model, state)

    def spring_ends(self, dimension: int) -> list[SpringEnds]:
        return geometry.spring_ends(dimension)

    def check(
        self, materials: Sequence[Material], integrator: str | None, implementation: Implementation
    ) -> dict[str, str]:
        refused = {}
        if integrator not in (None, INTEGRATOR):
            refused["integrator"] = f"evogym is integrated with {INTEGRATOR}: leave it out"
        if implementation == "differentiable":
            refused["implementation"] = "'differentiable' knows no evogym: use 'auto', 'fused' or 'xla'"
        return refused

    def longest_substep(
        self, materials: Sequence[Material], voxel_side: float, dimension: int, integrator: str | None
    ) -> float:
        return SUBSTEP

    def table(
        self,
        materials: Sequence[Material],
        voxel_side: float,
        dimension: int,
        dtype: jnp.dtype | type,
        cells: np.ndarray | None = None,
    ) -> EvogymMaterials:
        return EvogymMaterials.of(materials, dtype)

    def scaled(
        self,
        model: EvogymModel,
        frequency: Array | float,
        damping: Array | float,
        friction: Array | float,
        mass: Array | float | None = None,
    ) -> EvogymModel:
        """Stiffness only: damping, friction and mass are constants of the law."""
        return replace(model, stiffness=frequency**2 * model.stiffness, tables=None)

    def rest_state(self, model: EvogymModel) -> EvogymState:
        return rest_state(model)

    def turned(
        self, state: EvogymState, pivot: Array, angle: Array | float, plane: tuple[int, int] = X_AND_UP
    ) -> EvogymState:
        rotation = rotation_by(angle, state.position.dtype)
        position = pivot + turn(rotation, state.position - pivot)
        velocity, drift = turn(rotation, state.velocity), turn(rotation, state.drift)
        return replace(state, position=position, velocity=velocity, drift=drift)

    def advance(
        self,
        model: EvogymModel,
        environment: Environment,
        state: EvogymState,
        controls: Array,
        *,
        substep: float,
        count: int,
        implementation: Implementation = "auto",
    ) -> tuple[EvogymState, Telemetry]:
        if implementation == "differentiable":
            raise ValueError("'differentiable' cannot run: evogym has no gradients; use 'auto' or 'xla'")
        line = "the kernel knows ground of cells, and this is a line" if model.ground is None else None
        name = chosen(implementation, model.present.dtype, line)
        environment = as_exact(environment, model.present.dtype)
        if name in KERNELS:
            from vsr.physics.evogym.kernel import advance

            move = partial(advance, substep=substep, count=count, interpret=name == "interpreted")
        else:
            move = batched_advance(substep, count)

        def interval(state: EvogymState, control: Array) -> tuple[EvogymState, Telemetry]:
            state = move(model, environment, state, control)
            return state, telemetry(model, state, substep)

        return through_intervals(interval, state, controls)

    def voxel_motion(self, model: EvogymModel, environment: Environment, state: EvogymState) -> VoxelMotion:
        seen = geometry.voxel_motion(model, environment, state)
        if model.ground is None:
            return seen
        column, row = (jnp.floor(seen.corner[..., axis] / SIDE) for axis in range(2))
        contact = (code_at(model.ground, row, column) > 0).any(0)
        contact = contact.astype(model.present.dtype) * model.present
        return seen._replace(contact=contact, ground=self.own_ground(model))

    def total_mass(self, model: EvogymModel) -> Array:
        return model.node_mass.sum()

    def push_hull(self, model: EvogymModel, state: EvogymState, impulses: Array) -> EvogymState:
        return replace(state, velocity=state.velocity + geometry.pushed_at_hull(model, impulses))

    def push_vertices(self, model: EvogymModel, state: EvogymState, impulses: Array, shifts: Array) -> EvogymState:
        ready = model.inverse_mass[..., None]
        return replace(state, position=state.position + ready * shifts, velocity=state.velocity + ready * impulses)

    def own_bodies(self, model: EvogymModel, state: EvogymState) -> tuple[OwnBody, ...]:
        return tuple(
            OwnBody(one.name, _moving(one), EvogymState(now.position, now.velocity, now.drift, state.unstable))
            for one, now in zip(model.objects, state.objects, strict=True)
        )

    def own_ground(self, model: EvogymModel) -> Cells | None:
        if model.ground is None:
            return None
        solid = model.ground.code > 0
        for one in model.objects:
            fixed = [(spot.piece_row, spot.piece_column) for spot in one.spots if spot.fixed]
            solid = solid.at[tuple(np.array(fixed, int).reshape(-1, 2).T)].set(True)
        return Cells(solid, jnp.asarray(SIDE, model.present.dtype))

    def with_own_bodies(self, state: EvogymState, bodies: tuple[EvogymState, ...]) -> EvogymState:
        return replace(state, objects=tuple(Moving(one.position, one.velocity, one.drift) for one in bodies))

    def rigid_parts(self, model: EvogymModel) -> RigidParts:
        # Drawn as voxels with all their springs, whoever counts a shared edge.
        parts = super().rigid_parts(model)
        return parts._replace(springs=np.ones((len(parts.slot), 2), bool))


def _moving(one: EvogymObject) -> EvogymModel:
    """The body without its fixed voxels of ground."""
    fixed = np.zeros(one.body.present.shape[:2], bool)
    for spot in one.spots:
        fixed[spot.row, spot.column] = spot.fixed
    return replace(one.body, present=one.body.present * ~fixed) if fixed.any() else one.body


def _at_start(one: EvogymObject) -> Moving:
    """An object at rest where it starts."""
    position = one.start + jnp.broadcast_to(one.body.rest_position, (*one.body.node_mass.shape, 2))
    still = jnp.zeros_like(position)
    return Moving(position, still, still)
