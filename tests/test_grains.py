"""Grains: friction, conservation, rest, cyclic boxes, bodies, robots, beds. Small clouds, so that tests are quick."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr.environment import Environment
from vsr.episode import observe, reset, rollout
from vsr.episode import step as step_episode
from vsr.evidence.validate.sand import contacts, scenes, solids
from vsr.physics.failure import Failure
from vsr.physics.granular import Box, bed, cells, driven, fixed, free, grains_of
from vsr.physics.granular.cells import allowed, has_moved, listed, where_needed
from vsr.physics.granular.model import angular_momentum, in_order, momentum
from vsr.physics.granular.robots import contacts_needed, samples_needed
from vsr.physics.granular.solver import neighbors
from vsr.physics.granular.step import step
from vsr.physics.granular.system import overflow_advice
from vsr.robot import Body
from vsr.scene import Scene, simulate
from vsr.sdf import Ball, Block, HalfSpace
from vsr.sensors import Sensor
from vsr.spec import InfeasibleError
from vsr.tasks import Locomotion
from vsr.terrain import Flat, Sand
from vsr.terrain.surface import Terrain
from vsr.world.build import build_beds
from vsr.world.placement import Placement
from vsr.world.spec import Robot, World

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SPACE = scenes.free_space(0.0)
SMALL_SAND = Sand(radius=0.6, depth=1.8, period=16.0, settle=2.0)


def holds(findings):
    assert [row.name for row in findings.rows if row.passed is False] == []


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, 3])
def test_friction_holds_up_to_its_angle_and_slides_beyond(dimension):
    holds(contacts.check_incline(dimension))


@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.full)])
def test_momentum_stays_energy_falls_and_a_boost_changes_nothing(dimension):
    holds(contacts.check_conservation(dimension))


@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.full)])
def test_two_grains_that_meet_keep_their_momenta_and_gain_no_energy(dimension):
    """Random pairs of spinning grains of different size and roughness, with and without rolling resistance."""
    cases, steps = 100, 40
    random = np.random.default_rng(7)
    box = Box((-1.0,) * dimension, (2.0,) * dimension, (False,) * dimension)
    radius = np.array([0.02, 0.03])
    mass = 1000 * radius**dimension
    pair = grains_of(np.eye(2, dimension), radius, mass, box=box, grounded=False)
    way = random.normal(size=(cases, dimension))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    position = np.stack([0 * way, (radius.sum() + random.uniform(0, 0.002, (cases, 1))) * way], 2)
    velocity = random.normal(0, 0.5, (cases, dimension, 2)) + np.stack([way, -way], 2)
    spin = random.normal(0, 50, (cases, 2 * dimension - 3, 2))
    resisting = np.arange(cases) % 3 > 0
    number = {"friction": random.uniform(0, 2, cases), "rolling": random.uniform(0, 0.5, cases) * resisting}

    def met(position, velocity, spin, number):
        grains = replace(pair, **number)
        start = replace(grains.rest_state(), position=position, velocity=velocity, spin=spin)

        def one(state, _):
            state = step(grains, SPACE, state, (), scenes.STEP)[0]
            return state, scenes.kinetic_energy(grains, state)

        end, energies = jax.lax.scan(one, start, None, steps)
        momenta = [(momentum(grains, state), angular_momentum(grains, state)) for state in (start, end)]
        pushed = jnp.abs(in_order(end.velocity, end) - velocity).max()
        return scenes.kinetic_energy(grains, start), energies, momenta, pushed

    given = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), (position, velocity, spin, number))
    begun, energies, ((linear, angular), (moved, turned)), pushed = jax.jit(jax.vmap(met))(*given)
    assert float(jnp.median(pushed)) > 0.5  # they met
    scale = float((mass * np.abs(velocity).max(1)).sum(1).mean())
    assert float(jnp.abs(moved - linear).max()) < 1e-6 * scale
    # Grains meet a gap before they touch, which friction has no lever for: a share of a step's way over a radius.
    assert float(jnp.abs(turned - angular).max()) < 5e-3 * scale * radius.sum()
    assert float((energies.max(1) / begun).max()) < 1 + 1e-5  # in no step is there more than at the start
    assert float(jnp.median(energies[:, -1] / begun)) < 0.9


@pytest.mark.slow
def test_a_column_comes_to_rest_and_lies_still():
    findings = contacts.check_rest(2, 60, 4, settle=3.0, watched=2.0)
    holds(findings)
    assert findings.rows[0].measured > 0  # there are contacts at all


@pytest.mark.full
def test_without_kept_impulses_a_column_does_not_lie_still():
    """What warm starting is for: the check above can fail."""
    grains = scenes.in_container(2, 60, (8.8 * scenes.RADIUS, 4.0))
    space = scenes.free_space()

    def cold(_, state):
        state = replace(
            state, impulse=0 * state.impulse, body_impulse=0 * state.body_impulse, received=0 * state.received
        )
        return step(grains, space, state, (), scenes.STEP)[0]

    settled = bed.lie_down(grains, bed.settling(grains, space, scenes.STEP), 2000)
    later = jax.jit(lambda state: jax.lax.fori_loop(0, 2000, cold, state))(settled)
    assert contacts.way(grains, settled, later) > 0.01


@pytest.mark.slow
def test_runs_repeat_to_the_last_bit_and_worlds_do_not_see_each_other():
    grains = contacts.cloud(2, 60)
    first = grains.rest_state()
    faster = replace(first, velocity=1.5 * first.velocity)
    run = lambda state: scenes.run(grains, SPACE, state, 60)  # noqa: E731
    once, again = run(first), run(first)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), once, again))
    both = jax.jit(jax.vmap(run))(jax.tree.map(lambda a, b: jnp.stack([a, b]), first, faster))
    for number, alone in enumerate((once, run(faster))):
        ours = in_order(both.position[number], jax.tree.map(lambda leaf: leaf[number], both))  # noqa: B023
        np.testing.assert_allclose(ours, in_order(alone.position, alone), atol=2e-6)


@pytest.mark.parametrize(("device", "few"), [("cpu", 0), ("gpu", 0), ("gpu", 100)])
@pytest.mark.parametrize("worlds", [(2, 3), (5, 20)])
def test_lists_are_made_where_they_are_needed_and_nowhere_else(device, few, worlds, monkeypatch):
    """Also under two `vmap`s, where a `cond` would become a selection; of few numbers all at once, of many a share."""
    monkeypatch.setattr(cells.jax, "default_backend", lambda: device)
    monkeypatch.setattr(cells, "FEW", few)
    needed = jnp.asarray(np.random.default_rng(1).integers(0, 2, worlds), bool)
    state = jnp.arange(float(needed.size)).reshape(worlds)
    done = jax.vmap(jax.vmap(lambda need, value: where_needed(lambda c, v: c + v, need, jnp.asarray(10.0), value)))(
        needed, state
    )
    np.testing.assert_array_equal(done, state + 10 * needed)


def test_on_a_gpu_worlds_rebuild_their_lists_in_the_same_steps(monkeypatch):
    grains = contacts.cloud(2, 60)
    start, duration = grains.rest_state(), scenes.STEP
    found = {}
    for device in ("cpu", "gpu"):
        monkeypatch.setattr(cells.jax, "default_backend", lambda device=device: device)
        listed_at = jnp.zeros_like(start.position)
        some = replace(start, position=listed_at.at[0, 0].set(0.3 * grains.skin), listed_at=listed_at)
        found[device] = [
            bool(has_moved(grains, state, allowed(state, duration)))
            for number in range(9)
            for state in [replace(some, time=jnp.float32(number * duration))]
        ]
    assert found["cpu"] == [False] * 9
    assert found["gpu"] == [number % cells.EVERY == 0 for number in range(9)]


@pytest.mark.slow
def test_neighbors_are_all_that_are_near():
    grains = contacts.cloud(3, 200)
    state = listed(grains, grains.rest_state())
    assert not state.overflow.any()
    position = np.asarray(state.position)
    distance = np.sqrt(((position[:, :, None] - position[:, None]) ** 2).sum(0))
    near = (distance < grains.reach) & ~np.eye(grains.count, dtype=bool)
    found = np.zeros_like(near)
    places = np.asarray(state.neighbor)
    found[np.arange(grains.count)[None].repeat(len(places), 0), places] = True
    np.fill_diagonal(found, False)
    np.testing.assert_array_equal(found, near)


@pytest.mark.slow
def test_too_few_places_are_counted_and_make_a_failure():
    position = 0.043 * np.stack(np.unravel_index(np.arange(27), (3, 3, 3)), 1)
    grains = grains_of(position, 0.02, 1.0, rolling=None, box=scenes.closed_box(3, (0.2,) * 3), grounded=False, slots=2)
    state = listed(grains, grains.rest_state())
    assert int(state.overflow[1]) == 4  # the one in the middle has six neighbors
    assert int(grains.failure(state)) == Failure.contact_overflow
    few = replace(grains, slots=15, candidates=1)
    assert int(listed(replace(few, start=grains.start), replace(state, neighbor=jnp.zeros((15, 27), jnp.int32),
               impulse=jnp.zeros((15, 3, 27)), overflow=jnp.zeros(4, jnp.int32))).overflow[0]) > 0  # fmt: skip


@pytest.mark.slow
def test_a_cyclic_box_has_no_ends():
    """Shifted by a part of the period, everything goes on as before."""
    box = Box((0.0, 0.0), (0.4, 0.4), (True, False))
    random = np.random.default_rng(2)
    place = np.stack(np.unravel_index(np.arange(28), (4, 7)), 1)[:, ::-1]
    position = 0.02 + place * [0.4 / 7, 0.05] + random.uniform(-0.004, 0.004, (28, 2))
    ground = Environment(
        gravity=jnp.float32(9.81), terrain=Terrain.of(np.array([-9.0, 9.0]), np.zeros(2), friction=0.5)
    )
    ends = []
    for shift in (0.0, 0.17):
        moved = position + np.array([shift, 0.0])
        grains = grains_of(moved, 0.02, 1.0, box=box)
        state = scenes.run(grains, ground, grains.rest_state(), 400)
        ends.append(np.asarray(in_order(state.position, state)) - [[shift], [0]])
    between = ends[1] - ends[0]
    between[0] -= 0.4 * np.round(between[0] / 0.4)
    assert np.abs(between).max() < 0.1 * 0.02
    assert ends[0][1].max() < 0.16  # they fell
    with pytest.raises(ValueError, match="three cells"):
        _ = grains_of(position, 0.1, 1.0, box=box).cells


@pytest.mark.slow
def test_turning_grains_roll_down_and_sliding_ones_stick():
    """A ball on an incline below the angle of friction: 5/7 of the acceleration without friction, and it turns."""
    angle = np.radians(15)
    normal = jnp.array([np.sin(angle), 0.0, np.cos(angle)])
    plane = fixed(HalfSpace(normal, jnp.zeros(())), (0.0, 0.0, 0.0))
    box = Box((-0.1,) * 3, (0.2,) * 3, (False,) * 3)
    speeds = {}
    for rolling in (None, 0.0):
        grains = grains_of(
            np.asarray(0.02 * normal)[None], 0.02, 1.0, rolling=rolling, box=box, bodies=[plane], grounded=False
        )
        state = scenes.run(grains, scenes.free_space(), grains.rest_state(), 600)
        speeds[rolling] = float(jnp.linalg.norm(state.velocity)), state
    assert speeds[None][0] < 1e-3
    fast, state = speeds[0.0]
    assert fast == pytest.approx(5 / 7 * 9.81 * np.sin(angle) * 600 * scenes.STEP, rel=0.02)
    assert float(jnp.linalg.norm(state.spin)) == pytest.approx(fast / 0.02, rel=0.02)


@pytest.mark.slow
def test_a_free_body_rests_on_grains_and_a_driven_one_feels_them():
    size = (0.6, 1.0)
    grains = scenes.in_container(2, 60, size)
    lying = bed.lie_down(grains, bed.settling(grains, scenes.free_space(), scenes.STEP), 1500)
    top = float(lying.position[-1].max())
    plate = free(Block(jnp.array([0.15, 0.03])), (0.3, top + 0.06), 4.0, 0.05)
    loaded = replace(grains, bodies=(*grains.bodies, plate))
    more = jnp.concatenate([lying.body_impulse, 0 * lying.body_impulse[:1]])
    state = scenes.run(loaded, scenes.free_space(), replace(lying, bodies=(plate.motion,), body_impulse=more), 2000)
    _, _, reactions = step(loaded, scenes.free_space(), state, (), scenes.STEP)
    assert float(reactions[-1].impulse[1]) / scenes.STEP == pytest.approx(4.0 * 9.81, rel=0.05)
    weight = 9.81 * (float(jnp.sum(grains.mass)) + 4.0)
    assert -sum(float(push.impulse[1]) for push in reactions[:3]) / scenes.STEP == pytest.approx(weight, rel=0.02)
    pusher = driven(Block(jnp.array([0.02, 0.2])), (0.1, 0.1), (0.3, 0.0))
    pushed = replace(grains, bodies=(*grains.bodies, pusher))
    state = scenes.run(pushed, scenes.free_space(), replace(lying, time=jnp.zeros(()), body_impulse=more), 400)
    _, _, reactions = step(pushed, scenes.free_space(), state, (), scenes.STEP)
    assert float(reactions[-1].impulse[0]) < 0  # grains push back


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squares", "points", pytest.param("3-D", marks=pytest.mark.full)])
def test_what_grains_gain_a_robot_loses(name):
    """Momentum and, since they turn, angular momentum: the wall of grains is met off the robot's center."""
    found = solids.thrown_at_grains(solids.BODIES[name], 0.3)
    assert found.given > 3.0
    assert found.drift < 2e-6 * found.given
    assert found.turning_given > 10.0
    assert found.turning_drift < 2e-4 * found.turning_given


@pytest.mark.full
def test_grains_that_do_not_turn_lose_angular_momentum():
    """As docs/do/sand.md says of `rolling: null`; and the check above can fail."""
    found = solids.thrown_at_grains(solids.BODIES["squares"], 0.3, rolling=None)
    assert found.drift < 2e-6 * found.given
    assert found.turning_drift > 0.01 * found.turning_given


def scene_on(terrain, duration=3.0, **body):
    return Scene(
        robot=Robot(body=Body(shape=("aa", "aa"), **body)),
        world=World(terrain=terrain),
        task=Locomotion(duration=duration, placement=Placement(clearance=0.1)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["squares", "points"])
def test_a_robot_stands_on_sand_and_not_on_the_ground_below(engine):
    outcome = simulate(scene_on(SMALL_SAND, engine=engine), keep_trajectory=True)
    assert not outcome.failed
    hard = simulate(scene_on(Flat(), engine=engine)).measures["average_height"]
    soft = outcome.measures["average_height"]
    assert hard - 1.0 < soft < hard + 1.0  # the surface is at 0, the ground 1.8 m below
    grains = outcome.trajectory.systems["sand"]
    lowest, *_, highest = np.asarray(grains.touched[0][-1])  # rows of voxels
    assert lowest.any()
    assert not highest.any()
    assert not np.asarray(grains.touched[0][0]).any()  # it hung over the sand at first
    assert grains.position.shape[1:] == (SMALL_SAND.count(2), 2)
    assert float(jnp.abs(grains.velocity[0]).max()) < 0.05  # the bed was at rest before, but for grains that still roll
    assert float(jnp.linalg.norm(grains.position[-1] - grains.position[0], axis=-1).max()) > 0.002  # and was pressed


@pytest.mark.slow
def test_robots_feel_grains():
    """With the sense that feels the ground; the ground itself lies deep below the sand."""
    scenario, _ = scene_on(SMALL_SAND, duration=2.0).build()
    scenario = replace(scenario, sensors=(Sensor(quantity="contact"),))
    state = jax.jit(reset)(jax.random.key(0), scenario)
    assert not observe(scenario, state).any()
    still = jnp.zeros(scenario.model.present.shape)
    state, _ = jax.lax.scan(lambda now, _: step_episode(scenario, now, still), state, None, 40)
    felt = observe(scenario, state)[0]
    assert felt[0].any()
    assert not felt[1].any()


@pytest.mark.slow
def test_sand_in_double_precision():
    scene = scene_on(SMALL_SAND, duration=0.2)
    scene = scene.model_copy(update={"physics": scene.physics.model_copy(update={"precision": "float64"})})
    outcome = simulate(scene, keep_trajectory=True)
    assert not outcome.failed
    assert outcome.trajectory.systems["sand"].position.dtype == jnp.float64


@pytest.mark.slow
def test_robots_in_a_batch_walk_as_they_do_alone():
    scenario, controller = scene_on(SMALL_SAND, duration=0.5).build()
    start = jax.jit(reset)(jax.random.key(0), scenario)
    alone = jax.jit(lambda state: rollout(scenario, controller, state))(start)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), start)
    many = jax.jit(jax.vmap(lambda state: rollout(scenario, controller, state)))(two)
    np.testing.assert_allclose(many.end, jnp.stack([alone.end] * 2), atol=1e-4)


@pytest.mark.slow
def test_friction_is_back_when_a_bed_has_fallen():
    """Beds fall without friction; numbers of pairs are kept with the list and must not keep that."""
    for friction in (0.5, np.full(60, 0.5)):
        grains = scenes.in_container(2, 60, (8.8 * scenes.RADIUS, 4.0), friction=friction, wall_friction=0.5)
        lying = bed.lie_down(grains, bed.settling(grains, scenes.free_space(), scenes.STEP), 4)
        pairs, _ = neighbors(grains, lying, scenes.STEP)
        assert np.allclose(pairs.friction, 0.5)


@pytest.mark.slow
def test_a_body_far_round_a_cyclic_box_is_met():
    box = Box((0.0, 0.0), (0.4, 0.4), (True, False))
    for away in (0.0, 0.8, -1.2):
        ball = fixed(Ball(jnp.asarray(0.03)), (0.1 + away, 0.1))
        grains = grains_of(np.array([[0.1, 0.145]]), 0.02, 1.0, box=box, bodies=[ball], grounded=False)
        state = scenes.run(grains, scenes.free_space(), grains.rest_state(), 20)
        assert float(jnp.abs(state.velocity).max()) < 1e-3  # it lies on the ball


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, 3])
def test_what_a_bed_costs_is_known_before_it_is_built(dimension):
    sand = Sand(radius=0.6, depth=2.4, period=16.0)
    loose = bed._loose(sand, dimension, jnp.float32)
    environment = Environment(gravity=jnp.asarray(9.8), terrain=sand.build(jnp.dtype("float32")))
    cost, duration = bed.bed_cost(sand, dimension, 9.8), sand.longest_step(9.8)
    start = replace(loose.start, pair=bed.pairs_of(loose, loose.start))
    program = bed.steps_further.lower(loose, environment, start, np.int32(0), duration)
    needed = program.compile().memory_analysis()
    taken = needed.temp_size_in_bytes + needed.argument_size_in_bytes + needed.output_size_in_bytes
    assert cost.grains == loose.count
    assert taken <= cost.bytes < 1.5 * taken


@pytest.mark.slow
def test_cells_of_a_long_bed_grow_with_its_length_alone():
    short, long = (bed._loose(Sand(period=period), 2, jnp.float32) for period in (300.0, 3000.0))
    assert long.start.offsets.size < 11 * short.start.offsets.size


def test_a_bed_without_memory_says_what_to_reduce(monkeypatch):
    def exhausted(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 39056431132 bytes.")

    monkeypatch.setattr(bed, "_lying", exhausted)
    monkeypatch.setattr(bed, "_read", lambda path: None)
    with pytest.raises(InfeasibleError, match=r"^world\.terrain: .* reduce period \(77\) or depth \(3\)"):
        bed.sand_bed(Sand(period=77.0), 2, 9.8, 3.0)


def test_beds_that_are_known_take_no_programs(monkeypatch):
    """Of a size that no other test has, so that none of them is compiled already."""
    sand, traced = Sand(radius=0.43, period=26.0), []

    def thrown_in(described, dimension, gravity, dtype):
        start = bed._loose(Sand.model_validate_json(described), dimension, dtype).start
        return {name: np.asarray(getattr(start, name)) for name in bed._changing(start)}

    def note(event, _, **more):
        if "trace_duration" in event:
            traced.append(more["fun_name"])

    monkeypatch.setattr(bed, "_settled", thrown_in)
    world, robot = World(terrain=sand), Body(shape=("aa",))
    schedule = Scene(robot=Robot(body=robot), world=world).schedule()
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        build_beds(world, robot, schedule, jnp.float32, (0, 1))
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert traced == []


@pytest.mark.slow
def test_beds_are_kept_by_their_description(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sand = Sand(radius=0.6, depth=1.5, period=10.0, settle=0.2)
    first = bed.sand_bed(sand, 2, 9.8, 3.0)
    assert len(list((tmp_path / "vsr" / "beds").iterdir())) == 1
    bed._settled.cache_clear()
    monkeypatch.setattr(bed, "settling", lambda *_: pytest.fail("settled again"))
    again = bed.sand_bed(sand, 2, 9.8, 3.0)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), first.start, again.start))
    assert again.cover == first.cover > 1.0
    stored = next((tmp_path / "vsr" / "beds").iterdir())
    np.savez(stored, position=np.zeros((2, 3)))  # as if another version had made it
    bed._settled.cache_clear()
    with pytest.raises(pytest.fail.Exception, match="settled again"):
        bed.sand_bed(sand, 2, 9.8, 3.0)  # it would be settled anew
    other = bed._loose(sand.model_copy(update={"seed": 2}), 2, jnp.float32)
    assert not bool((other.start.position == bed._loose(sand, 2, jnp.float32).start.position).all())


@pytest.mark.full
@pytest.mark.parametrize("dimension", [2, 3])
def test_every_key_of_grains_changes_them(dimension):
    given = {"radius": 0.3, "spread": 0.2, "density": 3.0, "rolling": None, "period": 12.0, "seed": 2, "depth": 4.0,
             "neighbors": 20, "candidates": 30, "friction": 0.4}  # fmt: skip
    plain = Sand(period=10.0, radius=0.5)
    known = set(Sand.model_fields) - set(Flat.model_fields) | {"friction"}
    assert known == {*given, "settle", "contacts"}
    for name, value in given.items():
        one, other = (
            bed._loose(sand, dimension, jnp.float32) for sand in (plain, plain.model_copy(update={name: value}))
        )
        leaves = [[*jax.tree.leaves(grains), jnp.asarray(grains.slots)] for grains in (one, other)]
        same = [
            a.shape == b.shape and bool((a == b).all())
            for a, b in zip(*leaves, strict=len(leaves[0]) == len(leaves[1]))
        ]
        assert len(leaves[0]) != len(leaves[1]) or not all(same) or one.candidates != other.candidates, name


@pytest.mark.slow
def test_contacts_of_robots_have_as_many_places_as_asked_for():
    sand = SMALL_SAND.model_copy(update={"contacts": 8})
    scenario, _ = scene_on(sand).build()
    state = jax.jit(reset)(jax.random.key(0), scenario)
    assert state.world.systems["sand"].robots[0].grain.shape == (8,)
    assert "set `contacts` to 13" in overflow_advice(scenario.world.systems["sand"], jnp.array([0, 0, 5, 0]), 8)


@pytest.mark.slow
def test_a_crowded_episode_says_what_to_raise(tmp_path):
    file = tmp_path / "robot.yaml"
    sand = "{type: sand, radius: 0.6, depth: 1.8, period: 30, settle: 2, contacts: 8}"
    file.write_text(
        f"robot: {{body: {{shape: [aaaa, aaaa]}}}}\nworld: {{terrain: {sand}}}\n"
        "task: {type: locomotion, duration: 2, placement: {clearance: 0.1}}\n"
    )
    result = CliRunner().invoke(cli.main, ["simulate", str(file)])
    assert "contact overflow" in result.output
    reported = re.search("set `contacts` to ([0-9]+) or more", " ".join(result.output.split()))
    assert reported is not None
    assert int(reported.group(1)) > 8


def test_places_are_enough_for_a_buried_body():
    assert samples_needed(3.0, 0.25, 2) == 6
    assert samples_needed(3.0, 0.5, 3) == 5
    assert contacts_needed((2, 4), 6) >= 2 * (2 + 4) * 6


@pytest.mark.parametrize(
    ("terrain", "message"),
    [
        ("{type: sand, depth: 0.2}", "less than a grain"),
        ("{type: sand, period: 9}", "would touch their own copies"),
        ("{type: sand, radius: 0.001}", "grains; at most"),
        ("{type: sand, spread: 0.5}", "less than or equal to 0.33"),
        ("{type: sand, restitution: 1.1}", "less than or equal to 1"),
    ],
)
def test_impossible_sand_is_refused(tmp_path, terrain, message):
    file = tmp_path / "robot.yaml"
    file.write_text(f"robot: {{body: {{shape: aaa}}}}\nworld: {{terrain: {terrain}}}\n")
    result = CliRunner().invoke(cli.main, ["check", str(file)])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.slow
def test_too_few_places_in_a_bed_are_said_before_anything_is_written(tmp_path):
    file, run = tmp_path / "robot.yaml", tmp_path / "run"
    contact_overflow = "world: {terrain: {type: sand, radius: 0.5, depth: 2, period: 14, neighbors: 4}}\n"
    for command, robot in (
        (["simulate", str(file)], "robot: {body: {shape: aa}}\n"),
        (["evolve", str(file), "--out", str(run)], "robot: {body: {shape: aa}, controller: sine}\n"),
    ):
        file.write_text(robot + contact_overflow)
        result = CliRunner().invoke(cli.main, command)
        assert result.exit_code == 2
        assert "set `neighbors` to" in result.output
    assert not run.exists()


def test_too_few_substeps_for_grains_are_refused(tmp_path):
    file = tmp_path / "robot.yaml"
    file.write_text(
        "robot: {body: {shape: aa}}\nworld: {terrain: {type: sand, radius: 0.1, depth: 1}}\nphysics: {substeps: 6}\n"
    )
    result = CliRunner().invoke(cli.main, ["check", str(file)])
    assert result.exit_code == 2
    assert "too long for grains" in result.output


def test_grains_that_do_not_fit_are_refused():
    box = scenes.closed_box(2, (1.0, 1.0))
    with pytest.raises(ValueError, match="coordinates"):
        grains_of(np.zeros((1, 3)), 0.1, 1.0, box=box)
    with pytest.raises(ValueError, match="at most 2 times"):
        grains_of(np.zeros((2, 2)), np.array([0.1, 0.3]), np.ones(2), box=box)


def test_momentum_is_that_of_all():
    grains = contacts.cloud(2, 20)
    expected = (np.asarray(grains.mass) * np.asarray(grains.start.velocity)).sum(-1)
    np.testing.assert_allclose(momentum(grains, grains.start), expected, rtol=1e-5)
