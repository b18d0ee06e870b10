"""Contact with the ground: rest, friction against its closed form, restitution, walls."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.body import Body, Material
from vsr.environment import Environment
from vsr.episode import record, reset
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.squares.advance import advance
from vsr.physics.squares.contact import SINK, SLOP
from vsr.physics.squares.geometry import center, kinetic_energy, mass_corners, mass_motion, rest_state
from vsr.scene import Scene
from vsr.tasks import Placement, move_rigidly, place
from vsr.terrain import Flat, Terrain, Uphill

pytestmark = pytest.mark.usefixtures("quickly_compiled")
GRAVITY = 9.8
SUBSTEP = 1 / 480


def block(**material):
    return assemble_body(
        Body(shape="a", materials={"a": Material(linear_damping=0.0, angular_damping=0.0, **material)})
    )


PIECE = 24
"""Substeps run in pieces of so many, so that lives of any length share a program."""


@jax.jit
def live_on(model, environment, state):
    passive = jnp.zeros(model.present.shape)
    return advance(model, environment, state, passive, substep=SUBSTEP, count=PIECE)


def live(model, terrain, state, time):
    environment = Environment(gravity=jnp.float32(GRAVITY), terrain=terrain)
    pieces = time / SUBSTEP / PIECE
    assert pieces == pytest.approx(round(pieces))
    for _ in range(round(pieces)):
        state = live_on(model, environment, state)
    return state


def middle(model, state):
    return np.asarray(center(model, mass_motion(model, state)))


def on_slope(model, angle):
    """The block lying on a slope of an angle [rad], 60 m along it."""
    state = move_rigidly(model, rest_state(model), tilt=angle)
    foot = jnp.array([60.0, 50.0 * np.tan(angle)])
    up = jnp.array([-np.sin(angle), np.cos(angle)]) * 1.499
    return move_rigidly(model, state, shift=foot + up - center(model, mass_motion(model, state)))


@pytest.mark.parametrize("friction", [0.2, 0.45])
def test_block_on_an_incline_holds_up_to_the_angle_of_friction(friction):
    model = block(friction=friction, spring_frequency=15.0)
    for angle, slides in ((0.85 * np.arctan(friction), False), (1.15 * np.arctan(friction), True)):
        terrain = Uphill(angle=float(np.degrees(angle)), friction=friction, length=200.0).build()
        start = on_slope(model, angle)
        state = live(model, terrain, start, 1.5)
        along = (middle(model, state) - middle(model, start)) @ np.array([np.cos(angle), np.sin(angle)])
        if slides:
            acceleration = GRAVITY * (np.sin(angle) - friction * np.cos(angle))
            assert -along == pytest.approx(0.5 * acceleration * 1.5**2, rel=0.1)
        else:
            assert abs(along) < 0.02


def test_a_dropped_robot_comes_to_rest_on_the_ground(biped):
    model = assemble_body(biped)
    terrain = Flat().build()
    state = live(model, terrain, place(model, terrain, Placement()), 6.0)
    corners = np.asarray(mass_corners(model, mass_motion(model, state)))[..., 1][:, :, np.asarray(biped.present)]
    assert -3 * SLOP < corners.min() < 0.001
    assert float(kinetic_energy(model, state)) < 1e-3


@pytest.mark.parametrize(("height", "restitution"), [(1.0, 0.5), (0.03, 0.0)])
def test_only_fast_masses_bounce_and_with_their_restitution(height, restitution):
    """Masses without springs: the speed after the impact is e times that before it; under 1 m/s there is no bounce."""
    model = block(restitution=0.5)
    model = replace(model, groups=0 * model.groups)
    terrain = Flat(length=200.0).build()
    fall = np.sqrt(2 * height / GRAVITY)
    time = np.ceil((fall + (0.05 if restitution else 0.2)) / SUBSTEP / PIECE) * PIECE * SUBSTEP
    after = time - fall
    state = live(model, terrain, place(model, terrain, Placement(clearance=height)), time)
    lower = np.asarray(state.velocity)[0, 0, :, 1]
    wanted = restitution * GRAVITY * fall - GRAVITY * after if restitution else 0.0
    np.testing.assert_allclose(lower, wanted, atol=0.1)


def test_ground_without_friction_keeps_the_sideways_speed():
    model = block(friction=0.0)
    terrain = Flat(length=200.0).build()
    state = live(model, terrain, place(model, terrain, Placement(left=50.0, clearance=0.1, velocity=(3.0, 0.0))), 1.0)
    np.testing.assert_allclose(middle(model, state)[0], 51.5 + 3.0, atol=0.02)


def test_ground_with_friction_stops_a_sliding_robot():
    model = block()
    terrain = Flat(length=200.0).build()
    state = live(model, terrain, place(model, terrain, Placement(left=50.0, clearance=0.0, velocity=(3.0, 0.0))), 3.0)
    assert abs(float((state.velocity[..., 0] * model.cluster_mass).sum())) < 0.2


def test_walls_hold_a_robot_in():
    model = block(friction=0.0)
    terrain = Flat(length=60.0).build()
    start = place(model, terrain, Placement(left=12.0, clearance=0.0, velocity=(-8.0, 0.0)))
    state = live(model, terrain, start, 2.0)
    assert middle(model, state)[0] > 8.0


def test_a_general_line_and_its_convex_shortcut_give_the_same_motion(biped):
    model = assemble_body(biped)
    quick = Flat().build()
    assert quick.convex
    slow = replace(quick, convex=False)
    start = place(model, quick, Placement())
    ends = [live(model, terrain, start, 0.8) for terrain in (quick, slow)]
    np.testing.assert_allclose(ends[0].position, ends[1].position, atol=1e-4)


def test_robots_may_stand_on_different_grounds(biped):
    """vmap over terrains equals a loop over them."""
    model = assemble_body(biped)
    flats = [Terrain.of(np.array([0.0, 5.0, 150.0, 160.0]), np.array([50.0, h, h + 2.0, 50.0])) for h in (0.0, 1.0)]
    flats = [replace(ground, convex=False) for ground in flats]
    starts = [place(model, ground, Placement(clearance=0.2)) for ground in flats]

    def end(terrain, state):
        environment = Environment(gravity=jnp.float32(GRAVITY), terrain=terrain)
        return advance(model, environment, state, jnp.zeros(model.present.shape), substep=SUBSTEP, count=200).position

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *flats), jax.tree.map(lambda *x: jnp.stack(x), *starts)
    mapped = jax.jit(jax.vmap(end))(*stacked)
    for i, (ground, start) in enumerate(zip(flats, starts, strict=True)):
        np.testing.assert_allclose(mapped[i], jax.jit(end)(ground, start), atol=1e-4)


# What does not hang on the substep


def test_a_pressed_foot_does_not_bounce():
    """Only what came fast bounces; what lies there and is pressed down stays, however hard it is pressed."""
    model = block(restitution=1.0)
    lying = move_rigidly(model, rest_state(model), shift=jnp.array([20.0, -0.5 * SLOP]))
    ground = Flat().build()
    pressed = jnp.zeros((*model.cluster_mass.shape, 2)).at[..., 1].set(-5.0 / SUBSTEP * model.cluster_mass)
    held = advance(model, Environment(terrain=ground, load=pressed), lying, jnp.zeros((1, 1)), substep=SUBSTEP, count=1)
    lower = held.velocity[0, 0, :, 1]
    np.testing.assert_allclose(lower, 0, atol=1e-3)
    fast = move_rigidly(model, lying, velocity=jnp.array([0.0, -5.0]))
    thrown = advance(model, Environment(terrain=ground), fast, jnp.zeros((1, 1)), substep=SUBSTEP, count=1)
    np.testing.assert_allclose(thrown.velocity[0, 0, :, 1], 5, rtol=0.02)


def test_contact_is_foreseen_by_half_a_substep():
    """A corner that will be in the ground in the middle of the substep ends just below the surface; others fly on."""
    model, speed = block(), 0.9
    around = Environment(gravity=jnp.float32(0), terrain=Flat().build())
    for share, caught in ((0.4, True), (0.6, False)):
        height = share * speed * SUBSTEP
        state = move_rigidly(model, rest_state(model), shift=jnp.array([20.0, height]), velocity=jnp.array([0, -speed]))
        after = advance(model, around, state, jnp.zeros((1, 1)), substep=SUBSTEP, count=1)
        expected = -(height + SINK) / SUBSTEP if caught else -speed
        np.testing.assert_allclose(after.velocity[0, 0, :, 1], max(expected, -speed), rtol=0.01)
        lowest = float(mass_corners(model, mass_motion(model, after))[..., 1].min())
        assert lowest == pytest.approx(max(-SINK, height - speed * SUBSTEP), abs=2e-5)


@pytest.mark.parametrize("speed", [10.0, 30.0, 60.0])
def test_no_voxel_turns_inside_out(speed):
    """A biped thrown down."""
    scene = Scene.model_validate(
        {
            "robot": {"body": {"shape": ["aaaa", "a..a"]}},
            "task": {"duration": 2.0, "placement": {"velocity": [0, -speed]}},
        }
    )
    scenario, controller = scene.build()
    _, trajectory = _recorded(scenario, controller, reset(jax.random.key(0), scenario))
    model, around = scenario.model, scenario.world.environment
    engine = engine_of(model)
    size = jax.vmap(lambda state: engine.voxel_motion(model, around, state).size_ratio)(trajectory.state)
    assert float(jnp.where(model.present > 0, size, 1).min()) > 0.05


_recorded = jax.jit(record)
