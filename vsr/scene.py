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

from vsr.compute.implementation import chosen
from vsr.controllers import Controller, Policy, knows_time_alone
from vsr.display import Moving
from vsr.episode import Scenario, Trajectory, begin, observe_task, record, reset, rollout, scenario_of
from vsr.physics.contact.system import STRIDE
from vsr.physics.engine import ENGINES, AnyModel, assemble_body, stability_bound
from vsr.physics.failure import Failure
from vsr.physics.granular import GrainsSeen
from vsr.physics.substeps import choose_substeps, whole_substeps
from vsr.robot import ENGINE_KINDS, Body, Material
from vsr.robot.shape import leaks
from vsr.spec import Count, FileSpec, OneOf, Seconds, Spec, memoize, validation_error
from vsr.tasks import TASKS, Locomotion, Task
from vsr.tasks.measures import DEFAULT_MEASURES
from vsr.world.build import build_systems
from vsr.world.defaults import apply_defaults
from vsr.world.placement import Placement, place
from vsr.world.schedule import Schedule
from vsr.world.spec import TOUCHED, Robot, VoxelLike, World

MOST_SUBSTEPS_IN_ALL = 1e9
"""A simulation longer than this is a mistake."""


class Physics(Spec):
    """How time is cut and numbers are kept."""

    time_step: Seconds = 1 / 60
    """[s]; control calls happen on these; may be written as 1/60; 0.003 for evogym masses"""
    control_every: Annotated[Count, Field(ge=1)] = 2
    """time steps from one control call to the next: 2 means every second step; 1 for the evogym engine"""
    substeps: Annotated[Count, Field(ge=1)] | None = None
    """integration steps in a time step; if absent, enough for the stiffest material"""
    precision: Literal["float32", "float64"] = "float32"
    """kind of floating-point number"""
    implementation: Literal["auto", "xla", "fused", "differentiable"] = "auto"
    """of the simulator's inner loop: plain JAX (xla), or one GPU kernel (fused), which auto takes where it can run;
    differentiable is plain JAX with gradients, and slower"""
    integrator: Literal["semi_implicit_euler", "explicit_euler", "verlet", "rk4"] | None = None
    """how a substep is taken; if absent, verlet for point masses; square masses know only semi_implicit_euler"""

    def check_device(self) -> None:
        """Raise ValueError if the implementation asked for cannot run on the device that jax computes on."""
        chosen(self.implementation, jnp.dtype(self.precision))


def whole_strides(substeps: int) -> int:
    """Substeps of a time step that can be divided among meetings with objects, at least as many as given."""
    return STRIDE * math.ceil(substeps / STRIDE)


def plan(voxels: VoxelLike, materials: Iterable[Material], world: World, task: Task, physics: Physics) -> Schedule:
    """How an episode is cut into steps short enough for all materials; raises ValueError if that is impossible."""
    materials, fixed = list(materials), ENGINES[voxels.engine].fixed_substep
    if fixed is not None:
        substeps = whole_substeps(fixed, physics.time_step, physics.substeps)
        return Schedule(task.duration, physics.time_step, physics.control_every, substeps, physics.implementation)
    bound = stability_bound(voxels.engine, materials, voxels.voxel_side, voxels.dimension, physics.integrator)
    for body in world.bodies:
        used = list(body.materials.values())
        bound = min(bound, stability_bound(body.engine, used, body.voxel_side, body.dimension, None))
    accurate = min(world.longest_step, *map(ENGINES[voxels.engine].accurate_substep, materials))
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
        control_every=physics.control_every,
        substeps=substeps,
        implementation=physics.implementation,
        monitor_energy=any(material.hardly_damps for material in materials),
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
    issues, materials = [], list(materials)
    width, size = cells[-1] * voxels.voxel_side, max(cells) * voxels.voxel_side
    try:
        schedule = plan(voxels, materials, world, task, physics)
        total = schedule.steps * schedule.substeps
        if total > MOST_SUBSTEPS_IN_ALL:
            text = f"{total:.3g} substeps in all; at most {MOST_SUBSTEPS_IN_ALL:g}: shorten it"
            issues.append((("task", "duration"), text))
    except ValueError as error:
        issues.append((("physics", "substeps"), str(error)))
    refused = ENGINES[voxels.engine].check(materials, physics.integrator, physics.implementation)
    issues += [(("physics", name), reason) for name, reason in refused.items()]
    issues += _check_objects(voxels, world)
    if not ENGINE_KINDS[voxels.engine].turns and world.sticking != World().sticking:
        issues.append((("world", "sticking"), f"it has no meaning for {voxels.engine}: leave it out"))
    has_systems = world.is_loose or world.is_touched
    has_systems = has_systems or task.systems(voxels.dimension, jnp.dtype(physics.precision))
    only_alone = physics.implementation
    if only_alone in ("fused", "differentiable") and has_systems:
        text = f"'{only_alone}' moves one robot on its ground, and there is more in this world; use 'auto' or 'xla'"
        issues.append((("physics", "implementation"), text))
    if world.terrain is not None and world.terrain.in_3d and voxels.dimension == 2:
        issues.append((("world", "terrain"), "its height changes along y; a 2-D robot needs a line of ground"))
    if world.terrain is not None:
        unfit = world.terrain.checks(voxels, size, world.gravity)
        issues += [(("world", "terrain", *path), reason) for path, reason in unfit]
    unfit = task.issues(voxels.engine, voxels.dimension, list(voxels.materials.values()))
    issues += [(("task", name), reason) for name, reason in unfit]
    unplaceable = task.placement.issue(voxels.dimension)
    if unplaceable is not None:
        issues.append((("task", "placement", unplaceable[0]), unplaceable[1]))
    left = task.placement.left
    if left is not None and world.terrain is not None:
        x, _ = world.terrain.points()
        if not x[0] <= left <= x[-1] - width:
            text = f"{left:g} given; the ground reaches from {x[0]:g} to {x[-1]:g} m, the robot is {width:g} m wide"
            issues.append((("task", "placement", "left"), text))
    return issues


def _check_objects(voxels: VoxelLike, world: World) -> list[tuple[tuple[str, ...], str]]:
    """Complaints about objects and further robots that robots of such voxels cannot meet."""
    issues, dimension = [], voxels.dimension
    if world.is_touched and ENGINES[voxels.engine].own_contact:
        given = next(name for name in (*TOUCHED, "terrain") if name == "terrain" or getattr(world, name))
        text = f"{voxels.engine} masses bring contact of their own, and objects only with their tasks: leave it out"
        return [(("world", given), text)]
    for number, described in enumerate(world.objects):
        unfit = described.issues(dimension)
        issues += [(("world", "objects", str(number), name), reason) for name, reason in unfit]
    for number, other in enumerate(world.other_robots):
        path, body = ("world", "other_robots", str(number)), other.robot.body
        if body.dimension != dimension:
            text = f"it is in {body.dimension}-D, and the robot in {dimension}-D"
            issues.append(((*path, "robot", "body"), text))
        elif not knows_time_alone(other.robot.build_controller()):
            text = (
                "only the first robot reads sensors, remembers or has hardware: give a function of time, such as sine"
            )
            issues.append(((*path, "robot", "controller"), text))
        if unplaceable := other.placement.issue(dimension):
            issues.append(((*path, "placement", unplaceable[0]), unplaceable[1]))
    alien = [body for body in world.bodies if ENGINES[body.engine].own_contact]
    if alien:
        issues.append((("world", "objects"), f"bodies of {alien[0].engine} masses are not for other worlds"))
    if world.is_loose and world.is_touched:
        issues.append((("world", "terrain"), "objects, further robots and self-contact are not for sand"))
    return issues


NO_OBSERVATION = "this task shows nothing of its own, which a policy reads: give the policy `sensors`"


@memoize
def observed_numbers(voxels: VoxelLike, world: World, task: Task, physics: Physics, layers: int) -> int:
    """How many numbers a task shows of robots of a body, or of bodies that evolve; 0 if it shows nothing.

    layers: that the robots' points are in (vsr.physics.contract.Engine.most_layers).
    """
    if type(task).observation is Task.observation:
        return 0
    engine, dtype = ENGINES[voxels.engine], jnp.dtype(physics.precision)
    materials = list(voxels.materials.values())
    cells = (voxels.cells if isinstance(voxels, Body) else voxels.possible).shape  # pyright: ignore[reportAttributeAccessIssue]

    def shown() -> Array:
        table = engine.table(materials, voxels.voxel_side, voxels.dimension, dtype, None)
        model = engine.assemble(
            jnp.zeros(cells, jnp.int32), table, voxels.voxel_side, layers=layers, integrator=physics.integrator
        )
        schedule = plan(voxels, materials, world, task, physics)
        systems = build_systems(world, voxels, schedule, dtype)
        scenario = scenario_of(model, world.build(dtype), schedule, task, (), systems)
        return observe_task(scenario, reset(jax.random.key(0), scenario))[0]

    with precision(physics.precision):
        return jax.eval_shape(shown).shape[0]


class Scene(Moving, FileSpec):
    """All that one simulation needs."""

    kind: Literal["scene"] = "scene"
    """what this file describes"""
    robot: Robot
    """body, controller and hardware"""
    world: World = World()
    """terrain, gravity, objects and other robots"""
    task: Annotated[Task, OneOf(TASKS, default="locomotion")] = Locomotion()
    """what the robot is to do, for how long, and what is measured"""
    physics: Physics = Physics()
    """time steps, precision and implementation"""
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest; they register components of your own"""

    @model_validator(mode="after")
    def _possible(self) -> Scene:
        body = self.robot.body
        *settled, against = apply_defaults(body, self.world, self.task, self.physics)
        for name, part in zip(("world", "task", "physics"), settled, strict=True):
            object.__setattr__(self, name, part)  # frozen for everyone else
        cells = body.cells.shape
        issues = against + check_episode(body, self._used_materials(), cells, self.world, self.task, self.physics)
        if open_chamber := leaks(body):
            issues.append((("robot", "body", "shape"), open_chamber))
        if not issues:
            issues = self._against_policy()
        if issues:
            raise validation_error(issues)
        return self

    def _against_policy(self) -> list[tuple[tuple[str, ...], str]]:
        """Why a policy cannot act here, if so."""
        policy, body = self.robot.controller, self.robot.body
        if not isinstance(policy, Policy) or not policy.observes_task:
            return []
        wanted, shown = policy.observed_count(body), self._shown()
        if not shown[0]:
            return [(("robot", "controller"), NO_OBSERVATION)]
        if wanted in shown:
            return []
        text = f"they are for an observation of {wanted} numbers, and this task shows {shown[0]}: train one for it"
        return [(("robot", "controller", "weights"), text)]

    def _shown(self) -> list[int]:
        """Numbers that the task shows, of as many layers as the body needs, and of more."""
        body = self.robot.body
        engine = ENGINES[body.engine]
        layers = range(engine.layers_needed(body.present), engine.most_layers(body.dimension) + 1)
        return [observed_numbers(body, self.world, self.task, self.physics, count) for count in layers]

    def layers(self) -> int:
        """Layers of the body's points: as many as it needs, but those of the observation that a policy was trained on,
        which may be of bodies that need more."""
        policy, body = self.robot.controller, self.robot.body
        needed = ENGINES[body.engine].layers_needed(body.present)
        if not isinstance(policy, Policy) or not policy.observes_task:
            return needed
        return needed + self._shown().index(policy.observed_count(body) or 0)

    def schedule(self) -> Schedule:
        """How this episode is cut into steps."""
        return plan(self.robot.body, self._used_materials(), self.world, self.task, self.physics)

    def _used_materials(self) -> list[Material]:
        body = self.robot.body
        return [list(body.materials.values())[index] for index in np.unique(body.cells[body.present])]

    def build(self) -> tuple[Scenario, Controller]:
        """All arrays: what stays as it is during the episode, and the controller."""
        dtype, body = jnp.dtype(self.physics.precision), self.robot.body
        model = assemble_body(body, dtype=dtype, integrator=self.physics.integrator, layers=self.layers())
        controller = self.robot.build_controller(dtype)
        environment, schedule = self.world.build(dtype), self.schedule()
        return scenario_of(model, environment, schedule, self.task, controller.sensors, self.systems()), controller

    def systems(self) -> dict[str, Any]:
        """What moves in its world besides the robot, by name; the task may add more."""
        return build_systems(self.world, self.robot.body, self.schedule(), jnp.dtype(self.physics.precision))


@dataclass(frozen=True)
class Outcome(Moving):
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
            plain = scenario.task.model_copy(update={"placement": Placement(), "measures": DEFAULT_MEASURES})
            scenario = replace(scenario, task=plain)
        if keep_trajectory:
            episode, trajectory = _record(scenario, controller, start)
        else:
            episode, trajectory = _rollout(scenario, controller, start), None
        measures = {name: float(value) for name, value in scene.task.evaluate(episode).items()}
        failure, advice = Failure(int(episode.failure)), ""
        if failure is Failure.contact_overflow:
            seen = (_record(scenario, controller, start)[1] if trajectory is None else trajectory).systems or {}
            parts = [world.systems[name].advice(part) for name, part in seen.items() if isinstance(part, GrainsSeen)]
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
