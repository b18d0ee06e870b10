"""Square masses behind the contract of engines (vsr.physics.contract)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import KERNELS, Implementation, chosen
from vsr.compute.vector import quarter_turn, rotation_by, turn
from vsr.environment import Environment
from vsr.physics.contract import (
    X_AND_UP,
    Carriers,
    Energies,
    Engine,
    Hull,
    KernelLayout,
    RigidParts,
    SpringEnds,
    Vertices,
    VoxelMotion,
)
from vsr.physics.squares import geometry
from vsr.physics.squares.advance import advance_through, prepared
from vsr.physics.squares.assembly import MOST_LAYERS, SquareMaterials, assemble, layers_needed
from vsr.physics.squares.contact import ground_line, heights_over_ground
from vsr.physics.squares.energy import energies
from vsr.physics.squares.geometry import clusters_of_masses, failure, masses_of_clusters
from vsr.physics.squares.limits import substep_of_limits
from vsr.physics.squares.model import CORNER_CELLS, SquareModel, SquareState, drawn_springs
from vsr.physics.squares.stability import longest_substep
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry
from vsr.robot.corners import RING, corner_steps
from vsr.robot.material import Material

INTEGRATOR = "semi_implicit_euler"


class SquareKernel(KernelLayout):
    """Clusters as the kernel of square masses has them."""

    def prepared(
        self, model: SquareModel, environment: Environment, substep: float, implementation: Implementation = "auto"
    ) -> SquareModel:
        return prepared(model, environment, substep, implementation)

    def packed(self, model: SquareModel, state: SquareState, implementation: Implementation = "auto") -> Any:
        if chosen(implementation, model.mass.dtype) not in KERNELS:
            return state
        from vsr.physics.squares.gpu.launch import packed

        return packed(state)

    def unpacked(self, state: Any) -> SquareState:
        return state if isinstance(state, SquareState) else state.unpacked()

    def takes_many_controls(self, implementation: Implementation, dtype: jnp.dtype) -> bool:
        return chosen(implementation, dtype) in KERNELS

    def carriers(self, model: SquareModel, state: Any) -> Carriers | None:
        if isinstance(state, SquareState):
            return None
        return Carriers(state.table, jnp.moveaxis(geometry.vertex_offsets(model), -1, 0).reshape(2, -1))

    def with_carriers(self, state: Any, *moving: Array) -> Any:
        (table,) = moving
        return replace(state, table=table)


class SquareEngine(Engine):
    """Rigid squares in 2-D, joined into clusters where voxels share a side."""

    default_integrator = INTEGRATOR
    scales = ("frequency", "damping", "friction", "mass")
    kernel = SquareKernel()

    def advance(
        self,
        model: SquareModel,
        environment: Environment,
        state: SquareState,
        controls: Array,
        *,
        substep: float,
        count: int,
        implementation: Implementation = "auto",
    ) -> tuple[SquareState, Telemetry]:
        return advance_through(
            model, environment, state, controls, substep=substep, count=count, implementation=implementation
        )

    def layers_needed(self, present: np.ndarray) -> int:
        return layers_needed(present)

    def rest_state(self, model: SquareModel) -> SquareState:
        return geometry.rest_state(model)

    def failure(self, model: SquareModel, state: SquareState, fastest: Array | float = EXPLOSION_SPEED) -> Array:
        return failure(model, state, fastest)

    def energies(
        self, model: SquareModel, environment: Environment, state: SquareState, control: Array, substep: float
    ) -> Energies | None:
        return energies(model, environment, state, control, substep)

    def check(
        self, materials: Sequence[Material], integrator: str | None, implementation: Implementation
    ) -> dict[str, str]:
        if integrator in (None, INTEGRATOR):
            return {}
        return {"integrator": f"'{integrator}' needs point masses; square masses are moved by {INTEGRATOR}"}

    def longest_substep(
        self, materials: Sequence[Material], voxel_side: float, dimension: int, integrator: str | None
    ) -> float:
        return min(map(longest_substep, materials))

    def accurate_substep(self, material: Material) -> float:
        return substep_of_limits(material)

    def most_layers(self, dimension: int) -> int:
        return MOST_LAYERS

    def table(
        self,
        materials: Sequence[Material],
        voxel_side: float,
        dimension: int,
        dtype: jnp.dtype | type,
        cells: np.ndarray | None = None,
    ) -> SquareMaterials:
        return SquareMaterials.of(materials, dtype)

    def assemble(
        self,
        cells: Array,
        table: SquareMaterials,
        voxel_side: Array | float,
        *,
        layers: int,
        integrator: str | None = None,
        anchored: Array | np.ndarray | None = None,
    ) -> SquareModel:
        round_voxels = None if anchored is None else anchored[np.array(RING)]
        return assemble(cells, table, voxel_side, layers=layers, anchored=round_voxels)

    def scaled(
        self,
        model: SquareModel,
        frequency: Array | float,
        damping: Array | float,
        friction: Array | float,
        mass: Array | float | None = None,
    ) -> SquareModel:
        model = replace(
            model,
            angular_frequency=frequency * model.angular_frequency,
            damping_ratio=damping * model.damping_ratio,
            contact_friction=friction * model.contact_friction,
            fused=None,
        )
        if mass is None:
            return model
        return replace(
            model,
            mass=mass * model.mass,
            inertia=mass * model.inertia,
            cluster_mass=mass * model.cluster_mass,
            cluster_inertia=mass * model.cluster_inertia,
            inverse_mass=model.inverse_mass / mass,
            inverse_inertia=model.inverse_inertia / mass,
        )

    def turned(
        self, state: SquareState, pivot: Array, angle: Array | float, plane: tuple[int, int] = X_AND_UP
    ) -> SquareState:
        if plane != X_AND_UP:
            raise ValueError(f"squares only turn in their plane, {X_AND_UP}; {plane} given")
        rotation = rotation_by(angle, state.position.dtype)
        return SquareState(
            position=pivot + turn(rotation, state.position - pivot),
            rotation=turn(rotation, state.rotation),
            velocity=turn(rotation, state.velocity),
            spin=state.spin,
        )

    def hull(self, model: SquareModel, state: SquareState) -> Hull:
        lever, second = geometry.corner_levers(model, state), model.in_second_layer
        spin = masses_of_clusters(state.spin, second)[..., None]
        inverse_mass = masses_of_clusters(model.inverse_mass, second)
        inverse_inertia = masses_of_clusters(model.inverse_inertia, second)
        ring = jnp.array(RING)
        return Hull(
            position=(masses_of_clusters(state.position, second[..., None]) + lever)[ring],
            velocity=(masses_of_clusters(state.velocity, second[..., None]) + spin * quarter_turn(lever))[ring],
            inverse_effective_mass=(inverse_mass + inverse_inertia * (lever**2).sum(-1))[ring],
            # Voxels that are welded together share a corner: the rougher one counts.
            friction=masses_of_clusters(model.contact_friction.max(0), second)[ring],
        )

    def push_hull(self, model: SquareModel, state: SquareState, impulses: Array) -> SquareState:
        lever, second, layers = geometry.corner_levers(model, state), model.in_second_layer, state.spin.shape[0]
        impulses = impulses[jnp.array(RING)]
        turning = lever[..., 0] * impulses[..., 1] - lever[..., 1] * impulses[..., 0]
        pushed = clusters_of_masses(impulses, second[..., None], layers)
        turned = clusters_of_masses(turning, second, layers)
        return state.moving(
            state.velocity + model.inverse_mass[..., None] * pushed,
            state.spin + model.inverse_inertia * turned,
        )

    def vertices(self, model: SquareModel, state: SquareState) -> Vertices:
        lever = geometry.vertex_levers(model, state)
        return Vertices(
            position=state.position + lever,
            velocity=state.velocity + state.spin[..., None] * quarter_turn(lever),
            inverse_mass=model.inverse_mass,
            lever=lever,
            inverse_inertia=model.inverse_inertia,
            exists=model.cluster_mass > 0,
            # Voxels that are welded together share a corner: the rougher one counts.
            friction=model.contact_friction.max(0),
            restitution=model.contact_restitution.max(0),
        )

    def vertex_indices(self, model: SquareModel) -> Array:
        layers, rows, columns = model.cluster_mass.shape
        number = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
        here = jnp.asarray(np.stack([number[r : r + rows - 1, c : c + columns - 1] for r, c in corner_steps(2)]))
        if layers == 1:
            return here
        return here + rows * columns * model.in_second_layer[jnp.array(RING)].astype(jnp.int32)

    def push_vertices(self, model: SquareModel, state: SquareState, impulses: Array, shifts: Array) -> SquareState:
        lever = geometry.vertex_levers(model, state)
        ready, readily = model.inverse_mass[..., None], model.inverse_inertia

        def moment(push: Array) -> Array:
            return lever[..., 0] * push[..., 1] - lever[..., 1] * push[..., 0]

        spin = state.spin + readily * moment(impulses)
        half_turn = 0.5 * (readily * moment(shifts))[..., None]
        # The Cayley map, as in vsr.physics.squares.reference.move.
        turned = state.rotation + half_turn * quarter_turn(state.rotation)
        turned = turned + half_turn * quarter_turn(turned)
        turned = turned / (1 + half_turn**2)
        return state.moving(
            state.velocity + ready * impulses,
            spin * (1 + readily * (lever * shifts).sum(-1)),
        ).shifted(state.position + ready * shifts, turned)

    def ground_points(self, model: SquareModel, state: SquareState) -> tuple[Array, Array]:
        place = state.position + turn(state.rotation, model.contact_offset)
        return place, model.contact_active & (model.inverse_mass > 0)

    def momentum(self, model: SquareModel, state: SquareState) -> Array:
        return geometry.momentum(model, state)[0]

    def total_mass(self, model: SquareModel) -> Array:
        return model.cluster_mass.sum()

    def least_damping(self, model: SquareModel) -> Array:
        return jnp.where(model.present > 0, model.damping_ratio, jnp.inf).min()

    def voxel_motion(self, model: SquareModel, environment: Environment, state: SquareState) -> VoxelMotion:
        motion = geometry.mass_motion(model, state)
        contact = jnp.zeros_like(model.present)
        line = ground_line(environment)
        if line is not None:
            corner = geometry.mass_corners(model, motion)
            height = heights_over_ground(line, corner[..., 0], corner[..., 1])
            contact = (height < 0).any((0, 1)).astype(model.present.dtype)
        return VoxelMotion(
            corner=motion.center[jnp.array(RING)],
            velocity=motion.velocity.mean(0),
            size_ratio=geometry.area_ratio(model, motion),
            contact=contact,
            spacing=model.voxel_side - 2 * model.half_side,
            ground=environment.terrain,
        )

    def center(self, model: SquareModel, state: SquareState) -> Array:
        return geometry.center(model, geometry.mass_motion(model, state))

    def bounding_box(self, model: SquareModel, state: SquareState) -> tuple[Array, Array]:
        return geometry.bounding_box(model, geometry.mass_motion(model, state))

    def spring_ends(self, dimension: int) -> list[SpringEnds]:
        return drawn_springs()

    def rigid_parts(self, model: SquareModel) -> RigidParts:
        present = np.asarray(model.present) > 0
        row, column = np.nonzero(present)
        layer = np.asarray(model.in_second_layer)[:, present].astype(int)
        rows, columns = (size + 1 for size in present.shape)
        slots = [
            (layer[corner] * rows + row + CORNER_CELLS[corner][0]) * columns + column + CORNER_CELLS[corner][1]
            for corner in RING
        ]
        return RigidParts(
            slot=np.stack(slots, 1),
            offset=np.moveaxis(np.asarray(model.mass_offset, np.float64)[:, present], 0, 1)[:, list(RING)],
            half_side=np.asarray(model.half_side, np.float64)[present],
            springs=np.asarray(model.groups)[:, present].T > 0,
        )

    def angles(self, states: SquareState) -> np.ndarray:
        return np.arctan2(states.rotation[..., 1], states.rotation[..., 0])
