"""A scene is all that one episode needs, as plain data: robot, world, task, physics. `simulate` runs it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, model_validator

from vsr.body import MASSES, Material
from vsr.body.shape import leaks
from vsr.compute.implementation import chosen
from vsr.controllers import Controller, knows_time_alone
from vsr.display import Displayed
from vsr.episode import Scenario, Trajectory, begin, record, rollout, scenario_of
from vsr.physics.engine import ENGINES, AnyModel, assemble_body, stability_bound
from vsr.physics.failure import Failure
from vsr.physics.grains import GrainsSeen
from vsr.physics.objects import STRIDE
from vsr.physics.substeps import choose_substeps, whole_substeps
from vsr.spec import Count, OneOf, Seconds, Spec, misfit
from vsr.tasks import TASKS, Locomotion, Task
from vsr.tasks.measures import USUAL
from vsr.world.build import build_systems
from vsr.world.defaults import with_usual
from vsr.world.placement import Placement, place
from vsr.world.schedule import Schedule
from vsr.world.spec import TOUCHED, Robot, VoxelLike, World

MOST_SUBSTEPS_IN_ALL = 1e9
"""A simulation longer than this is a mistake."""


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
    implementation: Literal["auto", "xla", "fused", "differentiable"] = "auto"
    """of the simulator's inner loop: plain JAX (xla), or one GPU kernel (fused), which auto takes where it can run;
    differentiable is plain JAX with slopes, and slower"""
    integrator: Literal["semi_implicit_euler", "explicit_euler", "verlet", "rk4"] | None = None
    """how a substep is taken; if absent, verlet for point masses; square masses know only semi_implicit_euler"""

    def check_device(self) -> None:
        """Raise ValueError if the implementation asked for cannot run on the device that jax computes on."""
        chosen(self.implementation, jnp.dtype(self.precision))


def whole_strides(substeps: int) -> int:
    """Substeps of a time step that can be divided among meetings with things, at least as many as given."""
    return STRIDE * math.ceil(substeps / STRIDE)


def plan(voxels: VoxelLike, materials: Iterable[Material], world: World, task: Task, physics: Physics) -> Schedule:
    """How an episode is cut into steps short enough for all materials; raises ValueError if that is impossible."""
    materials, fixed = list(materials), ENGINES[voxels.masses].fixed_substep
    if fixed is not None:
        substeps = whole_substeps(fixed, physics.time_step, physics.substeps)
        return Schedule(task.duration, physics.time_step, physics.control_interval, substeps, physics.implementation)
    bound = stability_bound(voxels.masses, materials, voxels.voxel_side, voxels.dimension, physics.integrator)
    for body in world.bodies:
        used = list(body.materials.values())
        bound = min(bound, stability_bound(body.masses, used, body.voxel_side, body.dimension, None))
    accurate = min(world.longest_step, *map(ENGINES[voxels.masses].accurate_substep, materials))
    substeps = choose_substeps(bound, physics.time_step, physics.substeps, accurate)
    if world.is_touched and physics.substeps is None:
        substeps = whole_strides(substeps)
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
        audited=any(material.hardly_damps for material in materials),
    )


def check_episode(
    voxels: VoxelLike,
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
    complaints += _check_things(voxels, world)
    if not MASSES[voxels.masses].turns and world.sticking != World().sticking:
        complaints.append((("world", "sticking"), f"it has no meaning for {voxels.masses}: leave it out"))
    occupied = world.is_loose or world.is_touched
    occupied = occupied or task.occupants(voxels.dimension, jnp.dtype(physics.precision))
    only_alone = physics.implementation
    if only_alone in ("fused", "differentiable") and occupied:
        text = f"'{only_alone}' moves one robot on its ground, and there is more in this world; use 'auto' or 'xla'"
        complaints.append((("physics", "implementation"), text))
    if world.terrain is not None and world.terrain.in_3d and voxels.dimension == 2:
        complaints.append((("world", "terrain"), "its height changes along y; a 2-D robot needs a line of ground"))
    if world.terrain is not None:
        unfit = world.terrain.checks(voxels, size, world.gravity)
        complaints += [(("world", "terrain", *path), reason) for path, reason in unfit]
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


def _check_things(voxels: VoxelLike, world: World) -> list[tuple[tuple[str, ...], str]]:
    """Complaints about objects and further robots that robots of such voxels cannot meet."""
    complaints, dimension = [], voxels.dimension
    if world.is_touched and ENGINES[voxels.masses].own_contact:
        given = next(name for name in (*TOUCHED, "terrain") if name == "terrain" or getattr(world, name))
        text = f"{voxels.masses} masses bring contact of their own, and things only with their tasks: leave it out"
        return [(("world", given), text)]
    for number, thing in enumerate(world.objects):
        unfit = thing.misfits(dimension)
        complaints += [(("world", "objects", str(number), name), reason) for name, reason in unfit]
    for number, other in enumerate(world.others):
        path, body = ("world", "others", str(number)), other.robot.body
        if body.dimension != dimension:
            text = f"it is in {body.dimension}-D, and the robot in {dimension}-D"
            complaints.append(((*path, "robot", "body"), text))
        elif not knows_time_alone(other.robot.build_controller()):
            text = "only the first robot reads senses, remembers or has hardware: give a function of time, such as sine"
            complaints.append(((*path, "robot", "controller"), text))
        if unplaceable := other.placement.misfit(dimension):
            complaints.append(((*path, "placement", unplaceable[0]), unplaceable[1]))
    alien = [body for body in world.bodies if ENGINES[body.masses].own_contact]
    if alien:
        complaints.append((("world", "objects"), f"bodies of {alien[0].masses} masses are not for other worlds"))
    if world.is_loose and world.is_touched:
        complaints.append((("world", "terrain"), "objects, further robots and self-contact are not for sand"))
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
        controller = self.robot.build_controller(dtype)
        environment, schedule = self.world.build(dtype), self.schedule()
        return scenario_of(model, environment, schedule, self.task, controller.senses, self.occupants()), controller

    def occupants(self) -> dict[str, Any]:
        """What moves in its world besides the robot, by name; the task may add more."""
        return build_systems(self.world, self.robot.body, self.schedule(), jnp.dtype(self.physics.precision))


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
