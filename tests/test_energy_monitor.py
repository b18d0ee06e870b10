"""Energy from nowhere: the ledger, the failure that it reports, and who is asked for one."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.body import Body, Material
from vsr.environment import Environment
from vsr.environment.obstacles import Sphere
from vsr.episode import _first_or, _runs_open_loop, begin, reset, rollout
from vsr.experiments.config import parse_scene
from vsr.physics.contract import Energies
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.failure import Failure
from vsr.physics.ledger import begin_ledger, follow_ledger
from vsr.scene import Scene
from vsr.tasks.placement import move_rigidly

pytestmark = pytest.mark.usefixtures("quickly_compiled")


class ScriptedEngine:
    """An engine whose states are energies: of motion, of weight, and of a spring that a control value stretches."""

    def energies(self, model, environment, state, control, substep):
        return Energies(state[0], state[1], state[2] + 10 * control[0])

    def total_mass(self, model):
        return jnp.ones(())

    def least_damping(self, model):
        return jnp.asarray(model.damping)


MODEL, FREE = SimpleNamespace(voxel_side=1.0, damping=0.0), Environment(gravity=0.0)


def ledger_of(states, controls, model=MODEL):
    """After states that follow each other, the first before any control."""
    states, still = jnp.asarray(states, float), jnp.zeros(1)
    ledger = begin_ledger(ScriptedEngine(), model, FREE, states[0], still, 0.01)
    for (before, after), control in zip(pairwise(states), controls, strict=True):
        ledger = follow_ledger(ledger, ScriptedEngine(), model, FREE, before, after, jnp.full(1, float(control)), 0.01)
    return ledger


@pytest.mark.parametrize(
    ("states", "controls", "gained"),
    [
        pytest.param([(8, 0, 0), (0, 8, 0), (4, 0, 4)], (0, 0), False, id="from one kind to another"),
        pytest.param([(8, 0, 0), (4, 0, 0), (2, 0, 0)], (0, 0), False, id="lost"),
        pytest.param([(8, 0, 0), (5, 0, 0), (8, 0, 0)], (0, 0), False, id="swings"),
        pytest.param([(8, 0, 0), (2, 0, 0), (8, 0, 0)], (0, 0), True, id="comes back after it was lost"),
        pytest.param([(0, 0, 0), (9, 0, -9), (18, 0, -18)], (1, -1), False, id="done by actuation"),
        pytest.param([(8, 0, 0), (8, 0, 0), (8, 0, 0), (20, 0, 0)], (1, -1, -1), True, id="after much work"),
        pytest.param([(8, 0, 0), (8, 3, 0)], (0,), True, id="too high with nothing that drives"),
        pytest.param([(8, 0, 0), (8, 3, 0)], (0.1,), False, id="the same, driven: it may be a swing"),
        pytest.param([(0, 0, 5), (3, 2, 0)], (0,), False, id="pressed at the start"),
        pytest.param([(8, 0, 0), (40, 0, 0), (1, 0, 0)], (0, 0), True, id="once gained, always"),
        pytest.param([(1e-5, 0, 0), (9e-5, 0, 0)], (0,), False, id="too little to tell"),
    ],
)
def test_what_comes_from_nowhere(states, controls, gained):
    assert bool(ledger_of(states, controls).gained) == gained
    assert not ledger_of(states, controls, SimpleNamespace(voxel_side=1.0, damping=0.15)).gained  # it damps


def test_nothing_is_accounted_for_where_not_all_is_known():
    sphere = Sphere(jnp.zeros(2), jnp.ones(()), jnp.ones(()), jnp.ones(()))
    still = jnp.zeros(1)
    for unknown in (replace(FREE, bodies=(sphere,)), replace(FREE, drag=1.0)):
        assert begin_ledger(ScriptedEngine(), MODEL, unknown, jnp.zeros(3), still, 0.01) is None
    breaks = assemble_body(Body(shape=["a"], masses="points", materials={"a": Material(yield_force=1.0)}))
    engine = engine_of(breaks)
    assert begin_ledger(engine, breaks, FREE, engine.rest_state(breaks), jnp.zeros((1, 1)), 0.01) is None


@pytest.mark.parametrize("masses", ["squares", "points"])
def test_energies_of_a_robot_that_moves(masses):
    model = assemble_body(Body(shape=["aa"], masses=masses))
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


@pytest.mark.parametrize(("masses", "integrator"), [("squares", None), ("points", "semi_implicit_euler")])
def test_what_steps_keep_does_not_swing(masses, integrator):
    """A voxel in the mode that needs the shortest steps: energy with velocities as they are would swing by a half."""
    drag = {"angular_damping": 0.0} if masses == "squares" else {}
    stiff = Material(spring_frequency=27.0, spring_damping_ratio=0.0, linear_damping=0.0, **drag)
    model = assemble_body(Body(shape=["a"], masses=masses, materials={"a": stiff}), integrator=integrator)
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


def test_a_load_may_lift_a_robot():
    model = assemble_body(Body(shape=["a"], masses="points", materials={"a": Material(spring_damping_ratio=0.0)}))
    engine, still, substep = engine_of(model), jnp.zeros((1, 1)), 1 / 360
    state = engine.rest_state(model)
    environment = Environment(gravity=9.8, load=jnp.zeros_like(state.position).at[:, 0, :, 1].set(30.0))
    ledger = begin_ledger(engine, model, environment, state, still, substep)
    move = jax.jit(lambda state: engine.advance(model, environment, state, still[None], substep=substep, count=12)[0])
    for _ in range(20):
        after = move(state)
        ledger = follow_ledger(ledger, engine, model, environment, state, after, still, substep)
        state = after
    assert float(engine.center(model, state)[1]) > 2.0
    assert not ledger.gained


SUCKING = """
robot:
  body:
    masses: points
    voxel_side: 0.03
    shape: [aaaa, awwa, aaaa]
    materials:
      a: {young_modulus: 2.0e+5, density: 1000, spring_damping_ratio: 0, linear_damping: 0}
      w: {fluid: {}}
world: {terrain: {type: polyline, x: [0, 10], y: [0.8, 0.8]}}
task: {duration: 0.2, placement: {clearance: 0}}
"""


def test_fluid_that_pulls_walls_in_is_no_energy_from_nowhere():
    scenario, controller = parse_scene(SUCKING).build()
    assert scenario.schedule.audited
    summary = jax.jit(lambda: rollout(scenario, controller, reset(jax.random.key(0), scenario)))()
    assert int(summary.failure) == Failure.none


def bouncing(damping):
    """A voxel that bounces without loss, springs of some damping ratio; a time step is left after the last call."""
    material = {"spring_frequency": 4, "spring_damping_ratio": damping, "linear_damping": 0, "angular_damping": 0,
                "restitution": 1}  # fmt: skip
    body = {"shape": ["a"], "materials": {"a": material}}
    return Scene.model_validate({"robot": {"body": body}, "task": {"duration": 20 + 1 / 60}})


def test_a_robot_that_leaps_higher_and_higher_has_failed():
    assert not bouncing(0.3).schedule().audited
    scenario, controller = bouncing(0.0).build()
    assert scenario.schedule.audited

    def end(tilt):
        (robot,) = reset(jax.random.key(0), scenario).world.robots
        dropped = move_rigidly(scenario.model, robot, tilt=tilt, shift=jnp.array([0.0, 1.5]))
        return rollout(scenario, controller, begin(scenario, dropped)).failure

    failure = np.asarray(jax.jit(jax.vmap(end))(jnp.linspace(-0.5, 0.5, 24)))
    assert (failure == Failure.gained_energy).any()  # a third of them
    assert (failure == Failure.none).any()


def test_a_robot_with_a_ledger_is_moved_from_call_to_call():
    """A kernel that takes the controls of many calls at once would leave it nothing to see."""
    scenario, controller = bouncing(0.0).build()
    alone = {}
    for audited in (True, False):
        schedule = replace(scenario.schedule, implementation="interpreted", audited=audited)
        alone[audited] = _runs_open_loop(replace(scenario, schedule=schedule), controller)
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
    state = SimpleNamespace(failure=jnp.int32(before), ledger=ledger_of([(1, 0, 0)], ()))
    assert int(_first_or(state, jnp.int32(found))) == stands
