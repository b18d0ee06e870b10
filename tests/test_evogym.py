"""EvoGym's point masses: numbers of its specification, what follows from its rules, and a trace of the program."""

import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT

import vsr
from vsr.environment import Environment
from vsr.episode import reset, step
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.evogym import EvogymObject, GroundCells, law, springs
from vsr.physics.evogym.assembly import assemble_evogym, kinds_table
from vsr.physics.evogym.contact import touch
from vsr.scene import Scene

ENGINE = ENGINES["evogym"]
STEPS = {"substep": law.SUBSTEP, "count": law.SUBSTEPS}
TRACE = json.loads((ROOT / "tests/data/evogym_trace.json").read_text())


def body_of(*rows):
    return vsr.Body(shape=rows, engine="evogym")


def stepped(model, state, control, steps, gravity=0.0, count=law.SUBSTEPS):
    """States after every one of some steps."""
    environment = Environment(gravity=jnp.asarray(gravity))
    controls = jnp.broadcast_to(jnp.asarray(control, jnp.float32), (1, *model.present.shape))
    found = []
    for _ in range(steps):
        state = advanced(model, environment, state, controls, count=count)[0]
        found.append(state)
    return found


@partial(jax.jit, static_argnames="count")
def advanced(model, environment, state, controls, count):
    return ENGINE.advance(model, environment, state, controls, substep=law.SUBSTEP, count=count)


def width(state):
    return float(state.position[0, 0, 1, 0] - state.position[0, 0, 0, 0]) / law.SIDE


@pytest.mark.parametrize(
    ("target", "after"),
    [(1.6, {1: 1.14, 2: 1.24, 3: 1.25, 6: 1.25}), (0.6, {1: 0.90, 2: 0.83, 3: 0.78, 5: 0.75}), (1.2, {14: 1.16})],
)
def test_a_free_actuator_reaches_its_targets_as_specified(target, after):
    model = assemble_body(body_of("h"))
    control = springs.control_of_target(jnp.array(target))
    states = stepped(model, ENGINE.rest_state(model), control, max(after))
    assert {step: round(width(states[step - 1]), 2) for step in after} == after
    # The other direction is not driven: diagonals pull it along a little, and no more.
    height = float(states[-1].position[0, 1, 0, 1] - states[-1].position[0, 0, 0, 1]) / law.SIDE
    assert abs(height - 1) < 0.1


def test_a_kick_opens_an_edge_by_a_fifth_of_a_percent_and_fades_in_three_steps():
    model = assemble_body(body_of("h"))
    state = ENGINE.rest_state(model)
    apart = jnp.zeros_like(state.velocity).at[0, :, 1, 0].set(1.0).at[0, :, 0, 0].set(-1.0)  # 20 voxels a second
    opened = [width(one) - 1 for one in stepped(model, replace(state, velocity=apart), 0.0, 7)]
    assert opened[0] == pytest.approx(0.002, rel=0.15)
    assert opened[4] / opened[1] == pytest.approx(np.exp(-1), rel=0.1)


def test_targets_and_controls_are_inverse():
    targets = jnp.array([0.6, 0.7, 1.0, 1.3, 1.6])
    assert springs.target_of_control(springs.control_of_target(targets)) == pytest.approx(np.asarray(targets))
    assert springs.target_of_control(jnp.array([1.0, 0.0, -1.0])) == pytest.approx([0.6, 1.0, 1.6])


def test_an_edge_that_two_actuators_drive_gets_their_mean_and_the_softer_kind_has_it():
    model = assemble_body(body_of("h", "h", "s", "r"))
    goal = np.asarray(springs.goals(model, jnp.array([[0.0], [0.0], [1.0], [-1.0]]))) / law.SIDE
    bottom, top = goal[springs.BOTTOM, :, 0], goal[springs.TOP, :, 0]
    assert bottom == pytest.approx([1.0, 1.0, 0.6, 1.1])
    assert top[3] == pytest.approx(1.6)
    edges = np.asarray(model.stiffness)
    assert edges[springs.BOTTOM, :, 0] == pytest.approx(
        [law.RIGID.edge, law.SOFT.edge, law.SOFT.edge, law.ACTUATOR.edge]
    )
    assert edges[springs.TOP, :, 0] == pytest.approx([0, 0, 0, law.ACTUATOR.edge])  # counted by the voxel above
    assert float(model.node_mass.sum()) == 10


def test_a_corner_below_an_edge_is_pushed_out_through_it_and_half_of_it_goes_to_either_end():
    """Closed form: 2.1e6 (0.005 + depth) up, 140 of the speed down, 1200 of the sideways speed against it."""
    one = jnp.ones(())
    quad = jnp.array([0.0, 0.1, 0.1, 0.0]), jnp.array([0.0, 0.0, 0.1, 0.1])
    point, speed = (0.05 * one, 0.09 * one), (0.3 * one, -2.0 * one)
    ends = (0.15 * one, 0.09 * one), (0.05 * one, 0.19 * one)
    outer = jnp.array([False, False, True, False])
    met = touch(point, ends, speed, quad, None, outer, jnp.array(True))
    normal = 2.1e6 * (0.005 + 0.01)
    friction = -240 * normal * np.tanh(0.3 / (0.2 * normal))
    assert friction == pytest.approx(-1200 * 0.3, rel=1e-3)
    assert np.asarray(met.point) == pytest.approx([friction, normal + 140 * 2.0], rel=1e-5)
    reaction = np.stack(met.quad)[:, 2:]
    assert reaction == pytest.approx(np.array([[-friction / 2] * 2, [-normal / 2] * 2]), rel=1e-4)
    through_the_side = touch(point, ends, speed, quad, None, jnp.array([True, False, False, True]), jnp.array(True))
    assert np.abs(np.stack(through_the_side.point)).max() == 0  # no outer edge that it could have come by


@pytest.mark.parametrize(
    ("corner", "normal"), [((1, 1), (0, 1)), ((1, 0), (1, 0)), ((0, 0), (0, -1)), ((0, 1), (0, 1))]
)
def test_of_two_edges_that_are_equally_near_the_first_of_top_right_bottom_left_is_taken(corner, normal):
    """A voxel touches another one at a corner: its own edges lead away from there."""
    quad = jnp.array([0.0, 0.1, 0.1, 0.0]), jnp.array([0.0, 0.0, 0.1, 0.1])
    right, up = 0.1 * jnp.array(corner)
    away = 0.2 * jnp.array(corner) - 0.1
    ends, still = ((right + away[0], up), (right, up + away[1])), (jnp.zeros(()), jnp.zeros(()))
    met = touch((right, up), ends, still, quad, None, jnp.ones(4, bool), jnp.array(True))
    assert np.asarray(met.point) == pytest.approx(law.CONTACT * law.CONTACT_OFFSET * np.array(normal), abs=0.1)


@pytest.mark.slow
def test_the_first_steps_of_a_robot_with_voxels_that_touch_at_corners_are_those_of_evogym():
    with jax.enable_x64(True):
        robot = {"body": {"shape": TRACE["shape"], "engine": "evogym"}}
        scene = Scene.model_validate({"robot": robot, "task": "DownStepper-v0", "physics": {"precision": "float64"}})
        scenario, _ = scene.build()
        model, state = scenario.world.robots[0], reset(jax.random.key(0), scenario)
        # Its corners start on the ground: a little higher, as rounding has it in EvoGym, no corner is in it.
        lifted = replace(state.world.robots[0], position=state.world.robots[0].position + jnp.array([0, 1e-12]))
        state = replace(state, world=replace(state.world, robots=(lifted,)))
        row, column, corner = np.array(TRACE["points"]).T
        place = np.asarray(ENGINE.vertex_indices(model))[corner, row, column]
        actuators = np.argwhere(np.asarray(model.horizontal + model.vertical)[::-1] > 0)
        advance = jax.jit(lambda *given: step(scenario, *given)[0])
        for targets, there, tolerance in zip(TRACE["targets"], TRACE["steps"][1:], (1e-7, 1e-5), strict=False):
            control = np.zeros(model.present.shape)
            control[::-1][tuple(actuators.T)] = springs.control_of_target(jnp.array(targets))
            state = advance(state, jnp.asarray(control))
            found = ENGINE.vertices(model, state.world.robots[0]).position.reshape(-1, 2)[place] / law.SIDE
            assert pytest.approx(np.array([there["x"], there["y"]]), abs=tolerance) == np.asarray(found).T


def with_objects():
    """A robot with a package on it, on voxels of ground, and its start."""
    model = assemble_body(body_of("hv", "sr"))
    solid = np.zeros((4, 9), bool)
    solid[0], solid[:3, 0] = True, True
    body = assemble_evogym(jnp.zeros((1, 1), jnp.int32), kinds_table(), layers=1)
    package = EvogymObject(body, jnp.array([0.35, 0.32]), "package")
    model = replace(model, ground=GroundCells.of(solid), objects=(package,))
    state = ENGINE.rest_state(model)
    return model, replace(state, position=state.position + jnp.array([0.3, 0.11]))


@pytest.fixture(scope="module")
def on_ground():
    model, state = with_objects()
    return model, stepped(model, state, 0.0, 40, gravity=law.GRAVITY)


@pytest.mark.slow
def test_a_robot_and_a_package_come_to_rest_on_the_ground_and_on_each_other(on_ground):
    model, states = on_ground
    last = states[-1]
    heights = np.sort(np.unique(np.round(np.asarray(last.position[0, :, 0, 1]), 2)))
    assert heights == pytest.approx([0.1, 0.2, 0.3], abs=0.006)
    package = np.asarray(last.objects[0].position[0, ..., 1])
    assert package.min() == pytest.approx(0.3, abs=0.006)
    assert package.max() == pytest.approx(0.4, abs=0.006)
    middles = [float(ENGINE.center(model, state)[1]) for state in states[-20:]]
    assert np.ptp(middles) < 2e-3
    assert not bool(last.unstable)


@pytest.mark.slow
def test_many_robots_are_moved_as_one_is(on_ground):
    model, states = on_ground
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), states[0], states[20])
    environment = Environment(gravity=jnp.asarray(law.GRAVITY))
    moved, _ = jax.vmap(lambda state: ENGINE.advance(model, environment, state, jnp.zeros((1, 2, 2)), **STEPS))(both)
    alone = jax.tree.map(lambda *leaves: jnp.stack(leaves), states[1], states[21])
    for one, other in zip(jax.tree.leaves(moved), jax.tree.leaves(alone), strict=True):
        assert np.asarray(one) == pytest.approx(np.asarray(other), abs=2e-3)


def test_scenes_get_its_units_and_other_ones_are_refused():
    described = {"robot": {"body": {"shape": "hv", "engine": "evogym"}}, "task": {"duration": 0.03}}
    scene = Scene.model_validate(described)
    assert (scene.world.gravity, scene.physics.time_step, scene.robot.body.voxel_side) == (110, 0.003, 0.1)
    assert (scene.schedule().substeps, scene.schedule().calls) == (30, 10)
    assert Scene.model_validate(scene.to_plain()) == scene
    for wrong, text in (
        ({"physics": {"substeps": 60}}, "substeps of 0.0001"),
        ({"physics": {"time_step": 0.00305}}, "no whole number"),
        ({"physics": {"integrator": "verlet"}}, "rk4"),
        ({"robot": {"body": {"shape": "hv", "engine": "evogym", "voxel_side": 3}}}, "0.1"),
        ({"robot": {"body": {"shape": "a", "engine": "evogym", "materials": {"a": {}}}}}, "know no area"),
        ({"robot": {"body": {"shape": "a", "materials": {"a": {"rigid": True}}}}}, "no meaning for squares"),
    ):
        with pytest.raises(ValueError, match=text):
            Scene.model_validate({**described, **wrong})
