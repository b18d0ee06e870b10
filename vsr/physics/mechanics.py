"""What rollout, sensors and tasks ask of a body, whichever masses it is made of.

`mechanics_of` gives the answers for square masses (vsr.physics) or point masses (vsr.physics.points), told apart by
the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import jax.numpy as jnp
from jax import Array

from vsr.physics import geometry
from vsr.physics.advance import Implementation, Watch, advance_through, chosen
from vsr.physics.advance.watch import broken
from vsr.physics.contact import heights_over_ground
from vsr.physics.model import Environment, Model, State
from vsr.physics.points import dynamics as point_dynamics
from vsr.physics.points import geometry as point_geometry
from vsr.physics.points.breaking import broken_springs
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.voxels import VoxelMotion

AnyModel = Model | PointModel
AnyState = State | PointState
X_AND_UP = (0, -1)
"""Axes of the plane in which a robot of the plane lives, and one in space tilts."""
BITWISE = (0, 1, 3, 2)
"""Corners of a square, counted round it, in the order of their bits."""


class Mechanics(Protocol):
    """The questions. Models and states are those of one robot; use `vmap` for many."""

    def fuses(self, implementation: Implementation, dtype: jnp.dtype) -> bool:
        """Whether one kernel takes the controls of many intervals at once."""
        ...

    def rest_state(self, model: Any) -> Any:
        """The undeformed body, not moving, its grid's lowest left corner at the origin."""
        ...

    def voxel_motion(self, model: Any, environment: Environment, state: Any) -> VoxelMotion:
        """What is seen of every voxel."""
        ...

    def center(self, model: Any, state: Any) -> Array:
        """Mean over voxels of the mean of their masses' centres [m], (dimension,)."""
        ...

    def bounding_box(self, model: Any, state: Any) -> tuple[Array, Array]:
        """Lowest and highest coordinates of the body [m], each (dimension,)."""
        ...

    def broken(self, state: Any) -> Array:
        """True for parts that are nowhere or have exploded."""
        ...

    def broken_springs(self, model: Any, state: Any) -> Array | None:
        """How many springs have broken, (); None if none can."""
        ...

    def turned(self, state: Any, pivot: Array, angle: Array | float, plane: tuple[int, int] = X_AND_UP) -> Any:
        """Turned as a whole about a point [rad], in the plane of two axes, from the first to the second."""
        ...

    def advance_through(
        self,
        model: Any,
        environment: Environment,
        state: Any,
        controls: Array,
        *,
        substep: float,
        count: int,
        implementation: Implementation,
    ) -> tuple[Any, Watch]:
        """The state after several intervals of `count` substeps each, and what was seen at their ends."""
        ...


class _Squares:
    def fuses(self, implementation: Implementation, dtype: jnp.dtype) -> bool:
        return chosen(implementation, dtype) != "xla"

    def rest_state(self, model: Model) -> State:
        return geometry.rest_state(model)

    def voxel_motion(self, model: Model, environment: Environment, state: State) -> VoxelMotion:
        motion = geometry.mass_motion(model, state)
        touching = jnp.zeros_like(model.present)
        if environment.line is not None:
            corner = geometry.mass_corners(model, motion)
            height = heights_over_ground(environment.line, corner[..., 0], corner[..., 1])
            touching = (height < 0).any((0, 1)).astype(model.present.dtype)
        return VoxelMotion(
            corner=motion.center[jnp.array(BITWISE)],
            velocity=motion.velocity.mean(0),
            size_ratio=geometry.area_ratio(model, motion),
            touching=touching,
        )

    def center(self, model: Model, state: State) -> Array:
        return geometry.center(model, geometry.mass_motion(model, state))

    def bounding_box(self, model: Model, state: State) -> tuple[Array, Array]:
        return geometry.bounding_box(model, geometry.mass_motion(model, state))

    def broken(self, state: State) -> Array:
        return broken(state)

    def broken_springs(self, model: Model, state: State) -> Array | None:
        return None

    def turned(self, state: State, pivot: Array, angle: Array | float, plane: tuple[int, int] = X_AND_UP) -> State:
        if plane != X_AND_UP:
            raise ValueError(f"squares only turn in their plane, {X_AND_UP}; {plane} given")
        rotation = _rotation(angle, state.position.dtype)
        return State(
            position=pivot + geometry.turn(rotation, state.position - pivot),
            rotation=geometry.turn(rotation, state.rotation),
            velocity=geometry.turn(rotation, state.velocity),
            spin=state.spin,
        )

    def advance_through(
        self,
        model: Model,
        environment: Environment,
        state: State,
        controls: Array,
        *,
        substep: float,
        count: int,
        implementation: Implementation,
    ) -> tuple[State, Watch]:
        return advance_through(
            model, environment, state, controls, substep=substep, count=count, implementation=implementation
        )


class _Points:
    def fuses(self, implementation: Implementation, dtype: jnp.dtype) -> bool:
        return False

    def rest_state(self, model: PointModel) -> PointState:
        return point_geometry.rest_state(model)

    def voxel_motion(self, model: PointModel, environment: Environment, state: PointState) -> VoxelMotion:
        return point_geometry.voxel_motion(model, environment, state)

    def center(self, model: PointModel, state: PointState) -> Array:
        return point_geometry.center(model, state)

    def bounding_box(self, model: PointModel, state: PointState) -> tuple[Array, Array]:
        return point_geometry.bounding_box(model, state)

    def broken(self, state: PointState) -> Array:
        return point_dynamics.broken(state)

    def broken_springs(self, model: PointModel, state: PointState) -> Array | None:
        return None if state.intact is None else broken_springs(model, state).sum()

    def turned(
        self, state: PointState, pivot: Array, angle: Array | float, plane: tuple[int, int] = X_AND_UP
    ) -> PointState:
        rotation = _rotation(angle, state.position.dtype)

        def turn(vector: Array) -> Array:
            axes = jnp.array(plane)
            return vector.at[..., axes].set(geometry.turn(rotation, vector[..., axes]))

        return replace(state, position=pivot + turn(state.position - pivot), velocity=turn(state.velocity))

    def advance_through(
        self,
        model: PointModel,
        environment: Environment,
        state: PointState,
        controls: Array,
        *,
        substep: float,
        count: int,
        implementation: Implementation,
    ) -> tuple[PointState, Watch]:
        return point_dynamics.advance_through(
            model, environment, state, controls, substep=substep, count=count, implementation=implementation
        )


_SQUARES, _POINTS = _Squares(), _Points()


def mechanics_of(model: AnyModel) -> Mechanics:
    """The answers for this kind of body."""
    return _POINTS if isinstance(model, PointModel) else _SQUARES


def _rotation(angle: Array | float, dtype: jnp.dtype) -> Array:
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)]).astype(dtype)
