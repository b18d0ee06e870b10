"""Contact with the ground: rest, friction against its closed form, restitution, walls."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.environment import Environment
from vsr.episode import record, reset
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.squares.advance import advance
from vsr.physics.squares.contact import (
    AT_REST,
    SINK,
    SLOP,
    Corners,
    Mobility,
    Motion,
    Pose,
    corner_heights,
    resolve_contact,
)
from vsr.physics.squares.geometry import center, kinetic_energy, mass_corners, mass_motion, rest_state
from vsr.robot import Body, Material
from vsr.scene import Scene
from vsr.terrain import Columns, Flat, Terrain, Uphill
from vsr.terrain.surface import nearest_surface
from vsr.world.placement import Placement, move_rigidly, place

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


@pytest.mark.slow
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


@pytest.mark.slow
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


# What does not depend on the substep


@pytest.mark.slow
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


@pytest.mark.slow
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


# Single impacts of rigid clusters


class Impacts(NamedTuple):
    """Rectangles whose lowest corner is 0.1 mm in level ground, moving at random; axes (corners, impacts)."""

    pose: Pose
    mobility: Mobility
    corners: Corners
    heights: jax.Array
    motion: Motion
    levers: np.ndarray

    @staticmethod
    def random(size, friction, restitution, count=20_000, depth=1e-4):
        """size: of the rectangle [m]; friction, restitution: coefficients from which each impact has one."""
        draw = np.random.default_rng(int(100 * size[0]))
        offset = 0.5 * np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]]) * np.array(size)[:, None]
        angle = draw.uniform(0, 2 * np.pi, count)
        cosine, sine = np.cos(angle), np.sin(angle)
        up = sine * offset[0][:, None] + cosine * offset[1][:, None]
        gyration = (size[0] ** 2 + size[1] ** 2) / 12
        like = partial(jnp.asarray, dtype=jnp.float32)
        pose = Pose(like(0 * angle), like(-up.min(0) - depth), like(cosine), like(sine))
        chosen = [np.tile(draw.choice(values, count), (4, 1)) for values in (friction, restitution)]
        across = (np.repeat(part[:, None], count, 1) for part in offset)
        corners = Corners(*map(like, across), like(np.zeros((4, count))), *map(like, chosen))
        motion = Motion(*(like(draw.normal(0, 3 * scale, count)) for scale in (1, 1, gyration**-0.5)))
        ground = partial(nearest_surface, Terrain.of(np.array([-9.0, 9.0]), np.zeros(2)))
        heights = corner_heights(ground, corners.offset_x, corners.offset_y, corners.lift, pose)
        mobility = Mobility(*(like(np.full(count, value)) for value in (1, 1 / gyration, gyration)))
        levers = cosine * offset[0][:, None] - sine * offset[1][:, None]
        return Impacts(pose, mobility, corners, heights, motion, levers)

    def after(self, motion=None, *, sticking="resting", substep=1e-6):
        """Motion after contact and the nudge; motion: that after the forces of the substep, if there are any."""
        ground = partial(nearest_surface, Terrain.of(np.array([-9.0, 9.0]), np.zeros(2)))
        later = self.motion if motion is None else motion
        numbers = self.mobility, self.corners, self.heights, self.pose, self.motion, later
        return jax.jit(partial(resolve_contact, ground, substep=substep, sticking=sticking))(*numbers)

    def energy(self, motion):
        """Twice of motion, over mass."""
        x, y, spin, gyration = (np.asarray(part, float) for part in (*motion, self.mobility.gyration))
        return x**2 + y**2 + gyration * spin**2

    def leaving(self, motion):
        """Speed of the lowest corner along the normal."""
        lowest = np.asarray(self.heights).argmin(0)
        return np.asarray(motion.y) + np.asarray(motion.spin) * np.take_along_axis(self.levers, lowest[None], 0)[0]


@pytest.mark.parametrize("size", [(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)])
def test_impacts_never_add_energy(size):
    """Newton's restitution with friction would: a square on a corner from 0.8 on, by up to 56 % (Kane's paradox)."""
    impacts = Impacts.random(size, friction=(0.0, 0.5, 1.3, 4.47), restitution=(0.1, 0.5, 0.8, 0.9, 1.0))
    for sticking in ("resting", "in_contact", "approaching"):
        after, _ = impacts.after(sticking=sticking)
        gained = impacts.energy(after) / impacts.energy(impacts.motion) - 1
        assert gained.max() < 1e-5
        assert (gained < -0.01).mean() > 0.3, "most of those that hit the ground lose some"
        hit = (np.asarray(impacts.motion.y) != np.asarray(after.y)) & (impacts.leaving(impacts.motion) < -1)
        assert np.quantile(impacts.leaving(after)[hit], 0.001) > -0.2, "they do not go on into the ground"


def test_without_friction_the_corner_leaves_with_its_restitution():
    impacts = Impacts.random((1.0, 1.0), friction=(0.0,), restitution=(0.3, 1.0))
    came, e = impacts.leaving(impacts.motion), np.asarray(impacts.corners.restitution)[0]
    one_only = np.sort(np.asarray(impacts.heights), 0)[1] > 0
    fast = (came < -1.01) & one_only
    left = impacts.leaving(impacts.after()[0])
    np.testing.assert_allclose(left[fast], -(e * came)[fast], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_corners_that_leave_are_let_go():
    """Friction of 4.47 could stop some of them dead, and Coulomb's law would hold (Painlevé); only `touching` does."""
    impacts = Impacts.random((1.0, 1.0), friction=(4.47,), restitution=(0.1,))
    one_only = np.sort(np.asarray(impacts.heights), 0)[1] > 0.1
    substep = 1 / 360

    def stopped(sticking, faster):
        leaves = (impacts.leaving(impacts.motion) > faster) & one_only
        after, _ = impacts.after(sticking=sticking, substep=substep)
        return (np.asarray(after.spin) != np.asarray(impacts.motion.spin))[leaves].mean()

    assert stopped("approaching", 0) == 0
    assert stopped("resting", AT_REST * substep) == 0
    assert stopped("in_contact", AT_REST * substep) > 0.05


def test_a_corner_at_rest_may_stick_though_forces_pull_it_off():
    """What was resting goes on sticking where friction can hold it, as in the original; `approaching` lets go."""
    impacts = Impacts.random((1.0, 1.0), friction=(4.47,), restitution=(0.1,))
    still = Motion(*(0 * part for part in impacts.motion))
    pulled, impacts = impacts.motion, impacts._replace(motion=still)
    leaves = impacts.leaving(pulled) > 0

    def held(sticking):
        after, _ = impacts.after(pulled, sticking=sticking)
        return (np.asarray(after.spin) != np.asarray(pulled.spin))[leaves].mean()

    assert held("approaching") == 0
    assert held("resting") == held("in_contact") > 0.05


def test_corners_that_bounce_are_not_pushed_out():
    for restitution, expected in ((0.0, 1), (0.5, 0)):
        impacts = Impacts.random((1.0, 1.0), friction=(0.5,), restitution=(restitution,), count=200, depth=0.05)
        fast = impacts.leaving(impacts.motion) < -1.01
        _, nudge = impacts.after()
        assert (np.asarray(nudge[1])[fast] > 0).mean() == expected


# Walls


@pytest.mark.slow
@pytest.mark.parametrize("masses", ["squares", "points"])
@pytest.mark.parametrize("speed", [25.0, 60.0])
def test_a_wall_stops_what_passes_its_side_within_a_substep(masses, speed):
    """The side of a step is 6 cm wide. What got behind it was put on the top, meters above."""
    wall = Columns(heights=(0.0,) * 10 + (6.0,) * 10, width=3.0)
    body = Body(shape="a", engine=masses, materials={"a": Material(linear_damping=0.0, friction=0.0)})
    model, terrain = assemble_body(body), wall.build()
    engine = engine_of(model)
    start = place(model, terrain, Placement(left=20.0, clearance=0.0, velocity=(speed, 0.0)))
    around = Environment(gravity=jnp.float32(GRAVITY), terrain=terrain)

    @jax.jit
    def thrown(state):
        def piece(state, _):
            state, _ = engine.advance(model, around, state, jnp.zeros((1, 1, 1)), substep=SUBSTEP, count=1)
            return state, engine.vertices(model, state).position

        return jax.lax.scan(piece, state, length=480)[1]

    place_of = np.asarray(thrown(start))
    jump = np.abs(np.diff(place_of, axis=0)).max()
    assert jump < 2 * speed * SUBSTEP, "nothing moves farther in a substep than it can"
    assert place_of[..., 0].max() < 30.06 + 2 * speed * SUBSTEP, "and no deeper into the wall"
    assert place_of[-1, ..., 0].max() < 30.0, "it ends in front of it"
