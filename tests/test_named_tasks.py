"""EvoGym's tasks: rewards, ends and observations against closed forms, on robots and objects moved by hand."""

import json
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT
from scipy.spatial import ConvexHull

import vsr
from vsr.drawing.faces import faces_of
from vsr.drawing.recording import recording_of
from vsr.episode import begin, observe_task, reset, step
from vsr.experiments.experiment import Experiment
from vsr.physics.engine import engine_of
from vsr.physics.failure import Failure
from vsr.scene import Scene, precision, simulate
from vsr.tasks import EVOGYM_TASKS, TASKS
from vsr.tasks.evogym.furnishing import HEAP, SOFT_GROUND, only_evogym
from vsr.tasks.evogym.seen import Seen, orientation, part_of, relative
from vsr.tasks.evogym.table import ROWS, corner_points, heights_of, solid_cells
from vsr.tasks.evogym.task import after_step, ceiling, drawn_goals, earned, floor
from vsr.tasks.evogym.terms import Step, hull_area

FULL = ("hhhhh",) * 5


def scene_of(task, engine="evogym", shape=FULL, **more):
    return Scene.model_validate({"robot": {"body": {"shape": list(shape), "engine": engine}}, "task": task, **more})


def box(x, y, width, height):
    """Corner points of a box of voxels in EvoGym's units, (p, 2)."""
    right, up = np.meshgrid(np.arange(width + 1), np.arange(height + 1))
    return 0.1 * np.stack([x + right.ravel(), y + up.ravel()], 1)


def part(points):
    return part_of(jnp.asarray(points), jnp.zeros_like(jnp.asarray(points)), jnp.ones(len(points), bool))


class ByHand:
    """An episode of a full 5x5 robot, which the test puts where it wants, with its object; all in voxels."""

    def __init__(self, name):
        self.row = ROWS[name]
        self.robot = box(*self.row.start, 5, 5)
        self.object = None if self.row.object is None else box(*self.row.object[2:])
        self.first = relative(part(self.robot))
        self.goals = None if self.row.goals is None else drawn_goals(jax.random.key(0), self.row, jnp.float32)
        self.rewards = []

    def center(self):
        return self.robot.mean(0) * 10

    def seen(self, unstable=False):
        object = None if self.object is None else part(self.object)
        return Seen(part(self.robot), object, jnp.array(unstable))

    def move(self, robot=(0.0, 0.0), object=(0.0, 0.0), turn=0.0, stretch=(1.0, 1.0), unstable=False):
        before, middle = self.seen(), self.robot.mean(0)
        rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        self.robot = middle + ((self.robot - middle) * stretch) @ rotation.T + 0.1 * np.array(robot)
        if self.object is not None:
            self.object = self.object + 0.1 * np.array(object)
        after = self.seen(unstable)
        if self.goals is not None:
            self.goals = after_step(self.goals, after.robot.x)
        angles = orientation(self.first, before.robot), orientation(self.first, after.robot)
        reward, done = earned(self.row, Step(before, after, angles, self.goals))
        self.rewards.append(float(reward))
        return self.rewards[-1], bool(done)

    @property
    def score(self):
        return sum(self.rewards)


def close(value):
    return pytest.approx(value, abs=3e-4)


def test_every_task_of_the_table_is_registered_and_its_columns_are_as_long_as_its_goals_need():
    assert set(EVOGYM_TASKS) <= set(TASKS)
    tiers = {"A": 18, "B": 6, "C": 3, "D": 3, "E": 2}
    assert {tier: sum(row.tier == tier for row in ROWS.values()) for tier in tiers} == tiers
    assert len(ROWS) == 32
    lengths = {"Walker-v0": 100, "UpStepper-v0": 70, "DownStepper-v0": 75, "ObstacleTraverser-v0": 80}
    lengths |= {"ObstacleTraverser-v1": 60, "Carrier-v1": 60, "Jumper-v0": 60, "Balancer-v0": 30, "Lifter-v0": 11}
    assert {name: len(heights_of(ROWS[name].ground)) for name in lengths} == lengths


def drawn(row):
    """The ground, the lowest row first: '#' fixed, 's' soft."""
    solid, soft = row.ground_cells
    return [
        "".join(".#s"[int(a) + int(b)] for a, b in zip(*rows, strict=True)) for rows in zip(solid, soft, strict=True)
    ]


def test_grounds_of_soft_voxels_walls_and_blocks_are_those_of_evogyms_files():
    """Counted in its files of worlds: voxels in all and soft ones; some rows of the pictures."""
    counts = {"BridgeWalker-v0": (196, 104), "CaveCrawler-v0": (188, 60), "Climber-v1": (150, 42)}
    counts |= {"Climber-v2": (134, 0), "Traverser-v0": (74, 0)}
    for name, expected in counts.items():
        solid, soft = ROWS[name].ground_cells
        assert (solid.sum(), soft.sum()) == expected
        assert not (soft & ~solid).any()
    bridge, cave, channel = (drawn(ROWS[name]) for name in ("BridgeWalker-v0", "CaveCrawler-v0", "Climber-v2"))
    assert bridge[4] == bridge[3] == bridge[2].replace(".", "s")
    assert cave[6] == "." * 21 + "s" * 14 + "." * 4 + "s" * 15 + "." * 4 + "###" + "." * 8 + "#"
    assert cave[4].count("s") == 6
    assert channel[41] == "." * 7 + "#" * 20
    assert channel[35] == "...#" + "." * 7 + "#" * 16
    solid, _ = ROWS["Climber-v2"].ground_cells
    inner = [np.flatnonzero(solid[row]) for row in range(1, 34)]
    assert {int(np.diff(walls).max()) - 1 for walls in inner} <= {5, 6}  # five or six voxels wide
    heap = ROWS["Traverser-v0"].heap
    assert (len(heap), sum(block.width**2 for block in heap)) == (27, 155)
    taken = np.zeros((10, 60), int)
    for block in heap:
        taken[block.y : block.y + block.height, block.x : block.x + block.width] += 1
    solid, _ = ROWS["Traverser-v0"].ground_cells
    assert taken.max() == 1
    assert not (taken[:9] * solid).any()


WALKERS = {"Walker-v0": 99, "UpStepper-v0": 69, "DownStepper-v0": 74, "ObstacleTraverser-v0": 79}
LATER = {"BridgeWalker-v0": 60, "CaveCrawler-v0": 69, "Traverser-v0": 59, "Climber-v1": 65}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Walker-v0", "UpStepper-v0", "ObstacleTraverser-v1", "Climber-v0", *LATER])
def test_the_sum_of_rewards_up_to_the_goal_is_the_bound_of_the_table(name):
    goal = {**WALKERS, **LATER, "ObstacleTraverser-v1": 59, "Climber-v0": 86}[name]
    axis = 1 if name.startswith("Climber") else 0
    episode = ByHand(name)
    there = np.zeros(2)
    there[axis] = goal - episode.center()[axis]
    for part in (-0.1, 0.8, 0.2):  # back and forth: the sum telescopes
        _, done = episode.move(part * there)
        assert not done
    _, done = episode.move(0.101 * there)
    assert done
    assert episode.score == pytest.approx(ROWS[name].bound, abs=0.02)


def test_falling_over_ends_with_a_penalty_where_it_counts():
    over = math.radians(100)
    assert ByHand("DownStepper-v0").move(turn=over) == (close(-3), True)
    assert ByHand("ObstacleTraverser-v1").move(turn=over) == (close(0), False)
    assert ByHand("UpStepper-v0").move(turn=math.radians(80)) == (close(-3), True)
    assert ByHand("DownStepper-v0").move(turn=math.radians(-80)) == (close(0), False)
    assert ByHand("GapJumper-v0").move((0, -5)) == (close(-3), True)
    for name in ("BridgeWalker-v0", "Traverser-v0", "Climber-v2"):
        assert ByHand(name).move(turn=over) == (close(0), False)
    assert ByHand("Climber-v2").move((5, 40)) == (close(0.2 * 0.5 + 4), False)


def test_an_unstable_robot_gets_three_less_and_nothing_else():
    assert ByHand("Walker-v0").move((5, 0), unstable=True) == (close(-3), True)


def test_turning_counts_whole_turns_counter_clockwise():
    episode = ByHand("Flipper-v0")
    for _ in range(9):
        episode.move(turn=math.radians(50))
    assert episode.score == pytest.approx(math.radians(450), abs=1e-4)
    for _ in range(9):
        episode.move(turn=math.radians(-50))
    assert episode.score == pytest.approx(0, abs=1e-4)
    assert episode.move((-62, 0))[1]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("angle", [0.0, 1e-3, 4e-3, 0.3])
def test_bodies_are_seen_turned_by_as_much_as_they_are(precision, angle):
    """Whatever the angle and the body: 0 and not 2 pi for one that has not turned."""
    random = np.random.default_rng(0)
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    with jax.enable_x64(precision == "float64"):

        @jax.jit
        def seen(points, later, exists):
            now = [part_of(one, jnp.zeros_like(one), exists) for one in (points, later)]
            return orientation(relative(now[0]), now[1])

        for _ in range(50):
            points, exists = box(*random.integers(0, 60, 2), 5, 5), random.random(36) < 0.7
            later = points @ rotation.T + random.integers(0, 2, 2)
            arrays = (jnp.asarray(one, precision) for one in (points, later))
            assert float(seen(*arrays, jnp.asarray(exists))) == pytest.approx(angle, abs=1e-4)


def test_a_robot_is_seen_turned_by_as_much_as_in_evogym():
    first, *later = json.loads((ROOT / "tests/data/evogym_trace.json").read_text())["steps"]
    start, *others = (part(0.1 * np.array([one["x"], one["y"]]).T) for one in (first, *later))
    assert [float(orientation(relative(start), one)) for one in others] == pytest.approx(
        [one["orientation"] for one in later], abs=1e-5
    )
    assert float(orientation(relative(start), start)) == pytest.approx(first["orientation"], abs=1e-3)


def test_shapes_are_measured_by_hull_width_and_height():
    stretch = (1.2, 0.9)
    for name, expected in (
        ("AreaMaximizer-v0", 10 * 0.25 * (1.2 * 0.9 - 1)),
        ("AreaMinimizer-v0", -10 * 0.25 * (1.2 * 0.9 - 1)),
        ("WingspanMazimizer-v0", 0.5 * 0.2),
        ("HeightMaximizer-v0", -0.5 * 0.1),
    ):
        assert ByHand(name).move(stretch=stretch)[0] == close(expected)


@pytest.mark.parametrize("grid", [False, True])
def test_hull_area_is_that_of_a_library(grid):
    """On a grid many points share an x, lie on a line, or coincide."""
    draw = np.random.default_rng(3)
    area = jax.jit(jax.vmap(hull_area))
    points = draw.integers(0, 4, (40, 12, 2)).astype(float) if grid else draw.normal(size=(40, 12, 2))
    exists = draw.random((40, 12)) < 0.7
    exists[:, :1] = True
    for one, there, found in zip(points, exists, area(points, exists), strict=True):
        flat = np.linalg.matrix_rank(one[there] - one[there][0]) < 2
        assert float(found) == pytest.approx(0 if flat else ConvexHull(one[there]).volume, abs=1e-5)


def test_jumping_and_balancing():
    assert ByHand("Jumper-v0").move((-2, 3))[0] == close(10 * 0.3 - 5 * 0.2)
    episode = ByHand("Balancer-v0")  # its center starts at (17.5, 5.5), the pole is at 17
    assert episode.move((-1, -1))[0] == close(0.1 * (0.5 - 0.5) + 0.1 * (0.5 - 0.5))
    assert episode.move((0.5, 0.5))[0] == close(0.1)


def test_rewards_of_things():
    both = {"robot": (1.0, 2.0), "object": (3.0, -1.0)}
    # Carrier-v0: the package is carried at 7 v, so its fall does not count until it is below 3 v.
    assert ByHand("Carrier-v0").move(**both)[0] == close(0.05 * 3 + 0.05 * 1)
    low = ByHand("Carrier-v0")
    low.move(object=(0, -4.5))
    assert low.move(object=(0, -0.3))[0] == close(-10 * 0.03)
    # Carrier-v1: only the robot's distance from 40 counts, a fault that all published scores contain.
    assert ByHand("Carrier-v1").move(robot=(5, 0), object=(9, 0))[0] == close(0.5)
    pushed = ByHand("Pusher-v0")
    gap = 9.5 - 3.5
    assert pushed.move(**both)[0] == close(0.075 * 3 + 0.05 * 1 + 0.1 * (gap - (gap + 2)))
    assert ByHand("Thrower-v0").move(**both)[0] == close(0.3 - 0.25 * 0.1)
    left = ByHand("Thrower-v0")
    left.move(robot=(-4, 0))  # its center is left of 0 now, and the sign has turned round
    assert left.move(robot=(-1, 0))[0] == close(-0.25 * 0.1)
    lifted = ByHand("Lifter-v0")
    assert lifted.move(object=(0.5, 2))[0] == close(10 * 0.2 - 10 * 0.05)
    assert lifted.move(robot=(0, -3))[0] == close(-20 * 0.3)
    gap = 33 + 1 - 3.5
    assert ByHand("BeamToppler-v0").move(**both)[0] == close(0.1 * (gap - (gap + 2)) + 0.3 + 3 * 0.1 + 10 * 0.1)
    assert ByHand("BeamSlider-v0").move(**both)[0] == close(-0.2 + 0.3)
    assert ByHand("BeamSlider-v0").move(object=(-26, 0))[1]


@pytest.mark.slow
def test_goals_are_walked_to_one_after_the_other():
    episode = ByHand("BidirectionalWalker-v0")
    places = np.asarray(episode.goals.place)[: int(episode.goals.count)] * 10
    way = np.abs(np.diff(places, prepend=35)).sum()
    assert 100 <= way < 130
    assert ((places >= 20) & (places < 50)).all()
    done = False
    for place in places:
        assert not done
        _, done = episode.move((place - episode.center()[0], 0))
    assert done
    # At every goal but the last the step counts for the next one.
    assert episode.rewards[-1] == close(1 + 0.1 * abs(places[-1] - places[-2]))


@pytest.fixture(scope="module")
def played():
    """A scenario with an object, its start and the state after one step without physics."""
    scenario, _ = scene_of("Catcher-v0", shape=("hh.", ".v.")).build()
    return scenario, jax.jit(reset)(jax.random.key(0), scenario)


@pytest.mark.slow
def test_a_tasks_account_is_kept_with_the_worlds_own_points(played):
    scenario, state = played
    task, world, before = scenario.task, scenario.world, state.world
    robot = before.robots[0]
    after = replace(before, robots=(replace(robot, position=robot.position + jnp.array([0.1, 0.2])),))
    account = task.accumulate(state.account, world, before, after, jnp.zeros(()))
    gap = [float(one.objects[0].position[..., 0].mean() - points(scenario, one)[0]) for one in (robot, after.robots[0])]
    assert float(account.score) == float(account.reward) == close(abs(gap[0]) - abs(gap[1]))
    assert not bool(task.ended(account, world, after))


def points(scenario, robot):
    """Mean of the robot's points."""
    return np.asarray(robot.position)[np.asarray(scenario.model.node_mass) > 0].mean(0)


@pytest.mark.slow
def test_the_catchers_package_and_pegs_are_shifted_together_and_anew_for_every_key(played):
    scenario, first = played
    again, other = (jax.jit(reset)(jax.random.key(key), scenario) for key in (0, 1))
    where = [
        np.array([np.asarray(one.position).min((0, 1, 2)) * 10 for one in state.world.robots[0].objects])
        for state in (first, again, other)
    ]
    shift = np.stack(where) - np.array([[21, 41], [17, 39], [19, 25]])
    assert shift == pytest.approx(np.broadcast_to(shift[:, :1], shift.shape), abs=1e-3)
    assert np.array_equal(shift[0], shift[1])
    assert not np.array_equal(shift[0], shift[2])
    low, high = np.array([-6, 0]), np.array([4, 5])
    assert ((shift > low - 0.001) & (shift < high + 0.001)).all()


@pytest.mark.slow
def test_observations_are_padded_and_masked(played):
    scenario, state = played
    values, there = map(np.asarray, jax.jit(observe_task)(scenario, state))
    size = int(scenario.model.node_mass.size)
    assert values.shape == there.shape == (7 + 2 * size,)
    assert there.sum() == 7 + 2 * 8
    assert np.abs(values[~there]).max() == 0
    relative_to = np.asarray(state.world.robots[0].objects[0].position).mean((0, 1, 2))
    assert values[:2] == pytest.approx(relative_to - points(scenario, state.world.robots[0]), abs=1e-5)
    positions = values[7:].reshape(2, -1)[:, there[7 : 7 + size]]
    assert positions.sum(1) == pytest.approx([0, 0], abs=1e-5)
    assert np.ptp(positions, axis=1) == pytest.approx([0.2, 0.2])


def test_floor_and_ceiling_see_corners_of_voxels():
    corners = corner_points(solid_cells(heights_of("1x3 4x2 2x3")))
    seen = part(np.array([[0.2, 0.25], [0.31, 0.25]]))
    # Its center is at (2.55, 2.5) v, so corners at x = 2, 3 and 4 are seen: a side of the tall columns, their middle.
    assert np.asarray(floor(seen, corners, 1)) == pytest.approx([0.15, 0.05, 0.05], abs=1e-5)
    assert np.asarray(ceiling(seen, corners, 1)) == pytest.approx([0.5, 0.05, 0.05], abs=1e-5)


def test_floor_and_ceiling_see_ground_that_moves():
    corners = corner_points(solid_cells(heights_of("1x9")))
    seen = part(np.array([[0.2, 0.25], [0.31, 0.25]]))  # its center is at (2.55, 2.5) v
    moving = part(0.1 * np.array([[2.1, 1.7], [2.2, 1.3], [3.0, 3.9], [4.2, 9.0], [3.05, 2.4], [9.0, 2.4]]))
    assert np.asarray(floor(seen, corners, 1, moving)) == pytest.approx([0.15, 0.08, 0.15], abs=1e-5)
    assert np.asarray(ceiling(seen, corners, 1, moving)) == pytest.approx([0.5, 0.14, 0.5], abs=1e-5)
    absent = moving._replace(exists=jnp.zeros_like(moving.exists))
    assert np.asarray(floor(seen, corners, 1, absent)) == pytest.approx([0.15] * 3, abs=1e-5)


def test_tasks_with_soft_ground_say_which_engine_they_need():
    for name in ("BridgeWalker-v0", "CaveCrawler-v0", "Climber-v1"):
        for engine in ("squares", "points"):
            with pytest.raises(ValueError, match=rf"task\.type: {name} has soft ground.*engine: evogym.*{engine}"):
                scene_of(name, engine, shape=("a",))
    ours = scene_of("Traverser-v0", "points", shape=("a",))
    assert [one.name for one in ours.world.objects] == [f"block{number}" for number in range(1, 28)]
    walls = scene_of("Climber-v2", "squares", shape=("a",)).world.objects
    assert len(walls) == len(ROWS["Climber-v2"].walls)
    assert all(one.fixed for one in walls)


def test_the_area_of_a_hull():
    points = jnp.array([[0.0, 0], [2, 0], [2, 1], [1, 0.2], [1, 3], [9, 9], [0, 1]])
    exists = jnp.array([True] * 5 + [False, True])
    assert float(hull_area(points, exists)) == pytest.approx(4.0)  # a rectangle of 2 x 1 and a roof 2 high
    assert float(hull_area(points, jnp.arange(7) == 2)) == 0


def test_tasks_bring_their_world_and_refuse_another():
    scene = scene_of("UpStepper-v0")
    assert scene.schedule().calls == 600
    assert scene.world.terrain.points()[1].max() == pytest.approx(0.9)
    assert Scene.model_validate(scene.to_plain()) == scene
    ours = scene_of("Pusher-v0", engine="squares", shape=("a",))
    assert ours.physics.time_step == pytest.approx(0.055)
    assert ours.schedule().total_time == pytest.approx(27.5)
    assert [one.name for one in ours.world.objects] == ["package"]
    assert Scene.model_validate(ours.to_plain()) == ours
    with pytest.raises(ValueError, match=r"world\.terrain: the task brings its own"):
        scene_of("Walker-v0", world={"terrain": "flat"})
    body = {"type": "material_grid", "grid": [3, 3], "engine": "evogym"}
    described = {"robot": {"body": body, "controller": "sine"}, "task": "Walker-v0", "fitness": "score"}
    assert Experiment.model_validate(described).schedule().calls == 500


OFTEN = ("Walker-v0", "UpStepper-v0", "Climber-v0", "Carrier-v0", "Catcher-v0", "BeamToppler-v0", "CaveCrawler-v0")
"""One of each kind: flat and uneven ground, a shaft, an object, one that is drawn anew, a beam on pegs, soft ground."""
assert {*OFTEN} <= {*ROWS}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in OFTEN else pytest.mark.full) for name in ROWS]
)
@pytest.mark.parametrize("engine", ["squares", "evogym"])
def test_every_task_can_be_played_and_starts_alike(name, engine):
    if engine != "evogym" and only_evogym(ROWS[name]):
        pytest.skip("it needs engine: evogym")
    shape = ("hv", "hv") if engine == "evogym" else ("aa", "aa")
    scenario, _ = scene_of(name, engine=engine, shape=shape).build()
    start = jax.jit(reset)(jax.random.key(0), scenario)
    advance, total = jax.jit(step), 0.0
    state = start
    for number in range(8):
        state, transition = advance(scenario, state, jnp.full((2, 2), math.sin(number)))
        total += float(transition.reward)
        assert not bool(state.failed)
    assert float(state.account.score) == pytest.approx(total, abs=1e-4)
    values, there = observe_task(scenario, state)
    assert np.isfinite(np.asarray(values)).all()
    assert bool(there.any())
    again = jax.jit(reset)(jax.random.key(0), scenario)
    for one, other in zip(jax.tree.leaves(start.world.robots), jax.tree.leaves(again.world.robots), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.full
@pytest.mark.parametrize("name", ["Walker-v0", "UpStepper-v0", "Pusher-v0"])
def test_tasks_are_played_in_3d_too(name):
    shape = [["aa", "aa"], ["aa", "aa"]]
    scenario, _ = Scene.model_validate({"robot": {"body": {"shape": shape}}, "task": name}).build()
    state = jax.jit(reset)(jax.random.key(0), scenario)
    for _ in range(4):
        state, transition = jax.jit(step)(scenario, state, jnp.full((2, 2, 2), 0.5))
        assert not bool(transition.terminated)
    values, _ = observe_task(scenario, state)
    assert np.isfinite(np.asarray(values)).all()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["squares", "points"])
def test_a_body_too_wide_for_a_shaft_fails_before_it_begins(engine):
    """Walls would throw it out, and that would be the best climber."""
    for shape, expected in ((("a" * 5,), 0), (("a" * 6,), Failure.buried)):
        scenario, _ = scene_of("Climber-v0", engine, shape).build()
        assert int(jax.jit(lambda scenario: reset(jax.random.key(0), scenario))(scenario).failure) == expected


@pytest.mark.slow
def test_a_task_without_an_observation_says_so():
    scenario, _ = vsr.Scene(robot=vsr.Robot(body=vsr.Body(shape=["a"]))).build()
    state = begin(scenario, engine_of(scenario.model).rest_state(scenario.model))
    with pytest.raises(ValueError, match="no observation"):
        observe_task(scenario, state)


def test_a_duration_of_nothing_is_the_tasks_own():
    body = {"shape": ["aa"], "engine": "points"}
    scenes = [
        Scene.model_validate({"robot": {"body": body}, "task": {"type": "Walker-v0", **given}})
        for given in ({}, {"duration": None})
    ]
    assert scenes[0].schedule() == scenes[1].schedule()


@pytest.mark.slow
def test_objects_of_evogyms_own_physics_are_recorded_and_drawn():
    """The package of a task falls: beside the robot there is a body that moves, on pictures and pages alike."""
    scene = scene_of({"type": "Catcher-v0", "duration": 0.03}, shape=("hh.", ".v."))
    outcome = simulate(scene, keep_trajectory=True)
    environment = scene.world.build(np.float32)
    recording = recording_of(
        outcome.model, outcome.trajectory, environment, scene.robot.body.cells, systems=scene.systems()
    )
    package, *pegs = recording.other_robots
    fallen = package.center[0, 1] - package.center[-1, 1]
    assert fallen == pytest.approx(0.5 * 110 * 0.03**2, rel=0.1)
    assert len(pegs) == 2
    assert all(np.ptp(peg.position, axis=0).max() == 0 for peg in pegs)
    shown = faces_of(recording)
    assert shown.face.shape[1] == sum(len(one.material) for one in recording.other_robots)
    assert np.abs(shown.face[-1, 0] - shown.face[0, 0]).max() == pytest.approx(fallen, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BridgeWalker-v0", "Traverser-v0"])
def test_soft_ground_and_blocks_begin_where_they_are_fall_and_are_recorded(name):
    """In 64 bits; what is fixed stays, what is soft sags, and pieces that are far apart in the world stay so."""
    scene = scene_of({"type": name, "duration": 0.012}, shape=("h",), physics={"precision": "float64"})
    outcome = simulate(scene, keep_trajectory=True)
    (one,) = outcome.model.objects
    there = np.asarray(one.body.node_mass)[0] > 0
    moved = np.asarray(outcome.trajectory.state.objects[0].position)[:, 0]
    assert np.isfinite(moved[:, there]).all()
    start = moved[0][there] * 10
    if name == "BridgeWalker-v0":
        assert one.name == SOFT_GROUND
        assert start.min(0) == pytest.approx([0, 2])  # with the posts' voxels that touch soft ones
        assert start.max(0) == pytest.approx([59, 5])
        fixed = there & (np.asarray(one.body.inverse_mass)[0] == 0)
        assert np.ptp(moved[:, fixed], axis=0).max() == 0
        free = there & ~fixed
        assert free.sum() == 3 * sum(block.width - 1 for block in ROWS[name].soft)
        middle = free & (np.abs(moved[0, ..., 0] - 3.8) < 0.01)
        assert (moved[0] - moved[-1])[middle][:, 1].min() > 0.9 * 0.5 * 110 * 0.012**2 * 0.5
    else:
        assert one.name == HEAP
        corners = sum((block.width + 1) ** 2 for block in ROWS[name].heap)
        assert len(start) == corners
        assert start[:, 0].min() == pytest.approx(20)
        assert start[:, 1].max() == pytest.approx(9)
    with precision("float64"):
        environment = scene.world.build(np.float64)
        recording = recording_of(
            outcome.model, outcome.trajectory, environment, scene.robot.body.cells, systems=scene.systems()
        )
    (drawn_body,) = recording.other_robots
    shown = faces_of(recording)
    pieces = sum(not spot.fixed for spot in one.spots)
    assert len(drawn_body.material) == pieces
    hanging = shown.face.shape[1] - pieces  # fixed ground over empty cells: the ledges of the pit
    assert (hanging > 0) == (name == "Traverser-v0")
