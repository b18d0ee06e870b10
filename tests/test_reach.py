"""Inverse statics: reachable and unreachable targets, bounds, rates, obstacles, the command and its files."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

import vsr.cli as cli
from vsr.experiments.reach.command import load_reach
from vsr.experiments.reach.solving import _pose, problem_of, solve
from vsr.experiments.reach.spec import Reach
from vsr.physics.statics.quadratic import minimize
from vsr.physics.statics.reach import Bounds, bounds_of, others, reach, track
from vsr.physics.statics.voxels import depth
from vsr.scene import precision

CONFIGS = sorted((Path(__file__).parents[1] / "configs" / "reach").glob("*.yaml"))
TIP = [0.07, 0.015, 0.015]
RIBS = ["swswsws", "swwwwws", "swswsws"]


@pytest.fixture(autouse=True)
def double_precision():
    with precision("float64"):
        yield


def described(*points, fluid=None, effectors=None, **more):
    """A finger of 7 x 3 x 3 voxels with a chamber above and one below."""
    content = {"pressure": [0.0, 20000.0], "port": 0.015, **(fluid or {})}
    soft = {"young_modulus": 1e5, "density": 1000.0}
    target = {"type": "points", "points": [list(point) for point in points] or [TIP]}
    return Reach.model_validate(
        {
            "body": {
                "shape": [[row.replace("w", "u") for row in RIBS], ["sssssss"] * 3, RIBS],
                "materials": {"s": soft, "u": {**soft, "fluid": content}, "w": {**soft, "fluid": content}},
                "voxel_side": 0.01,
                "engine": "points",
            },
            "clamped": ["left"],
            "effectors": effectors or [{"at": TIP, "target": target}],
            **more,
        }
    )


def problem(**more):
    spec = described(**more)
    return problem_of(spec, spec.body)


@jax.jit
def search(given, target, start):
    return reach(given.given, given.effectors, target, given.bounds, start, size=given.size)


@jax.jit
def poses(given, start, drives):
    return jax.lax.map(lambda drive: _pose(given, start, drive), drives)


def first_pose(given):
    rest = given.given.model.chambers.rest_volume
    drive = jnp.where(given.given.model.chambers.numbers.by_volume > 0, rest, 0)
    return _pose(given, given.start, drive)


def grid_of_places(given, start, count=13):
    """Where the effectors are for a grid of drives."""
    axis = np.linspace(0, 1, count)
    share = jnp.asarray(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    tried = poses(given, start.position, given.bounds.low + share * (given.bounds.high - given.bounds.low))
    assert bool(tried.converged.all())
    return np.asarray(jax.vmap(given.effectors.at)(tried.position))


def best_of(places, given, target):
    """Distance of the best of a grid."""
    return np.sqrt((np.asarray(given.effectors.weight)[:, None] * (places - target) ** 2).sum((1, 2))).min()


@pytest.fixture(scope="module")
def free_places():
    """A grid of places of the finger, which takes long, for all targets."""
    with precision("float64"):
        given = problem()
        return grid_of_places(given, first_pose(given))


@pytest.mark.slow
def test_reachable_targets_are_reached_in_ten_steps():
    given = problem()
    start = first_pose(given)
    for drive in ([16000.0, 4000.0], [1000.0, 18000.0], [12000.0, 12000.0]):
        there = _pose(given, start.position, jnp.array(drive))
        found = search(given, given.effectors.at(there.position), start)
        assert bool(found.reached)
        assert int(found.iterations) <= 10
        assert float(found.distance.max()) < 1e-6 * float(given.size)


@pytest.mark.slow
def test_slopes_are_those_of_neighboring_poses():
    given = problem()
    start = first_pose(given)
    here, more, less = (_pose(given, start.position, jnp.array([8000.0 + by, 5000.0])) for by in (0, 10, -10))
    expected = (more.position - less.position) / 20
    np.testing.assert_allclose(here.gradient[0], expected, atol=1e-4 * float(jnp.abs(expected).max()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [[0.09, 0.015, 0.015], [0.06, 0.015, 0.05], [0.07, 0.015, -0.03], [0.06, 0.015, 0.01]],
)
def test_unreachable_targets_end_at_the_nearest_point(free_places, target):
    given = problem()
    start = first_pose(given)
    target = jnp.array([target])
    found = search(given, target, start)
    assert bool(found.arrived)
    assert not bool(found.reached)
    assert float(found.distance[0]) <= best_of(free_places, given, np.asarray(target)) + 2e-7 * float(given.size)
    assert bool((found.pose.drive >= given.bounds.low).all() & (found.pose.drive <= given.bounds.high).all())


@pytest.mark.slow
def test_bounds_of_volumes_hold_where_pressure_is_driven():
    given = problem(fluid={"added_volume": [-0.2, 0.15]})
    start = first_pose(given)
    loose = search(problem(), jnp.array([[0.09, 0.015, 0.015]]), start)
    found = search(given, jnp.array([[0.09, 0.015, 0.015]]), start)
    assert float(others(given.given, loose.pose).max()) > 0.15
    assert bool(found.arrived)
    added = np.asarray(others(given.given, found.pose))
    assert added.max() <= 0.15
    assert added.max() == pytest.approx(0.15, abs=1e-5)


@pytest.mark.slow
def test_volumes_can_be_driven():
    given = problem(fluid={"pressure": None, "drive": "volume", "added_volume": [-0.05, 0.3], "bulk_modulus": 1e7})
    start = first_pose(given)
    rest = given.given.model.chambers.rest_volume
    there = _pose(given, start.position, rest * jnp.array([1.15, 1.05]))
    found = search(given, given.effectors.at(there.position), start)
    assert bool(found.reached)
    assert int(found.iterations) <= 10
    np.testing.assert_allclose(found.pose.drive, there.drive, rtol=1e-3)


@pytest.mark.slow
def test_weights_settle_between_effectors():
    def given_with(weight):
        ends = [
            {"type": "points", "points": [[0.073, 0.015, 0.03]]},
            {"type": "points", "points": [[0.04, 0.015, 0.0]]},
        ]
        effectors = [
            {"at": TIP, "target": ends[0], "weight": weight},
            {"at": [0.04, 0.015, 0.015], "target": ends[1]},
        ]
        return problem(effectors=effectors)

    target = jnp.array([[0.073, 0.015, 0.03], [0.04, 0.015, 0.0]])
    light, heavy = (search(given, target, first_pose(given)) for given in map(given_with, (0.1, 10.0)))
    assert bool(light.arrived & heavy.arrived)
    assert float(heavy.distance[0]) < float(light.distance[0])
    assert float(heavy.distance[1]) > float(light.distance[1])


@pytest.mark.slow
def test_a_moving_target_is_followed_within_rates():
    given = problem()
    start = _pose(given, given.start, jnp.array([8000.0, 8000.0]))
    drives = 8000 + 4000 * np.stack([np.sin(np.linspace(0, 3, 12)), np.linspace(0, 1, 12)], 1)
    targets = jax.vmap(given.effectors.at)(poses(given, start.position, jnp.asarray(drives)).position)
    follow = jax.jit(
        lambda change: track(
            given.given,
            given.effectors,
            targets,
            given.bounds,
            start,
            change=change,
            change_of_others=jnp.full(2, 1e30),
            size=given.size,
        )
    )
    quick, slow = follow(jnp.full(2, 1e30)), follow(jnp.full(2, 200.0))
    assert bool(quick.reached.all())
    assert int(quick.iterations.max()) <= 5
    steps = np.abs(np.diff(np.concatenate([start.drive[None], slow.pose.drive]), axis=0))
    assert steps.max() <= 200 * (1 + 1e-9)
    assert not bool(slow.reached.all())


@pytest.mark.full
def test_a_target_behind_an_obstacle_ends_at_the_nearest_free_point():
    free = problem()
    there = free.effectors.at(_pose(free, first_pose(free).position, jnp.array([18000.0, 1000.0])).position)[0]
    # Over the tip, so that it cannot be lifted as far; nodes are the finger's corners, at its sides and in its middle.
    middle = [float(there[0]) - 0.004, 0.01, float(there[2]) + 0.022]
    given = problem(obstacles=[{"type": "ball", "center": middle, "radius": 0.01}])
    start = first_pose(given)
    found = search(given, there[None], start)
    assert bool(found.arrived)
    assert not bool(found.reached)
    places = grid_of_places(given, start)
    assert float(found.distance[0]) <= best_of(places, given, np.asarray(there[None])) + 1e-6
    assert float(depth(given.given, found.pose.position)) < 0.02 * 0.01


@pytest.mark.slow
def test_many_targets_at_once_are_those_one_by_one():
    given = problem()
    start = first_pose(given)
    targets = jnp.array([[[0.073, 0.015, 0.015]], [[0.07, 0.015, 0.03]]])
    together = jax.jit(jax.vmap(search, (None, 0, None)))(given, targets, start)
    for index, target in enumerate(targets):
        np.testing.assert_allclose(together.effector[index], search(given, target, start).effector, atol=1e-8)


def test_small_programs_end_at_their_minimum():
    random = np.random.default_rng(0)
    for _ in range(20):
        root, gradient = random.normal(size=(3, 3)), 3 * random.normal(size=3)
        matrix = root @ root.T + 1e-3 * np.eye(3)
        sides = np.concatenate([np.eye(3), -np.eye(3), random.normal(size=(2, 3))])
        bound = np.abs(random.normal(size=8))
        found = np.asarray(MINIMIZE(matrix, gradient, sides, bound))
        room = bound - sides @ found
        assert room.min() > -1e-9
        # Prices of what is met must be positive and balance the slope.
        met = sides[room < 1e-7]
        left = matrix @ found + gradient
        price = np.linalg.lstsq(met.T, -left, rcond=None)[0] if len(met) else np.zeros(0)
        np.testing.assert_allclose(left + met.T @ price, 0, atol=1e-6)
        assert (price > -1e-6).all()


MINIMIZE = jax.jit(minimize)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_files_are_sound(path):
    spec = load_reach(path)
    assert spec.fluids
    assert spec.poses or np.isfinite(spec.targets()).all()


FAULTY = """\
body:
  engine: points
  voxel_side: 0.01
  shape: [sss, sws, sss]
  materials:
    s: {young_modulus: 1.0e5, density: 1000}
    w: {young_modulus: 1.0e5, density: 1000, fluid: {}}
clamped: [lef]
effectors:
  - at: [0.5, 0.01]
    target: {type: points, points: [[0, 0]]}
    weight: -1
variants:
  oil: {densty: 900}
restarts: 0
"""


def test_all_faults_are_named_and_nothing_is_written(tmp_path):
    file, out, data = tmp_path / "bad.yaml", tmp_path / "out.png", tmp_path / "out.json"
    file.write_text(FAULTY)
    result = CliRunner().invoke(cli.main, ["reach", str(file), "--out", str(out), "--json", str(data)])
    assert result.exit_code == 2
    for text in (
        ":8: clamped",
        "left",
        ":10: effectors.0.at",
        "no voxel is there",
        ":12: effectors.0.weight",
        ":14: variants.oil.densty",
        ":15: restarts",
    ):
        assert text in result.output, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.yaml"]


@pytest.mark.slow
def test_the_command_writes_report_and_picture(tmp_path):
    file = tmp_path / "finger.yaml"
    given = problem()
    there = given.effectors.at(_pose(given, first_pose(given).position, jnp.array([9000.0, 6000.0])).position)
    spec = described(np.asarray(there)[0].tolist(), [0.09, 0.015, 0.03], restarts=1)
    file.write_text(json.dumps(spec.to_plain()))
    out, data = tmp_path / "finger.png", tmp_path / "finger.json"
    result = CliRunner().invoke(cli.main, ["reach", str(file), "--out", str(out), "--json", str(data)])
    assert result.exit_code == 0, result.output
    assert out.stat().st_size > 1000
    found = json.loads(data.read_text())["variants"][0]["targets"]
    assert [one["reached"] for one in found] == [True, False]


@pytest.mark.full
def test_water_reaches_lower_and_farther_and_air_higher():
    spec = load_reach(next(path for path in CONFIGS if path.stem == "finger"))
    water, air = (solve(spec, name, body) for name, body in spec.bodies().items())
    target = water.target[:, 0]
    nearer = air.distance[:, 0] - water.distance[:, 0]
    assert (nearer[target[:, 2] < -0.01] > 0).all()
    assert (nearer[target[:, 2] > 0.01] < 0).all()
    level = (np.abs(target[:, 2]) < 0.006) & (target[:, 0] > 0.093)
    assert (nearer[level] > 0).all()
    assert water.effector[..., 0].max() > air.effector[..., 0].max()
    assert water.effector[..., 2].max() < air.effector[..., 2].max()
    assert water.effector[..., 2].min() < air.effector[..., 2].min()


@pytest.mark.full
def test_the_pendulum_goes_every_way():
    spec = load_reach(next(path for path in CONFIGS if path.stem == "pendulum"))
    found = solve(spec, "", spec.body)
    assert found.reached.all()
    assert np.median(found.iterations) <= 10
    assert found.iterations.max() <= 40  # bounds of volumes are in the way of two of them
    limits = bounds_of(found.model)
    assert isinstance(limits, Bounds)
    assert (found.drive <= np.asarray(limits.high) + 1e-9).all()
    assert (found.drive >= np.asarray(limits.low) - 1e-9).all()


@pytest.mark.slow
def test_the_cylinder_hangs_lower_with_water():
    spec = load_reach(next(path for path in CONFIGS if path.stem == "cylinder"))
    air, water = (solve(spec, name, body) for name, body in spec.bodies().items())
    assert (water.angle < air.angle).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fluid": {"membrane": "none"}}, "fluid without a membrane reaches the outside"),
        ({"variants": {"open": {"membrane": "none"}}}, r"variants\.open\.membrane: fluid without a membrane"),
        ({"variants": {"v": {"drive": "volume"}}, "poses": {"up": {"u": 0, "w": 0}}}, "poses name drives"),
        (
            {
                "effectors": [
                    {
                        "at": TIP,
                        "target": {"type": "sinusoid", "center": TIP, "amplitude": [0, 0, 0.001], "frequency": 1.0},
                    }
                ],
                "duration": 1e8,
            },
            "6e.09 targets in all; at most 100000",
        ),
    ],
)
def test_what_would_be_wrong_in_silence_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        described(**changes)
