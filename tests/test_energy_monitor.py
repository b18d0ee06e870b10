"""Spurious energy gain: the monitor, the failure that it reports, and what others may give a robot."""

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.environment import Environment
from vsr.environment.model import Sphere
from vsr.episode import _first_or, _runs_open_loop, begin, reset, rollout, scenario_of, step
from vsr.evidence.validate.sand.scenes import closed_box
from vsr.experiments.config import parse_scene
from vsr.physics.contact.system import Objects
from vsr.physics.contract import ContactBody, Energies
from vsr.physics.energy_monitor import begin_monitor, change_of_others, energy_given_in_contact, follow_monitor
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.failure import Failure
from vsr.physics.granular import grains_of
from vsr.robot import Body, Material
from vsr.scene import Scene
from vsr.world.placement import move_rigidly
from vsr.world.schedule import Schedule

pytestmark = pytest.mark.usefixtures("quickly_compiled")


class ScriptedEngine:
    """An engine whose states are energies: of motion, of weight, and of a spring that a control value stretches."""

    def energies(self, model, environment, state, control, substep):
        return Energies(state[0], state[1], state[2] + 10 * control[0], state[0] + jnp.abs(state[2]))

    def total_mass(self, model):
        return jnp.ones(())

    def least_damping(self, model):
        return jnp.asarray(model.damping)


MODEL, FREE = SimpleNamespace(voxel_side=1.0, damping=0.0), Environment(gravity=0.0)


def monitor_of(states, controls, model=MODEL, given=0.0):
    """After states that follow each other, the first before any control; given: by others in each interval."""
    states, still = jnp.asarray(states, float), jnp.zeros(1)
    monitor = begin_monitor(ScriptedEngine(), model, FREE, states[0], still, 0.01)
    for (before, after), control in zip(pairwise(states), controls, strict=True):
        control = jnp.full(1, float(control))
        monitor = follow_monitor(monitor, ScriptedEngine(), model, FREE, before, after, control, 0.01, given)
    return monitor


FASTER = [(8 + call, 0, 0) for call in range(11)]
"""A joule more in every call."""


@pytest.mark.parametrize(
    ("states", "controls", "gained"),
    [
        pytest.param([(8, 0, 0), (0, 8, 0), (4, 0, 4)], (0, 0), False, id="from one kind to another"),
        pytest.param([(8, 0, 0), (4, 0, 0), (2, 0, 0)], (0, 0), False, id="lost"),
        pytest.param([(8, 0, 0), (5, 0, 0), (8, 0, 0)], (0, 0), False, id="swings"),
        pytest.param([(8, 0, 0), (2, 0, 0), (8, 0, 0)], (0, 0), True, id="comes back after it was lost"),
        pytest.param([(0, 0, 0), (9, 0, -9), (18, 0, -18)], (1, -1), False, id="done by actuation"),
        pytest.param(FASTER, [1, -1] * 5, True, id="a twentieth of the actuators' work is spurious"),
        pytest.param([(8, 0, 0), (8, 3, 0)], (0,), True, id="too high with nothing that drives"),
        pytest.param([(8, 0, 0), (8, 3, 0)], (0.1,), True, id="the same, driven: actuators gave less"),
        pytest.param([(8, 0, 0), (8, 3, -3)], (0.3,), False, id="the same, and actuators gave it"),
        pytest.param([(0, 0, 5), (3, 2, 0)], (0,), False, id="pressed at the start"),
        pytest.param([(8, 0, 0), (40, 0, 0), (1, 0, 0)], (0, 0), True, id="once gained, always"),
        pytest.param([(1e-5, 0, 0), (9e-5, 0, 0)], (0,), False, id="too little to tell"),
    ],
)
def test_what_comes_from_nowhere(states, controls, gained):
    assert bool(monitor_of(states, controls).gained) == gained
    assert not monitor_of(states, controls, SimpleNamespace(voxel_side=1.0, damping=0.15)).gained  # it damps


def test_what_others_gave_is_not_spurious():
    assert monitor_of(FASTER, [0] * 10).gained
    assert not monitor_of(FASTER, [0] * 10, given=1.0).gained
    assert monitor_of([(8, 0, 0)] * 11, [0] * 10, given=-1.0).gained  # nobody gets from a robot what it does not lose


@pytest.mark.parametrize(
    ("robot", "others", "given"),
    [
        pytest.param(3.0, -3.0, 3.0, id="all of it"),
        pytest.param(3.0, -5.0, 5.0, id="and some is lost"),
        pytest.param(3.0, -50.0, 6.0, id="others lose much elsewhere"),
        pytest.param(3.0, 0.0, 0.0, id="nobody gave it"),
        pytest.param(3.0, 1.0, -1.0, id="both gained"),
        pytest.param(-3.0, 3.0, -3.0, id="given away"),
        pytest.param(-3.0, 0.0, 0.0, id="lost"),
        pytest.param(0.0, -9.0, 0.0, id="not touched"),
        pytest.param(3.0, None, 3.0, id="by what is not known"),
        pytest.param(-3.0, None, 0.0, id="lost to what is not known"),
    ],
)
def test_nobody_gives_more_than_is_lost(robot, others, given):
    change = None if others is None else jnp.asarray(others)
    np.testing.assert_allclose(energy_given_in_contact(jnp.array([robot]), change), [given])


def test_of_two_robots_one_gives_what_the_other_gets():
    np.testing.assert_allclose(energy_given_in_contact(jnp.array([2.0, -2.0]), jnp.zeros(())), [2.0, -2.0])


def test_nothing_is_monitored_where_springs_can_break():
    breaks = assemble_body(Body(shape=["a"], engine="points", materials={"a": Material(yield_force=1.0)}))
    engine = engine_of(breaks)
    assert begin_monitor(engine, breaks, FREE, engine.rest_state(breaks), jnp.zeros((1, 1)), 0.01) is None


@pytest.mark.slow
@pytest.mark.parametrize("masses", ["squares", "points"])
def test_energies_of_a_robot_that_moves(masses):
    model = assemble_body(Body(shape=["aa"], engine=masses))
    engine, environment = engine_of(model), Environment(gravity=9.8)
    rest, still = engine.rest_state(model), jnp.zeros((1, 2))
    found = [
        engine.energies(model, environment, move_rigidly(model, rest, shift=jnp.array([0.0, up]), velocity=velocity),
                        still, 0.01)
        for up, velocity in ((0.0, jnp.zeros(2)), (5.0, jnp.array([5.0, 0.0])))
    ]  # fmt: skip
    mass = float(engine.total_mass(model))
    assert mass == 8.0  # two voxels of four masses
    assert float(found[0].motion) == 0
    np.testing.assert_allclose(found[1].motion, 0.5 * mass * 25, rtol=1e-5)
    np.testing.assert_allclose(found[1].weight - found[0].weight, mass * 9.8 * 5, rtol=1e-5)
    np.testing.assert_allclose([one.inner for one in found], 0, atol=1e-3)
    pressed = replace(rest, position=rest.position * 0.98)
    assert float(engine.energies(model, environment, pressed, still, 0.01).inner) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("masses", "integrator"), [("squares", None), ("points", "semi_implicit_euler")])
def test_what_steps_keep_does_not_swing(masses, integrator):
    """A voxel in the mode that needs the shortest steps: energy with velocities as they are would swing by a half."""
    drag = {"angular_damping": 0.0} if masses == "squares" else {}
    stiff = Material(spring_frequency=27.0, spring_damping_ratio=0.0, linear_damping=0.0, **drag)
    model = assemble_body(Body(shape=["a"], engine=masses, materials={"a": stiff}), integrator=integrator)
    engine, substep, still = engine_of(model), 1 / 540, jnp.zeros((1, 1))
    state = engine.rest_state(model)
    away = state.position - state.position.mean((0, 1, 2))
    free = (model.inverse_mass > 0)[..., None]
    shaken = replace(state, velocity=free * away * jnp.array([1.0, -1.0]))
    if masses == "squares":
        shaken = replace(shaken, spin=3.0 * free[..., 0])

    def later(state, _):
        after, _ = engine.advance(model, FREE, state, still[None], substep=substep, count=1)
        found = engine.energies(model, FREE, after, still, substep)
        return after, (found.total, found.motion)

    _, (total, motion) = jax.jit(lambda state: jax.lax.scan(later, state, length=120))(shaken)
    assert np.ptp(motion) > 0.5 * np.mean(total)  # it does go from one kind to another
    assert np.ptp(total) < 0.01 * np.mean(total)


@pytest.mark.slow
def test_a_load_may_lift_a_robot():
    model = assemble_body(Body(shape=["a"], engine="points", materials={"a": Material(spring_damping_ratio=0.0)}))
    engine, still, substep = engine_of(model), jnp.zeros((1, 1)), 1 / 360
    state = engine.rest_state(model)
    environment = Environment(gravity=9.8, load=jnp.zeros_like(state.position).at[:, 0, :, 1].set(30.0))
    monitor = begin_monitor(engine, model, environment, state, still, substep)
    move = jax.jit(lambda state: engine.advance(model, environment, state, still[None], substep=substep, count=12)[0])
    for _ in range(20):
        after = move(state)
        monitor = follow_monitor(monitor, engine, model, environment, state, after, still, substep)
        state = after
    assert float(engine.center(model, state)[1]) > 2.0
    assert not monitor.gained


SUCKING = """
robot:
  body:
    engine: points
    voxel_side: 0.03
    shape: [aaaa, awwa, aaaa]
    materials:
      a: {young_modulus: 2.0e+5, density: 1000, spring_damping_ratio: 0, linear_damping: 0}
      w: {fluid: {}}
world: {terrain: {type: polyline, x: [0, 10], y: [0.8, 0.8]}}
task: {duration: 0.2, placement: {clearance: 0}}
"""


@pytest.mark.slow
def test_fluid_that_pulls_walls_in_is_no_spurious_energy():
    scenario, controller = parse_scene(SUCKING).build()
    assert scenario.schedule.monitor_energy
    summary = jax.jit(lambda: rollout(scenario, controller, reset(jax.random.key(0), scenario)))()
    assert int(summary.failure) == Failure.none


BOX = {"name": "box", "shape": {"type": "box", "size": [2, 2]}}
WORLDS = {
    "alone": {},
    "self_contact": {"self_contact": True},
    "ground_corners": {"ground_corners": True},
    "a box 900 m away": {"objects": [{**BOX, "position": [900, 1]}]},
    "a fixed box": {"objects": [{**BOX, "position": [40, 1], "fixed": True}]},
    "blocks": {"terrain": {"type": "blocks", "heights": "3x100 0x3"}},
}


def bouncing(damping=0.0, world=None, masses="squares"):
    """A voxel that is dropped, springs of some damping ratio; a time step is left after the last call."""
    material = {"spring_frequency": 4, "spring_damping_ratio": damping, "linear_damping": 0, "restitution": 0.5}
    if masses == "squares":
        material["angular_damping"] = 0
    body = {"shape": ["a"], "engine": masses, "materials": {"a": material}}
    return Scene.model_validate({"robot": {"body": body}, "world": world or {}, "task": {"duration": 6 + 1 / 60}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("masses", "world"),
    [
        ("points", "a box 900 m away"),
        *(pytest.param("points", world, marks=pytest.mark.slow) for world in WORLDS if world != "a box 900 m away"),
        pytest.param("squares", "a box 900 m away", marks=pytest.mark.slow),
    ],
)
def test_springs_that_pump_energy_are_reported_whatever_is_around(masses, world):
    """A damping ratio below 0 is a law that is wrong; nothing around a robot hides it, or makes a right one fail."""
    scenario, _ = bouncing(0.1, WORLDS[world], masses).build()
    assert scenario.schedule.monitor_energy
    damping = "damping" if masses == "points" else "damping_ratio"

    def end(factor):
        model = replace(scenario.model, **{damping: factor * getattr(scenario.model, damping)})
        law = replace(scenario, world=replace(scenario.world, robots=(model,)))
        (robot,) = reset(jax.random.key(0), law).world.robots
        dropped = move_rigidly(model, robot, tilt=0.3, shift=jnp.array([0.0, 1.5]))
        interval = lambda _, now: step(law, now, now.action)[0]  # noqa: E731
        last = jax.lax.fori_loop(0, scenario.schedule.calls, interval, begin(law, dropped))
        return last.energy_monitor.gained, last.failure

    gained, failure = jax.jit(jax.vmap(end))(jnp.array([0.0, -0.5]))
    assert gained.tolist() == [False, True]
    assert (failure != Failure.none).tolist() == [False, True]


def test_robots_that_damp_are_not_monitored():
    assert not bouncing(0.3).schedule().monitor_energy


@pytest.mark.slow
def test_obstacles_and_drag_hide_nothing():
    material = Material(spring_frequency=4, spring_damping_ratio=0.0, linear_damping=0.0, restitution=1.0)
    right = assemble_body(Body(shape=["a"], engine="points", materials={"a": material}))
    engine, still, substep = engine_of(right), jnp.zeros((1, 1)), 1 / 360
    ball = Sphere(jnp.array([1.0, -50.0]), jnp.asarray(50.0), jnp.asarray(0.5), jnp.asarray(1.0))
    environment = Environment(gravity=9.8, bodies=(ball,), drag=1e-3)
    up = move_rigidly(right, engine.rest_state(right), tilt=0.3, shift=jnp.array([0.0, 3.0]))

    def end(damping):
        model = replace(right, damping=jnp.full_like(right.damping, damping))

        def call(_, now):
            state, monitor = now
            after = engine.advance(model, environment, state, still[None], substep=substep, count=12)[0]
            return after, follow_monitor(monitor, engine, model, environment, state, after, still, substep)

        first = begin_monitor(engine, model, environment, up, still, substep)
        return jax.lax.fori_loop(0, 180, call, (up, first))[1].gained

    assert jax.jit(jax.vmap(end))(jnp.array([0.0, -5.0])).tolist() == [False, True]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Generous(Objects):
    """Contact that makes robots faster by a tenth in every meeting."""

    def step(self, environment, state, robots, duration):
        state, robots = super().step(environment, state, robots, duration)
        return state, tuple(
            robot._replace(state=replace(robot.state, velocity=1.1 * robot.state.velocity)) for robot in robots
        )


@pytest.mark.slow
def test_a_box_gives_a_robot_what_it_loses_and_no_more():
    """In free space a box hits a robot: its speed is the box's gift. What a wrong law adds to it is not."""
    undamped = {"spring_damping_ratio": 0, "linear_damping": 0}
    scene = Scene.model_validate({
        "robot": {"body": {"shape": ["aa", "aa"], "engine": "points", "materials": {"a": undamped}}},
        "world": {"terrain": None, "gravity": 0,
                  "objects": [{**BOX, "position": [-4.0, 3.0], "velocity": [20.0, 0.0], "mass": 200.0}]},
        "task": {"duration": 0.4},
    })  # fmt: skip
    scenario, _ = scene.build()
    objects = scenario.world.systems["objects"]
    robot = engine_of(scenario.model).rest_state(scenario.model)

    def end(system):
        law = replace(scenario, world=replace(scenario.world, systems={"objects": system}))
        interval = lambda _, now: step(law, now, now.action)[0]  # noqa: E731
        last = jax.lax.fori_loop(0, scenario.schedule.calls, interval, begin(law, robot))
        return last.energy_monitor.gained, last.energy_monitor.scale, last.energy_monitor.received

    generous = Generous(**{part.name: getattr(objects, part.name) for part in fields(objects)})
    right, wrong = (jax.jit(end)(system) for system in (objects, generous))
    assert (bool(right[0]), bool(wrong[0])) == (False, True)
    assert float(right[1]) > 100  # it was hit
    np.testing.assert_allclose(right[2], right[1], rtol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_box_that_falls_and_spins_keeps_its_energy(dimension):
    size, place = [1.0, 2.0, 3.0][:dimension], [0.0] * (dimension - 1) + [50.0]
    box = {"name": "box", "shape": {"type": "box", "size": size}, "position": place, "velocity": [3.0] * dimension}
    body = {"shape": ["a"] if dimension == 2 else [["a"]], "engine": "points"}
    scene = Scene.model_validate({"robot": {"body": body}, "world": {"terrain": None, "objects": [box]}})
    scenario, _ = scene.build()
    objects, environment = scenario.world.systems["objects"], scenario.world.environment
    assert isinstance(objects, Objects)
    robots = begin(scenario, engine_of(scenario.model).rest_state(scenario.model)).world
    state = robots.systems["objects"]
    state = replace(state, solids=replace(state.solids, spin=jnp.full_like(state.solids.spin, 2.0).at[:, 0].set(1.0)))
    later = replace(state, solids=replace(state.solids, velocity=state.solids.velocity * 2, spin=state.solids.spin * 2))
    twice = float(change_of_others(objects, Environment(gravity=0.0), state, later, 0.01))
    mass, inertia = objects.solids.mass[0], objects.solids.inertia[0]
    spin = state.solids.spin[0]
    np.testing.assert_allclose(twice, 1.5 * float(mass * 9 * dimension + (inertia * spin**2).sum()), rtol=1e-5)
    if dimension == 2:  # free fall: nothing changes, and a heavier pull is seen
        fallen, _ = objects.step(environment, state, _contact_bodies(scenario), 0.01)
        assert abs(float(change_of_others(objects, environment, state, fallen, 0.01))) < 1e-5 * twice
        assert float(change_of_others(objects, Environment(gravity=0.0), state, fallen, 0.01)) != 0


def _contact_bodies(scenario):
    model = scenario.model
    return (ContactBody(engine_of(model), model, engine_of(model).rest_state(model)),)


@pytest.mark.slow
def test_grains_may_push_a_robot():
    model = assemble_body(
        Body(shape=["aa"], engine="points", materials={"a": Material(spring_damping_ratio=0.0, linear_damping=0.0)})
    )
    engine = engine_of(model)
    place = np.stack(np.meshgrid(np.arange(-3.0, -0.5, 0.8), np.arange(0.5, 2.8, 0.8), indexing="ij"), -1).reshape(
        -1, 2
    )
    box = replace(closed_box(2, (20.0, 20.0)), low=(-8.0, -8.0))
    flying = np.broadcast_to([15.0, 0.0], place.shape)
    grains = grains_of(place, 0.35, 1.0, box=box, velocity=flying, grounded=False, samples=8)
    schedule = Schedule(duration=0.5, substeps=6, monitor_energy=True)
    scenario = scenario_of(model, Environment(gravity=0.0), schedule, systems={"sand": grains})
    start = begin(scenario, engine.rest_state(model))
    interval = lambda _, now: step(scenario, now, now.action)[0]  # noqa: E731
    last = jax.jit(lambda: jax.lax.fori_loop(0, schedule.calls, interval, start))()
    assert float(last.energy_monitor.scale) > 20  # they did
    assert not last.energy_monitor.gained


def test_a_monitored_robot_is_moved_from_call_to_call():
    """A kernel that takes the controls of many calls at once would leave it nothing to see."""
    scenario, controller = bouncing().build()
    alone = {}
    for monitor_energy in (True, False):
        schedule = replace(scenario.schedule, implementation="interpreted", monitor_energy=monitor_energy)
        alone[monitor_energy] = _runs_open_loop(replace(scenario, schedule=schedule), controller)
    assert alone == {True: False, False: True}


@pytest.mark.parametrize(
    ("before", "found", "stands"),
    [
        (Failure.none, Failure.inverted, Failure.inverted),
        (Failure.gained_energy, Failure.none, Failure.gained_energy),
        (Failure.gained_energy, Failure.left_world, Failure.left_world),
        (Failure.inverted, Failure.left_world, Failure.inverted),
    ],
)
def test_whatever_befalls_a_robot_goes_before_grown_energy(before, found, stands):
    state = SimpleNamespace(failure=jnp.int32(before), energy_monitor=monitor_of([(1, 0, 0)], ()))
    assert int(_first_or(state, jnp.int32(found))) == stands
