"""The contract of engines: the core that each of them answers, contact, and capabilities that may be absent.

An engine has a folder of its own beside this file; code outside of it uses only the contract. Its entry in ENGINES
(vsr.physics.engine) says which masses it moves. c stands for the axes of cells, lowest first: (rows, columns) or
(levels, rows, columns). Lengths are in meters, or in the units of an engine whose voxels have one side alone.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import Implementation
from vsr.environment import Environment
from vsr.physics.failure import empty_or
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry
from vsr.robot.material import Material
from vsr.terrain.base import Solid
from vsr.terrain.blocks import Cells


class VoxelMotion(NamedTuple):
    """c stands for the axes of cells, the lowest first: (rows, columns) or (levels, rows, columns)."""

    corner: Array
    """centers of the corners' masses [m], (corners, c, dimension); numbered by their bits: x, then y, then z"""
    velocity: Array
    """mean of the masses' [m/s], (c, dimension)"""
    size_ratio: Array
    """area, or volume, over that at rest, c"""
    contact: Array
    """1 if the voxel is in the ground, else 0, c"""
    spacing: Array | None = None
    """of corners along an edge at rest [m], () or c"""
    ground: Solid | None = None
    """what can be seen of it; None for free space"""


X_AND_UP = (0, -1)
"""Axes of the plane in which a 2-D robot moves, and a 3-D one tilts."""


class Hull(NamedTuple):
    """The outermost corners of all voxels, as others touch the faces between them; c stands for the axes of cells."""

    position: Array
    """[m], (corners, c, dimension); numbered by their bits (vsr.robot.corners)"""
    velocity: Array
    """[m/s], likewise"""
    inverse_effective_mass: Array
    """at most how fast a unit of impulse makes the corner [1/kg], (corners, c)"""
    friction: Array
    """coefficient, (corners, c)"""


class Vertices(NamedTuple):
    """The corners of all voxels, each once: where bodies touch each other; v stands for the engine's axes of them."""

    position: Array
    """[m], (v, dimension)"""
    velocity: Array
    """[m/s], (v, dimension)"""
    inverse_mass: Array
    """how readily a push moves the vertex's carrier as a whole, 0 for what is absent or anchored [1/kg], v"""
    lever: Array | None
    """the vertex seen from the center of a carrier that turns [m], (v, dimension); None if vertices are the carriers"""
    inverse_inertia: Array | None
    """how readily a push turns the carrier [1/(kg m²)], v; None likewise"""
    exists: Array
    """False for slots without a vertex, v"""
    friction: Array
    """coefficient, v"""
    restitution: Array
    """coefficient, v"""


class Carriers(NamedTuple):
    """What carries a robot's vertices, one each, as the robot's kernel has it, for other kernels; p vertices."""

    table: Array
    """x, y, cosine, sine, velocity x and y, spin, and perhaps more; of carriers and perhaps more, (7 and more, p and
    more)"""
    offset: Array
    """the vertex seen from its carrier, where this is not turned [m], (2, p)"""

    @property
    def moving(self) -> tuple[Array, ...]:
        """What another kernel may change."""
        return (self.table,)


class PointMotion(NamedTuple):
    """The same of vertices that nothing else carries."""

    position: Array
    """[m], (p, dimension)"""
    velocity: Array
    """[m/s], (p, dimension)"""

    @property
    def moving(self) -> tuple[Array, ...]:
        return tuple(self)


class RigidParts(NamedTuple):
    """How the corners of a model's voxels are fastened to its rigid parts, for recordings."""

    slot: np.ndarray
    """place of each corner's part in the flattened array of parts, (voxels, corners)"""
    offset: np.ndarray
    """the corner's mass seen from its part at rest [m], (voxels, corners, dimension)"""
    half_side: np.ndarray
    """of the masses, 0 for points [m], (voxels,)"""
    springs: np.ndarray
    """whether a voxel has each group of springs, (voxels, groups)"""
    lacking: np.ndarray | None = None
    """True for springs of such groups that a fluid voxel has not, (voxels, springs); None if there is no fluid"""


SpringEnds = tuple[int, int, int, int, int]
"""A spring of a voxel: its group, a corner of the voxel and one of the mass there, -1 for its center; the other end."""


class ChambersSeen(NamedTuple):
    """Chambers of fluid at one moment; capacity m, some of which may be empty, c the axes of cells."""

    pressure: Array
    """at the ports, above that outside [Pa], (m,)"""
    volume_ratio: Array
    """volume over that at rest, 1 in empty places, (m,)"""
    rest_volume: Array
    """[m³], 0 in empty places, (m,)"""
    member: Array
    """1 for the voxels of each chamber, (m, c)"""


class Energies(NamedTuple):
    """Of a robot at one moment [J], all ()."""

    motion: Array
    """with velocities of the middle of a substep, where a state's are those of its end: as steps keep it, then"""
    weight: Array
    """of heights, over that at height 0"""
    inner: Array
    """of springs, limits and fluid, and of loads and forces of actuation while they are held"""
    scale: Array
    """of velocities as they are and of springs, without held forces: what errors go with, no part of the sum"""

    @property
    def total(self) -> Array:
        """Of motion, weight and all inside."""
        return self.motion + self.weight + self.inner


class OwnBody(NamedTuple):
    """An object that an engine moves together with a robot, as part of the robot's state."""

    name: str
    model: Any
    """of the same engine"""
    state: Any


class Core(Protocol):
    """What every engine answers: from a description to arrays, motion, and what is seen of a body.

    Models and states are those of one robot, as pytrees; use `vmap` for many. A model has `engine`, its name in
    ENGINES, `present`, 1 where there is a voxel, c; `mass` [kg], c, of the dtype of all its numbers, and `voxel_side`
    [m], (). A state has `position` [m] and `velocity` [m/s] of its parts, (..., dimension).
    """

    default_integrator: str
    """where none is asked for"""

    @abstractmethod
    def longest_substep(
        self, materials: Sequence[Material], voxel_side: float, dimension: int, integrator: str | None
    ) -> float:
        """The stability bound of bodies of some materials [s], 0 if no substep is stable; voxel_side: [m]."""
        ...

    @abstractmethod
    def table(
        self,
        materials: Sequence[Material],
        voxel_side: float,
        dimension: int,
        dtype: jnp.dtype | type,
        cells: np.ndarray | None = None,
    ) -> Any:
        """Materials as columns of numbers, for voxels of one size [m].

        cells: of the only body that will be made of them, as for `assemble`, so that it needs no more room than that.
        """
        ...

    @abstractmethod
    def assemble(
        self,
        cells: Array,
        table: Any,
        voxel_side: Array | float,
        *,
        layers: int,
        integrator: str | None = None,
        anchored: Array | np.ndarray | None = None,
    ) -> Any:
        """The model of any body on a grid, inside or outside `jit`.

        cells: index of the material, negative where empty, lowest first, c; voxel_side: [m]; layers: see
        `layers_needed`; anchored: True for corners whose masses are fixed, with all that is joined to them,
        (corners, c).
        """
        ...

    @abstractmethod
    def rest_state(self, model: Any) -> Any:
        """The undeformed body, not moving, its grid's lowest left corner at the origin."""
        ...

    @abstractmethod
    def turned(self, state: Any, pivot: Array, angle: Array | float, plane: tuple[int, int] = X_AND_UP) -> Any:
        """Turned as a whole about a point [m] by an angle [rad], in 2-D of two axes, from the first on."""
        ...

    @abstractmethod
    def advance(
        self,
        model: Any,
        environment: Environment,
        state: Any,
        controls: Array,
        *,
        substep: float,
        count: int,
        implementation: Implementation = "auto",
    ) -> tuple[Any, Telemetry]:
        """The state after several intervals of `count` substeps [s] each, and what was seen at their ends.

        controls: one value per interval and voxel, clipped to [-1, 1], (intervals, c).
        """
        ...

    @abstractmethod
    def voxel_motion(self, model: Any, environment: Environment, state: Any) -> VoxelMotion:
        """What is seen of every voxel."""
        ...

    @abstractmethod
    def center(self, model: Any, state: Any) -> Array:
        """Mean over voxels of the mean of their masses' centers [m], (dimension,)."""
        ...

    @abstractmethod
    def bounding_box(self, model: Any, state: Any) -> tuple[Array, Array]:
        """Lowest and highest coordinates of the body [m], each (dimension,)."""
        ...

    @abstractmethod
    def momentum(self, model: Any, state: Any) -> Array:
        """Linear momentum [kg m/s], (dimension,)."""
        ...

    @abstractmethod
    def total_mass(self, model: Any) -> Array:
        """[kg], ()."""
        ...

    @abstractmethod
    def failure(self, model: Any, state: Any, fastest: Array | float = EXPLOSION_SPEED) -> Array:
        """What befell each part: not finite, exploded, of a voxel that is inverted, or 0 (vsr.physics.failure).

        fastest: speed from which on it has exploded [m/s] (vsr.physics.telemetry.fastest_speed).
        """
        ...


class Contact(Protocol):
    """How others touch a body: at its vertices. The rest follows from them, unless an engine knows better."""

    @abstractmethod
    def vertices(self, model: Any, state: Any) -> Vertices:
        """The corners of voxels, each once."""
        ...

    @abstractmethod
    def vertex_indices(self, model: Any) -> Array:
        """Places of every voxel's corners among the flattened vertices, whole numbers, (corners, c)."""
        ...

    @abstractmethod
    def push_vertices(self, model: Any, state: Any, impulses: Array, shifts: Array) -> Any:
        """The state after impulses at its vertices [N s], like their positions.

        shifts: impulses times the time for which their change of velocity has already moved what carries a vertex
        [kg m], likewise. Angular momentum stays with a vertex that is shifted: its carrier's spin makes up for it.
        """
        ...

    def ground_points(self, model: Any, state: Any) -> tuple[Array, Array]:
        """Points that the ground holds up [m], (p, dimension), and which of them are there and free to move, p."""
        vertices = self.vertices(model, state)
        return vertices.position, vertices.exists & (vertices.inverse_mass > 0)

    def hull(self, model: Any, state: Any) -> Hull:
        """The corners between which a body's faces are."""
        vertices, places = self.vertices(model, state), self.vertex_indices(model)
        inverse_effective_mass = vertices.inverse_mass
        if vertices.lever is not None and vertices.inverse_inertia is not None:
            inverse_effective_mass = inverse_effective_mass + vertices.inverse_inertia * (vertices.lever**2).sum(-1)

        def at_corners(values: Array) -> Array:
            return values.reshape(-1, *values.shape[vertices.exists.ndim :])[places]

        return Hull(*map(at_corners, (vertices.position, vertices.velocity, inverse_effective_mass, vertices.friction)))

    def push_hull(self, model: Any, state: Any, impulses: Array) -> Any:
        """The state after impulses at the corners of its hull [N s], (corners, c, dimension)."""
        vertices, dimension = self.vertices(model, state).position, impulses.shape[-1]
        places = self.vertex_indices(model)
        pushed = jnp.zeros_like(vertices).reshape(-1, dimension).at[places].add(impulses).reshape(vertices.shape)
        return self.push_vertices(model, state, pushed, jnp.zeros_like(pushed))


class KernelLayout:
    """How an engine's GPU kernel keeps a body. This is the layout of an engine without one: all stays as it is."""

    def prepared(
        self, model: Any, environment: Environment, substep: float, implementation: Implementation = "auto"
    ) -> Any:
        """The same model with the tables that `advance` would otherwise build in every call with these arguments.

        Whoever changes a model or its environment has to begin with one that is not prepared.
        """
        return model

    def packed(self, model: Any, state: Any, implementation: Implementation = "auto") -> Any:
        """A state for `advance` and for contact at vertices: as the kernel that would run has it, else as it is."""
        return state

    def unpacked(self, state: Any) -> Any:
        """A packed state as it was given."""
        return state

    def takes_many_controls(self, implementation: Implementation, dtype: jnp.dtype) -> bool:
        """Whether one kernel takes the controls of many intervals at once."""
        return False

    def scan(self, model: Any, implementation: Implementation) -> Callable[..., Any]:
        """How a loop of control steps runs: jax.lax.scan, or one for a single world that does the same."""
        return jax.lax.scan

    def carriers(self, model: Any, state: Any) -> Carriers | PointMotion | None:
        """Of the vertices of a packed state, for other kernels; None if its kernel has them otherwise."""
        return None

    def with_carriers(self, state: Any, *moving: Array) -> Any:
        """A packed state that has carriers, moving in another way (Carriers.moving)."""
        raise NotImplementedError("this layout has no carriers")


class Capabilities(Protocol):
    """What an engine may be able to do beside. The answers here are those of one that cannot."""

    fixed_substep: float | None = None
    """the only length of a substep that there is [s]; None if short enough is good enough"""
    scales: tuple[str, ...] = ()
    """factors of `scaled` that mean something for these masses"""
    kernel: KernelLayout = KernelLayout()
    """of its GPU kernel"""
    own_contact: bool = False
    """whether contact is part of its law, so that its robots touch objects of its own and no others"""

    def check(
        self, materials: Sequence[Material], integrator: str | None, implementation: Implementation
    ) -> dict[str, str]:
        """Settings of `physics` that this engine cannot follow, each with the reason; none."""
        return {}

    def accurate_substep(self, material: Material) -> float:
        """What else than stability asks of a substep [s]; infinite, as nothing does."""
        return math.inf

    def most_layers(self, dimension: int) -> int:
        """Layers that every body of a grid fits in: parts that share a place in the grid without being joined. One."""
        return 1

    def layers_needed(self, present: np.ndarray) -> int:
        """Layers that one body needs; present: True where there is a voxel, c. One."""
        return 1

    def scaled(
        self,
        model: Any,
        frequency: Array | float,
        damping: Array | float,
        friction: Array | float,
        mass: Array | float | None = None,
    ) -> Any:
        """The same body, not prepared, with the springs' frequency and damping ratio and the masses' friction times
        these factors.

        mass: a factor too; frequencies stay as they are, so that springs between heavier masses are stiffer. Of factors
        that are not among `scales` nothing comes, so here the body stays as it is.
        """
        return model

    def flaw(self, model: Any) -> Array:
        """What is wrong with a body before it moves, else 0 (vsr.physics.failure), (). Here: that it is empty."""
        return empty_or(model.present, jnp.zeros((), jnp.int32))

    def energies(
        self, model: Any, environment: Environment, state: Any, control: Array, substep: float
    ) -> Energies | None:
        """Under control values, c, for substeps of this length [s]; None if not known: nobody monitors them then."""
        return None

    def least_damping(self, model: Any) -> Array:
        """The lowest damping ratio of a body's springs, infinite if there are none, ()."""
        return jnp.full((), jnp.inf, model.mass.dtype)

    def chambers(self, model: Any, state: Any, control: Array) -> ChambersSeen | None:
        """What is seen of the fluid in a body under control values, c; None if there is none."""
        return None

    def broken_springs(self, model: Any, state: Any) -> Array | None:
        """How many springs have broken, (); None if none can."""
        return None

    def own_ground(self, model: Any) -> Cells | None:
        """Cells of ground that the model brings along; None if its ground is the environment's."""
        return None

    def own_bodies(self, model: Any, state: Any) -> tuple[OwnBody, ...]:
        """Objects of its own that are around a robot, in a fixed order; none."""
        return ()

    def with_own_bodies(self, state: Any, bodies: tuple[Any, ...]) -> Any:
        """A robot's state with other states of its own objects, one each."""
        return state

    # what is recorded and drawn

    def spring_ends(self, dimension: int) -> list[SpringEnds]:
        """The springs of a voxel as they are drawn; none. A voxel has those whose group it has (`rigid_parts`)."""
        return []

    def angles(self, states: Any) -> np.ndarray | None:
        """Of the parts [rad], like positions without their last axis; None for points, which have none.

        states: one or many, as numpy arrays.
        """
        return None

    def intact_springs(self, states: Any) -> np.ndarray | None:
        """False for springs that broke, (..., springs of a voxel, c); None if none can. States as for angles."""
        return None


class Engine(Core, Contact, Capabilities, Protocol):
    """All of it. An engine inherits from this class and writes what is abstract: 12 answers of Core, 3 of Contact."""

    def rigid_parts(self, model: Any) -> RigidParts:
        """How voxels are fastened to the parts whose positions a state has; here these are the vertices."""
        present = np.asarray(model.present) > 0
        slot = np.asarray(self.vertex_indices(model))[:, present].T.astype(int)
        return RigidParts(
            slot=slot,
            offset=np.zeros((*slot.shape, present.ndim)),
            half_side=np.zeros(len(slot)),
            springs=np.zeros((len(slot), 0), bool),
        )


class ContactBody(NamedTuple):
    """A robot as a contact body of its world."""

    engine: Engine
    model: Any
    state: Any

    @property
    def hull(self) -> Hull:
        """The corners between which its faces are."""
        return self.engine.hull(self.model, self.state)

    @property
    def vertices(self) -> Vertices:
        """The corners of its voxels, each once."""
        return self.engine.vertices(self.model, self.state)

    def pushed_at_vertices(self, impulses: Array, shifts: Array | None = None) -> ContactBody:
        """After impulses and shifts at its vertices; no shifts if absent."""
        shifts = jnp.zeros_like(impulses) if shifts is None else shifts
        return self._replace(state=self.engine.push_vertices(self.model, self.state, impulses, shifts))

    def pushed_at_hull(self, impulses: Array) -> ContactBody:
        """After impulses at the corners of its hull."""
        return self._replace(state=self.engine.push_hull(self.model, self.state, impulses))
