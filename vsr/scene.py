"""A scene is all that one episode needs, as plain data: robot, world, task, physics. `simulate` runs it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator, model_validator

from vsr.body import Body, Masses, Material
from vsr.body.shape import leaks
from vsr.compute.implementation import chosen
from vsr.controllers import CONTROLLERS, Controller, ControllerSpec, Sine
from vsr.display import Displayed
from vsr.environment import Environment
from vsr.episode import Scenario, Schedule, Trajectory, begin, record, rollout, scenario_of
from vsr.objects import Object
from vsr.physics.engine import ENGINES, AnyModel, assemble_body, engine_of, stability_bound
from vsr.physics.failure import Failure
from vsr.physics.grains import GrainsSeen
from vsr.physics.grains.bed import sand_bed
from vsr.physics.objects import Companion, Objects, build_solids
from vsr.physics.substeps import choose_substeps, whole_substeps
from vsr.spec import Count, OneOf, Real, Seconds, Spec, misfit
from vsr.tasks import TASKS, Locomotion, Placement, Task, move_rigidly, place
from vsr.tasks.measures import USUAL
from vsr.terrain import TERRAINS, AnyGround, Flat, Sand
from vsr.terrain.sand import MOST_GRAINS
from vsr.usual import with_usual

NO_THINGS = (
    "things cannot be simulated among robots of squares and points yet: their contact does not pass its tests of "
    "momentum and friction; tasks with things run with `masses: evogym`"
)
MOST_SUBSTEPS_IN_ALL = 1e9
"""A simulation longer than this is a mistake."""


class Robot(Displayed, Spec):
    """A body and what controls it."""

    body: Body
    controller: Annotated[ControllerSpec, OneOf(CONTROLLERS)] = Sine(amplitude=0.0)
    """how control values are made; by default the robot is passive"""

    @model_validator(mode="after")
    def _fits(self) -> Robot:
        complaints = self.controller.check(self.body)
        if complaints:
            raise misfit([(("controller", *path), reason) for path, reason in complaints])
        return self


class World(Spec):
    """What surrounds the robot."""

    terrain: Annotated[AnyGround, OneOf(TERRAINS, default="flat")] | None = Flat()
    """the ground; null for free space"""
    gravity: Annotated[Real, Field(ge=0)] = 9.8
    """downwards [m/s²]; 110 for evogym masses"""
    objects: tuple[Object, ...] = ()
    """things that robots touch, rigid or soft, free or fixed"""

    @field_validator("objects")
    @classmethod
    def _named_once(cls, objects: tuple[Object, ...]) -> tuple[Object, ...]:
        names = [one.name for one in objects]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"'{twice[0]}' is the name of {names.count(twice[0])} objects: give each one of its own")
        return objects

    def build(self, dtype: jnp.dtype | type = jnp.float32) -> Environment:
        """The array form."""
        return Environment(
            gravity=jnp.asarray(self.gravity, dtype),
            terrain=None if self.terrain is None else self.terrain.build(dtype),
        )

    @property
    def longest_step(self) -> float:
        """In which what moves here besides robots can be moved at once [s]; infinite if nothing does."""
        return self.terrain.longest_step(self.gravity) if isinstance(self.terrain, Sand) else math.inf

    def occupants(self, voxels: Voxels, schedule: Schedule, dtype: jnp.dtype | type = jnp.float32) -> dict[str, Any]:
        """What moves here besides robots, for robots of such voxels (vsr.physics.coupled.Occupant)."""
        found: dict[str, Any] = {}
        if self.objects:
            found["objects"] = build_objects(self.objects, voxels.dimension, dtype)
        if not isinstance(self.terrain, Sand):
            return found
        bed = sand_bed(self.terrain, voxels.dimension, self.gravity, voxels.voxel_side, dtype)
        # Finer steps are finer for grains too: as many substeps as usual are in one of theirs.
        stride = max(1, int(self.longest_step / schedule.substep + 1e-6))
        implementation = "xla" if schedule.implementation == "xla" else "auto"
        return {"sand": replace(bed, stride=stride, implementation=implementation), **found}


def build_objects(objects: Iterable[Object], dimension: int, dtype: jnp.dtype | type = jnp.float32) -> Objects:
    """Described things as arrays."""
    objects = list(objects)
    return Objects(build_solids(objects, dimension, dtype), tuple(_soft(one, dtype) for one in objects if one.body))


def _soft(thing: Object, dtype: jnp.dtype | type) -> Companion:
    """A soft thing at its place."""
    assert thing.body is not None
    model = assemble_body(thing.body, dtype=jnp.dtype(dtype))
    engine = engine_of(model)
    yaw = jnp.radians(thing.yaw) if thing.yaw else None
    state = move_rigidly(model, engine.rest_state(model), tilt=jnp.radians(thing.tilt), yaw=yaw)
    low, high = engine.bounding_box(model, state)
    shift = jnp.asarray(thing.position, low.dtype) - 0.5 * (low + high)
    velocity = None if thing.velocity is None else jnp.asarray(thing.velocity, low.dtype)
    state = move_rigidly(model, state, shift=shift, velocity=velocity)
    return Companion(model, state, None, thing.name, engine)


class Physics(Spec):
    """How time is cut and numbers are kept."""

    time_step: Seconds = 1 / 60
    """[s]; control calls happen on these; may be written as 1/60; 0.003 for evogym masses"""
    control_interval: Annotated[Count, Field(ge=0)] = 1
    """time steps between two control calls without one: 1 means every second step; 0 for evogym masses"""
    substeps: Annotated[Count, Field(ge=1)] | None = None
    """integration steps in a time step; if absent, enough for the stiffest material"""
    precision: Literal["float32", "float64"] = "float32"
    """kind of floating-point number"""
    implementation: Literal["auto", "xla", "fused"] = "auto"
    """of the simulator's inner loop: plain JAX (xla), or one GPU kernel (fused), which auto takes where it can run"""

    integrator: Literal["semi_implicit_euler", "explicit_euler", "verlet", "rk4"] | None = None
    """how a substep is taken; if absent, verlet for point masses; square masses know only semi_implicit_euler"""

    def check_device(self) -> None:
        """Raise ValueError if the implementation asked for cannot run on the device that jax computes on."""
        chosen(self.implementation, jnp.dtype(self.precision))


class Voxels(Protocol):
    """What a body and a kind of body that evolves have in common."""

    @property
    def materials(self) -> dict[str, Material]: ...
    @property
    def voxel_side(self) -> float: ...
    @property
    def masses(self) -> Masses: ...
    @property
    def dimension(self) -> int: ...


def plan(voxels: Voxels, materials: Iterable[Material], world: World, task: Task, physics: Physics) -> Schedule:
    """How an episode is cut into steps short enough for all materials; raises ValueError if that is impossible."""
    materials, fixed = list(materials), ENGINES[voxels.masses].fixed_substep
    if fixed is not None:
        substeps = whole_substeps(fixed, physics.time_step, physics.substeps)
        return Schedule(task.duration, physics.time_step, physics.control_interval, substeps, physics.implementation)
    bound = stability_bound(voxels.masses, materials, voxels.voxel_side, voxels.dimension, physics.integrator)
    accurate = min(world.longest_step, *map(ENGINES[voxels.masses].accurate_substep, materials))
    substeps = choose_substeps(bound, physics.time_step, physics.substeps, accurate)
    if physics.time_step / substeps > world.longest_step * (1 + 1e-6):
        needed = math.ceil(physics.time_step / world.longest_step - 1e-6)
        raise ValueError(
            f"{substeps} substeps of {1000 * physics.time_step / substeps:.2f} ms are too long for grains, which then "
            f"do not come to rest: use at least {needed}, or leave it out"
        )
    return Schedule(
        duration=task.duration,
        time_step=physics.time_step,
        control_interval=physics.control_interval,
        substeps=substeps,
        implementation=physics.implementation,
    )


def check_episode(
    voxels: Voxels,
    materials: Iterable[Material],
    cells: tuple[int, ...],
    world: World,
    task: Task,
    physics: Physics,
) -> list[tuple[tuple[str, ...], str]]:
    """Complaints (path and reason) about an episode that cannot be simulated; cells: of the robot's grid."""
    complaints, materials = [], list(materials)
    width, size = cells[-1] * voxels.voxel_side, max(cells) * voxels.voxel_side
    try:
        schedule = plan(voxels, materials, world, task, physics)
        total = schedule.steps * schedule.substeps
        if total > MOST_SUBSTEPS_IN_ALL:
            text = f"{total:.3g} substeps in all; at most {MOST_SUBSTEPS_IN_ALL:g}: shorten it"
            complaints.append((("task", "duration"), text))
    except ValueError as error:
        complaints.append((("physics", "substeps"), str(error)))
    refused = ENGINES[voxels.masses].check(materials, physics.integrator, physics.implementation)
    complaints += [(("physics", name), reason) for name, reason in refused.items()]
    for number, thing in enumerate(world.objects):
        unfit = thing.misfits(voxels.dimension)
        complaints += [(("world", "objects", str(number), name), reason) for name, reason in unfit]
    if world.objects:
        complaints.append((("world", "objects"), NO_THINGS))
    occupied = (
        isinstance(world.terrain, Sand)
        or world.objects
        or task.occupants(voxels.dimension, jnp.dtype(physics.precision))
    )
    if physics.implementation == "fused" and occupied:
        text = "'fused' moves one robot on its ground, and there is more in this world; use 'auto' or 'xla'"
        complaints.append((("physics", "implementation"), text))
    if world.terrain is not None and world.terrain.in_3d and voxels.dimension == 2:
        complaints.append((("world", "terrain"), "its height changes along y; a 2-D robot needs a line of ground"))
    complaints += _check_sand(voxels, size, world)
    unfit = task.misfits(voxels.masses, voxels.dimension, list(voxels.materials.values()))
    complaints += [(("task", name), reason) for name, reason in unfit]
    unplaceable = task.placement.misfit(voxels.dimension)
    if unplaceable is not None:
        complaints.append((("task", "placement", unplaceable[0]), unplaceable[1]))
    left = task.placement.left
    if left is not None and world.terrain is not None:
        x, _ = world.terrain.points()
        if not x[0] <= left <= x[-1] - width:
            text = f"{left:g} given; the ground reaches from {x[0]:g} to {x[-1]:g} m, the robot is {width:g} m wide"
            complaints.append((("task", "placement", "left"), text))
    return complaints


def _check_sand(voxels: Voxels, size: float, world: World) -> list[tuple[tuple[str, ...], str]]:
    """Complaints about sand that robots of a size [m], whichever way they lie, cannot walk on."""
    sand, path = world.terrain, ("world", "terrain")
    if not isinstance(sand, Sand):
        return []
    if world.gravity == 0:
        return [(path, "sand does not lie without gravity")]
    complaints = []
    needed = 1.5 * size + 4 * sand.largest
    if needed > sand.period:
        text = f"{sand.period:g} m given; robots of {size:g} m would meet themselves: at least {needed:.4g}"
        complaints.append(((*path, "period"), text))
    if sand.count(voxels.dimension) > MOST_GRAINS:
        text = f"{sand.count(voxels.dimension):.3g} grains; at most {MOST_GRAINS:.3g}: larger ones, or less deep"
        complaints.append(((*path, "radius"), text))
    if sand.radius > voxels.voxel_side:
        text = f"{sand.radius:g} m given; at most a voxel's side, {voxels.voxel_side:g} m"
        complaints.append(((*path, "radius"), text))
    return complaints


class Scene(Displayed, Spec):
    """All that one simulation needs."""

    robot: Robot
    world: World = World()
    task: Annotated[Task, OneOf(TASKS, default="locomotion")] = Locomotion()
    physics: Physics = Physics()
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest; they register components of your own"""

    @model_validator(mode="after")
    def _possible(self) -> Scene:
        body = self.robot.body
        *settled, against = with_usual(body, self.world, self.task, self.physics)
        for name, part in zip(("world", "task", "physics"), settled, strict=True):
            object.__setattr__(self, name, part)  # frozen for everyone else
        cells = body.cells.shape
        complaints = against + check_episode(body, self._used_materials(), cells, self.world, self.task, self.physics)
        if open_chamber := leaks(body):
            complaints.append((("robot", "body", "shape"), open_chamber))
        if complaints:
            raise misfit(complaints)
        return self

    def schedule(self) -> Schedule:
        """How this episode is cut into steps."""
        return plan(self.robot.body, self._used_materials(), self.world, self.task, self.physics)

    def _used_materials(self) -> list[Material]:
        body = self.robot.body
        return [list(body.materials.values())[index] for index in np.unique(body.cells[body.present])]

    def build(self) -> tuple[Scenario, Controller]:
        """All arrays: what stays as it is during the episode, and the controller."""
        dtype, body = jnp.dtype(self.physics.precision), self.robot.body
        model = assemble_body(body, dtype=dtype, integrator=self.physics.integrator)
        controller = self.robot.controller.build(body, dtype)
        environment, schedule = self.world.build(dtype), self.schedule()
        return scenario_of(model, environment, schedule, self.task, controller.senses, self.occupants()), controller

    def occupants(self) -> dict[str, Any]:
        """What moves in its world besides the robot, by name; the task may add more."""
        return self.world.occupants(self.robot.body, self.schedule(), jnp.dtype(self.physics.precision))


@dataclass(frozen=True)
class Outcome(Displayed):
    """What came of a simulation."""

    measures: dict[str, float]
    """by name, in SI units"""
    failure: Failure
    """why the simulation is no use"""
    schedule: Schedule
    trajectory: Trajectory | None = None
    model: AnyModel | None = None
    scene: Scene | None = None
    """what was simulated"""
    broken_springs: int | None = None
    """how many springs broke; None if no material has a yield force"""
    advice: str = ""
    """what to do about the failure, where that is known"""

    @property
    def failed(self) -> bool:
        """Whether it is no use."""
        return self.failure is not Failure.none


def simulate(scene: Scene, *, keep_trajectory: bool = False, key: Array | None = None) -> Outcome:
    """Run one scene. Equal shapes and schedules are compiled once per process.

    key: of whatever is random in the episode.
    """
    with precision(scene.physics.precision):
        scenario, controller = scene.build()
        world = scenario.world
        robot = _place(scenario.model, world.environment.terrain, scene.task.placement, world.cover)
        start = _begin(scenario, robot, key)
        if not scene.task.needs_every_step:
            # Episodes that differ only in where they start and what is measured share one program.
            plain = scenario.task.model_copy(update={"placement": Placement(), "measures": USUAL})
            scenario = replace(scenario, task=plain)
        if keep_trajectory:
            episode, trajectory = _record(scenario, controller, start)
        else:
            episode, trajectory = _rollout(scenario, controller, start), None
        measures = {name: float(value) for name, value in scene.task.evaluate(episode).items()}
        failure, advice = Failure(int(episode.failure)), ""
        if failure is Failure.crowded:
            seen = (_record(scenario, controller, start)[1] if trajectory is None else trajectory).occupants or {}
            parts = [world.occupants[name].advice(part) for name, part in seen.items() if isinstance(part, GrainsSeen)]
            advice = "; ".join(part for part in parts if part)
        return Outcome(
            measures=measures,
            failure=failure,
            advice=advice,
            schedule=scenario.schedule,
            broken_springs=None if episode.broken_springs is None else int(episode.broken_springs),
            trajectory=trajectory,
            model=scenario.model if keep_trajectory else None,
            scene=scene,
        )


def precision(name: str) -> contextlib.AbstractContextManager:
    """While it is open, arrays may be of the named kind."""
    return jax.enable_x64(True) if name == "float64" else contextlib.nullcontext()


_place = partial(jax.jit, static_argnames=("placement", "cover"))(place)
_begin = jax.jit(begin)
_rollout = jax.jit(rollout)
_record = jax.jit(record)
