"""Machines among grains: cameras, kinematics, rewards, passages, and episodes that fail as they should."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr.environment import Environment
from vsr.envs.machines import bulldozing, excavation, gear_tower
from vsr.envs.machines.cameras import Eye, Sky, footprint
from vsr.envs.machines.cameras import eye_view as eye_view_of
from vsr.envs.machines.cameras import sky_view as sky_view_of
from vsr.envs.machines.excavation import FORE, SEVEN_JOINTS, SHOULDER, UPPER, WRIST, planar_angles
from vsr.envs.machines.gear_tower import Gear
from vsr.envs.machines.grounds import block, moved_material
from vsr.envs.machines.kinematic_bodies import leading_to, pacing
from vsr.evo.evolution_strategy import EvolutionStrategy, ask, centered_ranks, start, tell
from vsr.physics.failure import Failure
from vsr.physics.granular import Body, Box, Steady, at_rest, fixed, grains_of
from vsr.physics.granular.bodies import turn_by
from vsr.physics.granular.model import in_order, momentum
from vsr.physics.granular.passages import passage, passed
from vsr.physics.granular.step import step as step_grains
from vsr.sdf import Ball, Block, HalfSpace

eye_view = jax.jit(eye_view_of, static_argnames=("camera", "ground"))
sky_view = jax.jit(sky_view_of, static_argnames=("camera", "ground"))
WIDE = Box((-4.0, -4.0, 0.0), (8.0, 8.0, 4.0), (False, False, False))


def scattered(count=40, radius=0.1, seed=0, **options):
    place = np.random.default_rng(seed).uniform([-2, -2, 0.1], [2, 2, 1.5], (count, 3))
    return grains_of(place, radius, 1.0, box=WIDE, grounded=False, **options)


@pytest.fixture(scope="module")
def dozer():
    """A small heap and its compiled step; of the vehicle only the main parts, which compile sooner."""
    scenario = bulldozing.scenario(60, radius=0.08, duration=0.3)
    parts = block((0.4, 0.3, 0.14), (0.0, 0.0, 0.14)), block((0.025, 0.4, 0.15), (0.475, 0.0, 0.15))
    simple = [fixed(part, (0.0, 0.0, 0.0)) for part in parts]
    grains = replace(scenario.grains, bodies=(*scenario.grains.bodies[:3], *simple))
    return replace(scenario, grains=grains), jax.jit(bulldozing.step)


# Cameras


def nearest_hit(origin, direction, centers, radius):
    """Brute force: how far along a ray the first sphere is, in lengths of its direction."""
    a = direction @ direction
    best = np.inf
    for center in centers:
        b = direction @ (center - origin) / a
        miss = center - origin - b * direction
        inside = (radius**2 - miss @ miss) / a
        if inside > 0:
            best = min(best, b - np.sqrt(inside))
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_an_eye_sees_what_rays_meet(seed):
    camera = Eye(pixels=(14, 18), half_angle=0.6, near=0.4, far=6.0)
    grains = scattered(seed=seed)
    turned = turn_by(jnp.array([0.1, 0.35, 0.4 + seed]))
    pose = at_rest(jnp.array([-2.2, -0.7, 1.2]), turned)
    shape = Ball(jnp.asarray(0.5))
    body = fixed(shape, (0.6, 0.2, 0.4))
    seen = np.asarray(eye_view(camera, pose, grains, grains.start, [(body, body.motion.at)], ground=0.0))
    origin, axes = np.asarray(pose.position, float), np.asarray(pose.rotation, float)
    centers = np.asarray(grains.start.position.T, float)
    centers = centers[(centers - origin) @ axes[:, 0] > camera.near]
    left, up = (np.asarray(part, float) for part in camera.rays())
    for row, column in np.ndindex(camera.pixels):
        ray = axes @ [1.0, left[row, column], up[row, column]]
        found = min(nearest_hit(origin, ray, centers, 0.1), nearest_hit(origin, ray, [np.array([0.6, 0.2, 0.4])], 0.5))
        if ray[2] < 0:
            found = min(found, -origin[2] / ray[2])
        assert abs(seen[row, column] - min(found, camera.far)) < 2e-3, (row, column)
    assert len(np.unique(np.round(seen, 2))) > 20


def test_no_outline_is_wider_than_its_footprint():
    camera = Eye(pixels=(40, 40), half_angle=0.8, near=0.35, far=6.0)
    rows, columns = footprint(camera, 0.1)
    random = np.random.default_rng(3)
    left, up = (np.asarray(part) for part in camera.rays())
    widest = 0
    for _ in range(300):
        ahead = random.uniform(0.35, 0.4)
        center = np.array([ahead, *(ahead * random.uniform(-1.2, 1.2, 2))])
        ray = np.stack([np.ones_like(left), left, up], -1)
        along = (ray @ center) / (ray**2).sum(-1)
        hit = ((center - along[..., None] * ray) ** 2).sum(-1) < 0.1**2
        if hit.any():
            tall, wide = hit.any(1).sum(), hit.any(0).sum()
            widest = max(widest, tall, wide)
            assert tall <= rows
            assert wide <= columns
    assert widest >= rows - 2  # the bound is no waste either


@pytest.mark.slow
@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_the_sky_sees_the_highest_point_of_each_pixel(radius):
    camera = Sky((-2.0, -1.0), (2.0, 1.0), 3.0, (16, 8))
    grains = scattered(25, radius)
    body = fixed(Block(jnp.array([0.4, 0.3, 0.2])), (0.5, 0.0, 0.2))
    seen = np.asarray(sky_view(camera, grains, grains.start, [(body, body.motion.at)]))
    fine = 40  # rays along each side of a pixel
    side = 0.25
    highest = np.zeros((16, 8))
    for x, y, z in np.asarray(grains.start.position.T, float):
        for i, j in np.ndindex(16, 8):
            px = -2 + side * (i + np.linspace(0, 1, fine))
            py = -1 + side * (j + np.linspace(0, 1, fine))
            rise = radius**2 - (px[:, None] - x) ** 2 - (py - y) ** 2
            if (rise > 0).any():
                highest[i, j] = max(highest[i, j], z + np.sqrt(rise.max()))
    middle_x, middle_y = (np.asarray(part) for part in camera.middles())
    block = (np.abs(middle_x - 0.5) < 0.4)[:, None] & (np.abs(middle_y) < 0.3)
    highest = np.where(block, np.maximum(highest, 0.4), highest)
    # Rays miss the rim of a ball, where it is steep: by the root of what they are apart.
    assert (3 - seen - highest >= -2e-3).all()
    assert np.abs(3 - seen - highest).max() < np.sqrt(2 * radius * side / fine)
    assert np.median(np.abs(3 - seen - highest)) < 1e-3


def test_cameras_see_nothing_of_grains_that_are_nowhere():
    grains = scattered(5)
    lost = replace(grains.start, position=jnp.full_like(grains.start.position, jnp.nan))
    assert bool((sky_view(Sky((-1.0, -1.0), (1.0, 1.0), 3.0, (4, 4)), grains, lost) == 3).all())
    view = eye_view(Eye(pixels=(4, 4)), at_rest(jnp.zeros(3)), grains, lost, ground=None)
    assert bool((view == 8).all())


# Kinematics


def test_an_arm_in_a_plane_adds_up():
    bend = jnp.array([0.0, 0.3, 0.0, 0.9, 0.0, 1.1, 0.0])
    poses = SEVEN_JOINTS.poses(bend)
    a, b, c = 0.3, 1.2, 2.3
    x = UPPER * np.sin(a) + FORE * np.sin(b) + WRIST * np.sin(c)
    z = SHOULDER + UPPER * np.cos(a) + FORE * np.cos(b) + WRIST * np.cos(c)
    np.testing.assert_allclose(poses[-1].position, [x, 0, z], atol=1e-6)
    np.testing.assert_allclose(poses[-1].rotation[:, 2], [np.sin(c), 0, np.cos(c)], atol=1e-6)
    about = SEVEN_JOINTS.poses(bend.at[0].set(0.7))
    np.testing.assert_allclose(about[-1].position, [x * np.cos(0.7), x * np.sin(0.7), z], atol=1e-6)


@pytest.mark.parametrize("joint", [0, 2, 4, 6])
def test_rolls_leave_what_lies_on_their_axis(joint):
    rolled = SEVEN_JOINTS.poses(jnp.zeros(7).at[joint].set(1.0))
    np.testing.assert_allclose(rolled[-1].position, [0, 0, SHOULDER + UPPER + FORE + WRIST], atol=1e-6)
    np.testing.assert_allclose(rolled[-1].rotation[:2, 0], [np.cos(1), np.sin(1)], atol=1e-6)


def test_angles_that_reach_a_place():
    poses = SEVEN_JOINTS.poses(jnp.asarray(planar_angles(0.6, 0.4, 2.9)))
    np.testing.assert_allclose(poses[-1].position, [0.6, 0, 0.4], atol=1e-6)
    np.testing.assert_allclose(poses[-1].rotation[:, 2], [np.sin(2.9), 0, np.cos(2.9)], atol=1e-6)
    with pytest.raises(ValueError, match="out of the arm's reach"):
        planar_angles(2.0, 0.4, 2.9)


def test_joints_stop_at_their_limits():
    after = SEVEN_JOINTS.turned(jnp.asarray(SEVEN_JOINTS.high) - 0.01, jnp.ones(7), 0.1)
    np.testing.assert_allclose(after, SEVEN_JOINTS.high, atol=1e-6)


def test_steady_motion_leads_from_pose_to_pose():
    first = at_rest(jnp.array([0.1, 0.2, 0.3]), turn_by(jnp.array([0.3, -0.2, 0.5])))
    last = at_rest(jnp.array([0.15, 0.1, 0.3]), turn_by(jnp.array([0.4, -0.1, 0.7])))
    arrived = Steady(leading_to(first, last, 0.05)).pose(jnp.asarray(0.05))
    np.testing.assert_allclose(arrived.position, last.position, atol=1e-6)
    np.testing.assert_allclose(arrived.rotation, last.rotation, atol=2e-6)


def test_tracks_drive_on_arcs():
    whole = bulldozing.driven_to(jnp.array([0.0, 0.0, 0.2]), jnp.array([0.8, 0.6]), 1.0, 0.0)
    bent, radius = 0.6 * bulldozing.TOP_TURN, 0.8 * bulldozing.TOP_SPEED / (0.6 * bulldozing.TOP_TURN)
    x, y = radius * (np.sin(0.2 + bent) - np.sin(0.2)), radius * (np.cos(0.2) - np.cos(0.2 + bent))
    np.testing.assert_allclose(whole, [x, y, 0.2 + bent], atol=1e-6)
    straight = bulldozing.driven_to(jnp.zeros(3), jnp.array([1.0, 0.0]), 1.0, 0.0)
    np.testing.assert_allclose(straight, [bulldozing.TOP_SPEED, 0, 0], atol=1e-6)


def test_the_vehicle_stays_between_walls():
    place = jnp.array([3.0, 1.2, 0.3])
    for action in np.random.default_rng(0).uniform(-1, 1, (60, 2)):
        place = bulldozing.driven_to(place, jnp.asarray(action, jnp.float32), 0.1, 0.1)
        corners = np.array([(x, y, 0) for x in (-0.36, 0.6) for y in (-0.4, 0.4)])
        pose = bulldozing.pose_at(place)
        reached = np.asarray(pose.position + corners @ pose.rotation.T)[:, :2]
        assert (np.abs(reached) <= np.array([3.9, 1.9]) + 1e-5).all()


# Rewards


def test_the_reward_of_grains_in_and_out_of_the_goal():
    place = jnp.array([[2.0, 0.0, 0.1], [0.0, 0.0, 0.1], [3.0, 3.0, 0.1], [0.0, 2.0, 0.1]]).T
    reported = moved_material(place, *bulldozing.GOAL)
    assert float(reported) == pytest.approx((100 - 1 - 2 - np.sqrt(2)) / 4, rel=1e-6)


# Passages


def pipe(count, high, velocity=None, radius=0.1):
    place = np.random.default_rng(0).uniform([0, 0, -1], [1, 1, 3], (count, 3))
    grains = grains_of(place, radius, 1.0, box=Box((0, 0, -1.0), (1, 1, 5.0), (False,) * 3), grounded=False)
    outlet = HalfSpace(jnp.array([0.0, 0.0, 1.0]), jnp.zeros(()))
    return grains, passage(grains, outlet, (0.0, 0.0, 3.2), (1.0, 1.0, high), velocity)


@pytest.mark.slow
def test_a_passage_keeps_all_grains_and_overlaps_none():
    grains, through = pipe(60, 4.0, (0.0, 0.0, -1.0))
    before = replace(grains.start, impulse=jnp.ones_like(grains.start.impulse))
    neighbor = before.neighbor.at[0].set(jnp.roll(jnp.arange(60), 1))
    before = replace(before, neighbor=neighbor)
    left = np.asarray(before.position[2] < 0)
    after, moved = jax.jit(passed)(through, grains, before)
    assert int(moved) == left.sum() > 5
    assert after.position.shape == before.position.shape
    assert bool(jnp.isfinite(after.position).all())
    np.testing.assert_array_equal(after.position[:, ~left], before.position[:, ~left])
    put = np.asarray(after.position[:, left].T)
    assert (put[:, 2] >= 3.3).all()
    assert (put[:, 2] <= 3.9).all()
    others = np.asarray(after.position.T)
    for k, place in zip(np.flatnonzero(left), put, strict=True):
        assert np.linalg.norm(np.delete(others, k, 0) - place, axis=1).min() > 0.2
    np.testing.assert_array_equal(after.velocity[:, left].T, [[0, 0, -1]] * left.sum())
    touched = left | np.roll(left, 1)
    assert not np.asarray(after.impulse[0][:, touched]).any()
    assert np.asarray(after.impulse[0][:, ~touched]).all()
    assert not np.isfinite(np.asarray(after.listed_at[:, left])).any()


@pytest.mark.slow
def test_grains_without_a_place_wait():
    grains, through = pipe(120, 3.5)
    state, waiting = grains.start, int((grains.start.position[2] < 0).sum())
    assert waiting > through.capacity
    once, moved = jax.jit(passed)(through, grains, state)
    assert int(moved) <= through.capacity
    again, more = jax.jit(passed)(through, grains, once)
    assert int(more) == 0  # all places are taken now
    assert int((again.position[2] < 0).sum()) == waiting - int(moved)
    np.testing.assert_array_equal(once.position, again.position)


def test_an_inlet_must_hold_a_grain():
    with pytest.raises(ValueError, match="holds no grain"):
        pipe(5, 3.3)


# Gears


def test_a_gear_is_as_far_as_its_surface():
    gear = Gear(teeth=8, outer=0.3, width=0.2)
    sampled = gear.sampled(0.02, 0.06)
    random = np.random.default_rng(0)
    points = random.uniform([-0.34, -0.34, -0.14], [0.34, 0.34, 0.14], (400, 3))
    surface = gear.surface(0.004)
    away = np.array([np.linalg.norm(surface - point, axis=1).min() for point in points])
    exact = np.where(gear.holds(points), -away, away)
    found = np.asarray(sampled.distance(tuple(jnp.asarray(points.T, jnp.float32))))
    assert np.abs(found - exact).max() < 0.02
    assert np.abs(found - exact).mean() < 0.003


def test_teeth_are_involutes():
    """At the pitch circle a tooth is as wide as a gap; a point of the flank unwinds from the base circle."""
    gear = Gear(teeth=12)
    assert float(gear.half_tooth(np.array(gear.pitch))) == pytest.approx(np.pi / 24)
    base = gear.pitch * np.cos(np.radians(20))
    unwound = np.array([0.2, 0.4])  # angles through which a string was unwound
    radius, turn = base * np.hypot(1, unwound), unwound - np.arctan(unwound)
    halves = gear.half_tooth(radius)
    np.testing.assert_allclose(np.diff(halves), -np.diff(turn), atol=1e-12)


# Episodes


@pytest.mark.full
def test_worlds_together_are_worlds_alone(dozer):
    scenario, step = dozer
    keys = jax.random.split(jax.random.key(1), 2)
    actions = jnp.array([[1.0, 0.3], [0.5, -1.0]])
    trials = jax.vmap(bulldozing.reset, (0, None))(keys, scenario)
    near = trials.place.at[:, 0].set(-2.65)  # so that the blade meets the heap
    trials = replace(trials, place=near)
    together, reported = jax.jit(jax.vmap(bulldozing.step, (None, 0, 0)))(scenario, trials, actions)
    for number in range(2):
        alone, one = step(scenario, jax.tree.map(lambda part, n=number: part[n], trials), actions[number])
        np.testing.assert_array_equal(alone.place, together.place[number])
        same = together.grains.position[number]
        np.testing.assert_allclose(alone.grains.position, same, atol=1e-5)
        np.testing.assert_allclose(one.reward, reported.reward[number], rtol=1e-5)
        again, _ = step(scenario, jax.tree.map(lambda part, n=number: part[n], trials), actions[number])
        np.testing.assert_array_equal(alone.grains.position, again.grains.position)


@pytest.mark.full
def test_a_blade_pushes_the_heap_and_feels_it(dozer):
    scenario, step = dozer
    state = bulldozing.reset(jax.random.key(0), scenario)
    state = replace(state, place=jnp.array([-2.7, 0.0, 0.0]))
    before = float(state.grains.position[0].mean())
    for count in range(3):
        state, reported = step(scenario, state, jnp.array([1.0, 0.0]))
        assert bool(reported.truncated) == (count == 2)
    assert float(state.grains.position[0].mean()) > before + 0.005
    assert float(state.felt.force[1, 0]) < -10
    assert not bool(reported.terminated)
    assert float(reported.reward) == pytest.approx(float(moved_material(state.grains.position, *bulldozing.GOAL)))
    seen = jax.jit(bulldozing.observe)(scenario, state)
    assert seen.ego.shape == (36, 36)
    assert seen.sky.shape == (72, 36)
    assert float(seen.force[0]) == pytest.approx(float(state.felt.force.sum(0)[0]), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "failure"),
    [
        pytest.param(
            lambda grains: replace(grains, overflow=jnp.array([0, 1, 0, 0])),
            Failure.contact_overflow,
            marks=pytest.mark.full,
        ),
        (lambda grains: replace(grains, velocity=grains.velocity.at[0, 0].set(jnp.nan)), Failure.not_finite),
    ],
)
def test_a_failure_ends_the_episode(dozer, spoil, failure):
    scenario, step = dozer
    state = bulldozing.reset(jax.random.key(0), scenario)
    state, reported = step(scenario, replace(state, grains=spoil(state.grains)), jnp.zeros(2))
    assert int(state.failure) == failure
    assert bool(reported.terminated)
    assert float(reported.reward) == 0


@pytest.mark.full
def test_what_bodies_feel_is_what_grains_lose():
    """Free fall onto a driven plate: momentum of grains changes by weight and minus the reaction, step by step."""
    grains = scattered(30, 0.15, bodies=[fixed(Block(jnp.array([3.0, 3.0, 0.3])), (0.0, 0.0, 0.0))])
    lifting = Steady(
        replace(at_rest(jnp.zeros(3)), velocity=jnp.array([0.3, 0.0, 1.0]), spin=jnp.array([0.0, 0.0, 2.0]))
    )
    body = grains.bodies[0]
    grains = replace(grains, bodies=(Body(body.shape, body.friction, lifting),))
    space = Environment(gravity=jnp.asarray(9.81), terrain=None)
    state = grains.start

    @jax.jit
    def one(state):
        return step_grains(grains, space, state, (), 0.002)

    felt = jnp.zeros(3)
    for _ in range(40):
        state, _, (reaction,) = one(state)
        felt = felt + reaction.impulse
    gained = momentum(grains, state) - jnp.array([0.0, 0.0, -9.81 * 0.002 * 40 * 30])
    assert float(jnp.abs(felt).max()) > 1
    np.testing.assert_allclose(gained, -felt, atol=2e-4)


@pytest.mark.parametrize("scenario", [bulldozing.scenario, gear_tower.scenario, excavation.scenario])
def test_impossible_machines_are_refused(scenario):
    with pytest.raises(ValueError, match="above 0"):
        scenario(count=10, radius=0.0)
    with pytest.raises(ValueError, match="above 0"):
        scenario(count=10, radius=0.1, duration=0.0)


def test_pacing_rounds_up():
    assert pacing(1.0, 0.3, 0.02, 0.1).limit == 4
    assert pacing(1.0, 0.1, 0.02, 0.1).substep < 0.018 * np.sqrt(0.02 / 9.81)
    assert pacing(1.0, 0.1, 0.02, 0.1, substeps=7).substeps == 7


@pytest.mark.full
def test_gears_carry_grains_down_and_lose_none():
    scenario = gear_tower.scenario(1, 150, radius=0.035, duration=1.5)
    state, step = gear_tower.reset(jax.random.key(0), scenario), jax.jit(gear_tower.step)
    for _ in range(scenario.pace.limit):
        state, reported = step(scenario, state, jnp.ones(1))
    assert bool(reported.truncated)
    assert int(state.failure) == 0
    assert int(state.flowed) > 50
    np.testing.assert_array_equal(np.sort(state.grains.id), np.arange(150))
    assert bool(jnp.isfinite(in_order(state.grains.position, state.grains)).all())
    assert float(state.felt.torque[0, 2]) * float(state.spin[0]) < 0  # grains hold it back
    assert float(gear_tower.observe(scenario, state).filling.sum()) == pytest.approx(1)


@pytest.mark.full
def test_a_bucket_bears_what_lies_in_it():
    scenario = excavation.scenario(30, radius=0.02, duration=1.0)
    state, step = excavation.reset(jax.random.key(0), scenario), jax.jit(excavation.step)
    # The bucket open towards the sky, and three grains dropped into it.
    angle = jnp.asarray(planar_angles(0.6, 0.5, 1.5 * np.pi), jnp.float32)
    bucket = excavation.links_at(angle)[2]
    inside = np.array([[0.02, -0.04, 0.09], [0.02, 0.0, 0.09], [0.02, 0.04, 0.09]])
    place = (bucket.position + jnp.asarray(inside, jnp.float32) @ bucket.rotation.T).T
    grains = replace(state.grains, position=state.grains.position.at[:, :3].set(place))
    grains = replace(grains, impulse=jnp.zeros_like(grains.impulse), body_impulse=jnp.zeros_like(grains.body_impulse))
    state = replace(state, angle=angle, grains=grains)
    for _ in range(12):
        state, reported = step(scenario, state, jnp.zeros(7))
    load = float(excavation.load(scenario.grains, state))
    assert load == pytest.approx(3 * float(scenario.grains.mass), rel=1e-5)
    assert float(state.felt.force[2, 2]) == pytest.approx(-9.81 * load, rel=0.02)
    assert float(reported.reward) > 5  # a tenth of the grains is in the goal
    down = jnp.zeros(7).at[1].set(1.0)
    for _ in range(20):
        state, _ = step(scenario, state, down)
    assert bool(state.blocked)
    corners = np.asarray(excavation.links_at(state.angle)[2].position)
    assert corners[2] > 0.06
    seen = jax.jit(excavation.observe)(scenario, state)
    assert seen.depth.shape == (36, 36)


# Training


@pytest.mark.slow
def test_a_strategy_climbs_a_hill():
    settings = EvolutionStrategy(population_size=20, spread=0.1, rate=0.1)
    state = start(jax.random.key(0), jnp.zeros(6))
    top = jnp.arange(6.0) / 3
    np.testing.assert_allclose(ask(settings, state).mean(0), state.mean, atol=1e-6)  # opposite pairs

    @jax.jit
    def generation(state):
        return tell(settings, state, -((ask(settings, state) - top) ** 2).sum(1))

    for _ in range(60):
        state = generation(state)
    assert float(jnp.abs(state.mean - top).max()) < 0.3


def test_ranks_are_level_where_fitness_is():
    np.testing.assert_allclose(
        centered_ranks(jnp.array([3.0, 1.0, 3.0, -jnp.inf])), [1 / 3, -1 / 6, 1 / 3, -0.5], atol=1e-6
    )
    assert not np.asarray(centered_ranks(jnp.ones(4))).any()
    with pytest.raises(ValueError, match="even"):
        EvolutionStrategy(population_size=3)


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["bulldozing", "--population", "3"], "even number"),
        (["bulldozing", "--grains", "1"], "10<=x"),
        (["bulldozing", "--seconds", "0"], "0<x<=3600"),
        (["bulldozing", "--resume"], "no run to go on with"),
        (["digging"], "bulldozing"),
    ],
)
def test_bad_input_is_told(tmp_path, arguments, reported):
    result = CliRunner().invoke(cli.main, ["train", *arguments, "--out", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert reported in result.output


@pytest.mark.full
def test_training_leaves_a_folder_and_goes_on(tmp_path):
    import json

    out = tmp_path / "run"
    size = ["--population", "2", "--grains", "40", "--seconds", "0.2", "--trials", "1", "--out", str(out)]
    first = CliRunner().invoke(cli.main, ["train", "bulldozing", "--generations", "1", *size])
    assert first.exit_code == 0, first.output
    assert {path.name for path in out.iterdir()} == {
        "settings.json",
        "curve.json",
        "curve.png",
        "search.npz",
        "policy.npz",
        "film.gif",
    }
    twice = CliRunner().invoke(cli.main, ["train", "bulldozing", "--generations", "1", *size])
    assert twice.exit_code == 2
    more = CliRunner().invoke(cli.main, ["train", "bulldozing", "--generations", "2", "--resume", "--no-film", *size])
    assert more.exit_code == 0, more.output
    assert [row["generation"] for row in json.loads((out / "curve.json").read_text())] == [0, 1]
