"""The study of sand: contact as it is measured, exchanged winners, claims about them, the study's files."""

import csv
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from growing import put_meta, put_statistics
from pydantic import ValidationError

import vsr
import vsr.cli as cli
from vsr.episode import Trajectory, scenario_of
from vsr.evidence.reproduce import exchange as exchange_module
from vsr.evidence.reproduce.exchange import exchange, move_to_world, read_exchange
from vsr.evidence.reproduce.exchange_report import rows, trait_tests, write_exchange
from vsr.evidence.reproduce.gait import NEAR, contact, gait_of
from vsr.experiments.claims import GAIT, TRAITS, Above, Exchange, FaresBetter, KeepsMore, MoreOf, Result, judge
from vsr.experiments.config import load_experiment
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.runs import read_run
from vsr.experiments.study import find_studies, load_study
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.failure import Failure
from vsr.physics.granular import Box, grains_of
from vsr.scene import Scene, simulate
from vsr.world.placement import move_rigidly
from vsr.world.schedule import Schedule
from vsr.world.spec import World

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SIDE = 3.0
RADIUS = 0.25
PERIOD = 30.0


# Contact


@pytest.fixture(scope="module")
def pair():
    """A robot of two voxels side by side, at rest with its lowest left corner at the origin."""
    model = assemble_body(vsr.Body(shape=("aa",)))
    return model, engine_of(model).rest_state(model)


def in_contact(pair, place, grains=None, terrain="flat"):
    """Which voxels touch with the robot moved to a place, and how deep it is; grains: centers."""
    model, rest = pair
    systems = {}
    if grains is not None:
        box = Box((0.0, -3.0), (PERIOD, 20.0), (True, False))
        systems["sand"] = grains_of(np.asarray(grains, float), RADIUS, 1.0, box=box)
    environment = World(terrain=terrain).build()
    scenario = scenario_of(model, environment, Schedule(duration=1.0), systems=systems)
    seen = {name: system.seen(system.start) for name, system in systems.items()}
    voxels, depth = contact(scenario, move_rigidly(model, rest, shift=jnp.array(place)), seen)
    return np.asarray(voxels)[0].tolist(), float(depth)


@pytest.mark.parametrize(("height", "expected"), [(0.0, True), (0.5 * NEAR * SIDE, True), (1.5 * NEAR * SIDE, False)])
def test_a_voxel_touches_hard_ground_within_a_small_gap(pair, height, expected):
    assert in_contact(pair, (20.0, height)) == ([expected, expected], 0.0)


def test_depth_counts_from_the_surface(pair):
    assert in_contact(pair, (20.0, -0.2))[1] == pytest.approx(0.2, abs=1e-5)
    sand = {"type": "sand", "depth": 3.0}
    assert in_contact(pair, (20.0, -0.2), [[10.0, -1.0]], sand) == ([False, False], pytest.approx(0.2, abs=1e-5))


@pytest.mark.parametrize("turns", [0, 1, -1])
def test_only_the_voxel_over_a_grain_touches_it(pair, turns):
    """Below the middle of the right voxel's lower side, which no corner is near; also a period away."""
    x = 20.0 + 1.5 * SIDE + turns * PERIOD
    sand = {"type": "sand", "depth": 3.0}
    near, far = (-RADIUS - share * NEAR * SIDE for share in (0.5, 1.5))
    assert in_contact(pair, (20.0, 0.0), [[x, near]], sand)[0] == [False, True]
    assert in_contact(pair, (20.0, 0.0), [[x, far]], sand)[0] == [False, False]


@pytest.mark.slow
def test_a_gait_in_numbers(pair):
    """A robot that stands in every second moment and hangs in the others."""
    model, rest = pair
    scenario = scenario_of(model, World().build(), Schedule(duration=4.0))
    heights = jnp.where(jnp.arange(41) % 2 == 0, -0.1, 1.0)
    states = jax.vmap(lambda height: move_rigidly(model, rest, shift=jnp.stack([20.0, height])))(heights)
    time = jnp.arange(41) / 10
    found = gait_of(scenario, Trajectory(time, states, jnp.zeros((41, 1, 2))))
    counted = np.asarray(time) >= 1
    share = float((np.arange(41) % 2 == 0)[counted].mean())
    assert [float(value) for value in found] == pytest.approx([2 * share, 2, share, 0.1 * share], abs=1e-5)


# An exchange, in made-up numbers

SEEDS = 5


def made(home, abroad, *, trials=4, **changes):
    """Two experiments: fitness of each robot at home and in the other's world, the same in all trials and steps."""
    table = np.concatenate([np.stack([home[0], abroad[0]], 1), np.stack([abroad[1], home[1]], 1)])
    measured = np.broadcast_to(table[:, :, None, None], (*table.shape, 2, trials)).astype(float).copy()
    robots = len(table)
    fields = {
        "names": ("hard", "sand"),
        "home": np.repeat([0, 1], SEEDS),
        "factors": (1, 4),
        "measured": measured,
        "failure": np.zeros(measured.shape, int),
        "gait": {name: np.tile(np.arange(robots, dtype=float)[:, None], 2) for name in GAIT},
        "body": {name: np.full(robots, 4.0) for name in ("voxels", "width", "height")},
    }
    return Exchange(**{**fields, **changes})


STEPS = np.arange(SEEDS) / 100
FOUND = made((0.3 + STEPS, 0.2 + STEPS), (0.1 + STEPS, 0.15 + STEPS))


def test_what_counts_is_the_lesser_of_usual_and_finest_steps():
    measured = FOUND.measured.copy()
    measured[0, 0, 1] = 0.05  # vanishes with smaller time steps
    measured[1, 0, 0] = 0.01  # there only with smaller time steps
    measured[2, 0, 0, 0] = 9.0  # one lucky start
    found = dataclasses.replace(FOUND, measured=measured)
    np.testing.assert_allclose(found.fitness("hard", "hard"), [0.05, 0.01, *(0.3 + STEPS[2:])])


def test_failures_are_worse_than_any_number_and_counted():
    measured, failure = FOUND.measured.copy(), FOUND.failure.copy()
    measured[0, 1, 1, :2], failure[0, 1, 1, :2] = (
        np.nan,
        int(Failure.contact_overflow),
    )  # half of the starts with smaller time steps
    measured[1, 1, 0, 0], failure[1, 1, 0, 0] = np.nan, int(Failure.inverted)  # one of four
    found = dataclasses.replace(FOUND, measured=measured, failure=failure)
    np.testing.assert_allclose(found.fitness("hard", "sand"), [-np.inf, *(0.1 + STEPS[1:])])
    assert found.failures("hard", "sand") == {"contact overflow": 2, "inverted": 1}
    assert not found.failures("sand", "sand")
    assert found.kept("hard", "sand")[0] == -np.inf


def test_shares_are_of_what_a_robot_does_at_home():
    np.testing.assert_allclose(FOUND.kept("hard", "sand"), (0.1 + STEPS) / (0.3 + STEPS))
    np.testing.assert_allclose(FOUND.kept("hard", "hard"), 1)
    nowhere = made((STEPS - 0.02, 0.2 + STEPS), (STEPS, STEPS))
    assert np.isnan(nowhere.kept("hard", "sand")).tolist() == [True, True, True, False, False]


def test_traits_are_those_at_home():
    gait = {name: np.stack([np.zeros(10), np.arange(10)], 1) for name in GAIT}  # by world
    found = dataclasses.replace(FOUND, gait=gait)
    assert found.trait("hard", "duty").tolist() == [0] * 5
    assert found.trait("sand", "duty").tolist() == [5, 6, 7, 8, 9]
    np.testing.assert_allclose(found.trait("sand", "contact_share"), np.arange(5, 10) / 4)
    assert found.trait("sand", "width").tolist() == [4] * 5
    tests = {(test["trait"], test["experiment"]): test for test in trait_tests(found)}
    assert set(tests) == {(trait, "sand") for trait in TRAITS}
    assert tests["duty", "sand"]["effect"] == 1
    assert tests["duty", "sand"]["p"] < 0.05
    assert tests["width", "sand"]["p"] == 1
    assert tests["width", "sand"]["effect"] == 0.5


def test_the_best_robot_is_the_best_at_home():
    assert FOUND.best("hard") == 4
    assert FOUND.robustness("hard").at(4).tolist() == pytest.approx((0.3 + STEPS).tolist())


# Claims and the report

EXPERIMENT = {
    "robot": {"body": {"shape": "aa"}, "controller": "sine"},
    "task": {"duration": 0.4, "placement": {"clearance": 0.0, "velocity": [2.0, 1.0]}},
    "evaluation": {"trials": 1, "refine": None},
    "optimizer": {"population_size": 6, "tournament_size": 2},
    "generations": 1,
    "seeds": SEEDS,
}


@pytest.fixture
def runs(tmp_path):
    """Two finished runs with made-up statistics and no robots."""
    for name in ("hard", "sand"):
        path = tmp_path / name
        path.mkdir()
        (path / "config.yaml").write_text(json.dumps(EXPERIMENT))
        put_meta(path)
        row = {"generation": 0, "median": 0.0, "failed": 0}
        put_statistics(path, [{**row, "seed": seed, "best": 0.1 * seed} for seed in range(SEEDS)])
    return {name: read_run(tmp_path / name) for name in ("hard", "sand")}


def results(runs, found=FOUND):
    return {name: Result(name, f"the {name}", run, exchange=found) for name, run in runs.items()}


def test_claims_about_exchanges(runs):
    sides = {"experiment": "hard", "than": "sand", "text": ""}
    claims = {
        "supported": FaresBetter(**sides, world="hard"),
        "contradicted": FaresBetter(**sides, world="sand"),
        "not significant": KeepsMore(text="", experiment="sand", than="hard"),
    }
    close = made((0.3 + STEPS, 0.2 + STEPS), (0.15 + STEPS, 0.105 + 3 * STEPS))
    for expected, claim in claims.items():
        found = FOUND if expected != "not significant" else close
        assert judge([claim], results(runs, found))[0].holds == expected
        assert judge([claim], results(runs, None))[0].holds == "not run"
    (touch,) = judge([MoreOf(text="", experiment="sand", than="hard", trait="contact")], results(runs))
    assert touch.holds == "supported"
    assert touch.evidence.startswith("7 against 2")
    (width,) = judge([MoreOf(text="", experiment="sand", than="hard", trait="width")], results(runs))
    assert width.holds == "not significant"
    assert FaresBetter(**sides, world="shallow").needs == ("hard", "sand", "shallow")
    with pytest.raises(ValidationError, match="trait"):
        MoreOf(text="", experiment="sand", than="hard", trait="color")
    assert judge([Above(**sides)], results(runs))[0].holds == "not significant"


def test_the_report_has_matrix_shares_tests_and_failures(runs, tmp_path):
    measured, failure = FOUND.measured.copy(), FOUND.failure.copy()
    measured[0, 1], failure[0, 1] = np.nan, int(Failure.contact_overflow)
    found = dataclasses.replace(FOUND, measured=measured, failure=failure)
    text = "\n".join(write_exchange(results(runs, found), found, tmp_path))
    assert "| the hard | 0.320 ± 0.014, 100 % | 0.125 ± 0.011 (1 of 5 failed), 38 % |" in text
    assert "| the sand | 0.170 ± 0.014, 77 % | 0.220 ± 0.014, 100 % |" in text
    assert "Failed simulations, of 160: 8 contact overflow." in text
    (visitor,) = (row for row in csv.DictReader((tmp_path / "visitors.csv").open()) if row["world"] == "sand")
    assert [float(visitor[each]) for each in ("natives", "visitors")] == pytest.approx([0.22, 0.12])
    (duty,) = (row for row in csv.DictReader((tmp_path / "traits.csv").open()) if row["trait"] == "duty")
    assert float(duty["difference"]) == 5
    assert (tmp_path / "exchange.png").stat().st_size > 5000
    stored = list(csv.DictReader((tmp_path / "exchange.csv").open()))
    assert len(stored) == len(rows(results(runs, found), found)) == 2 * SEEDS * 2
    assert (stored[1]["counted"], stored[1]["failed"]) == ("", "8")


def test_worlds_that_are_stored_are_not_simulated_again(runs, tmp_path, monkeypatch):
    asked = []

    def stand_in(scenes, worlds, factors, trials):
        for name in worlds:
            if len(asked) == 1 and not (tmp_path / "again").exists():
                (tmp_path / "again").touch()
                raise KeyboardInterrupt
            asked.append(name)
            shape = len(scenes), len(factors), trials
            gait = {trait: [None] * len(scenes) for trait in GAIT}
            yield (
                name,
                {"measured": np.full(shape, 0.1).tolist(), "failure": np.ones(shape, int).tolist(), "gait": gait},
            )

    monkeypatch.setattr(exchange_module, "_in_worlds", stand_in)
    with pytest.raises(KeyboardInterrupt):
        exchange(runs, tmp_path, (1, 2), 3, lambda _: None)
    assert read_exchange(runs, tmp_path) is None  # a world is missing
    found = exchange(runs, tmp_path, (1, 2), 3, lambda _: None)
    assert asked == ["hard", "sand"]
    assert found.measured.shape == (2 * SEEDS, 2, 2, 3)
    assert np.isnan(found.body["voxels"]).all()
    assert np.isinf(found.counted).all()
    other = dataclasses.replace(runs["sand"], best=runs["sand"].best + 1)
    assert read_exchange({**runs, "sand": other}, tmp_path) is None
    least = runs["hard"].experiment.fitness.model_copy(update={"direction": "minimize"})
    reverse = runs["hard"].experiment.model_copy(update={"fitness": least})
    settings = dataclasses.replace(runs["hard"].settings, experiment=reverse)
    other_goal = dataclasses.replace(runs["hard"], settings=settings)
    with pytest.raises(UserError, match="maximize the same measure"):
        exchange({**runs, "hard": other_goal}, tmp_path, (1,), 1, print)


# A true exchange


@pytest.mark.full
def test_robots_abroad_are_simulated_as_natives_are():
    """Against `simulate`; a seed without a robot counts as failed. Programs round differently; gaits are chaotic."""
    experiment = Experiment.model_validate(EXPERIMENT)
    body = vsr.Body(shape=("aa",))
    own = Scene(robot=vsr.Robot(body=body, controller=vsr.Sine(frequency=2.0)), world=World(terrain="downhill"))
    there = move_to_world(own, experiment)
    assert (there.robot, there.world, there.task) == (own.robot, experiment.world, experiment.task)
    ((_, found),) = exchange_module._in_worlds([None, own], {"there": experiment}, (1,), 2)
    expected = simulate(there).measures["relative_velocity"]
    assert found["measured"][1][0][0] == pytest.approx(expected, rel=0.02)
    assert np.isnan(found["measured"][0]).all()
    assert expected > 0.1
    assert found["failure"] == [[[int(Failure.empty)] * 2], [[0, 0]]]
    assert 0 <= found["gait"]["contact"][1] <= found["gait"]["feet"][1] + 1e-6
    narrow = {
        "robot": {"body": {"shape": "a"}, "controller": "sine"},
        "world": {"terrain": {"type": "sand", "period": 9}},
    }
    with pytest.raises(UserError, match=r"does not fit another world: world\.terrain\.period: 9 m given"):
        move_to_world(own, Experiment.model_validate({**EXPERIMENT, **narrow}))


# The study's files


def test_experiments_differ_in_their_ground_alone():
    (file,) = find_studies("grounds")
    experiments = {name: file.experiment(name) for name in file.study.experiments}
    assert {"smoke", "quick", "full"} == set(file.study.scales)
    assert not file.scale("full").set
    hard = experiments["hard"]
    for experiment in experiments.values():
        evaluation = experiment.evaluation.model_copy(update={"beds": 1})
        assert experiment.model_copy(update={"world": hard.world, "evaluation": evaluation}) == hard
        assert experiment.schedule() == hard.schedule()
        assert experiment.evaluation.beds == (20 if experiment.world.is_loose else 1)
    assert (hard.evaluation.trials, hard.evaluation.resample, hard.fitness.measure) == (
        5, "every_generation", "net_velocity",
    )  # fmt: skip
    assert {material.friction for material in hard.robot.body.materials.values()} == {0.5}
    grounds = {name: experiment.world.terrain for name, experiment in experiments.items()}
    pairs = (("hard", "sand"), ("hard", "shallow"), ("slippery_hard", "slippery"))
    assert all(grounds[one].friction == grounds[other].friction for one, other in pairs)
    assert {name: (sand.friction, sand.depth) for name, sand in grounds.items() if sand.type == "sand"} == {
        "sand": (0.5, 3.0),
        "slippery": (0.1, 3.0),
        "shallow": (0.5, 1.0),
    }
    assert load_experiment(file.file("sand"), file.scale("quick").settings("sand")).world.terrain.radius == 0.6


def test_settings_of_single_experiments_name_known_ones(tmp_path):
    text = {
        "kind": "study",
        "title": "t",
        "experiments": {"one": {"file": "one.yaml", "label": "one"}},
        "figure": {"panels": [{"curves": ["one"]}]},
        "scales": {"tiny": {"set": ["generations=2"], "set_for": {"one": ["seeds=3"]}}},
    }
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(text))
    assert load_study(file).study.scales["tiny"].settings("one") == ("generations=2", "seeds=3")
    file.write_text(yaml.safe_dump(text | {"scales": {"tiny": {"set_for": {"two": []}}}, "exchange": {"film": ["on"]}}))
    output = CliRunner().invoke(cli.main, ["check", str(file)]).output
    assert "there is no experiment 'two'; there are one" in output
    assert "there is no experiment 'on'; there are one" in output


@pytest.mark.full
def test_smoke_of_the_sand_study(tmp_path):
    """All of it, copied to a folder of results; a second start simulates nothing."""
    command = [
        "reproduce",
        "grounds",
        "--scale",
        "smoke",
        "--out",
        str(tmp_path / "runs"),
        "--copy",
        str(tmp_path / "kept"),
    ]
    result = CliRunner().invoke(cli.main, command)
    assert result.exit_code == 0, result.output
    home = tmp_path / "runs" / "grounds"
    report = (home / "report.md").read_text()
    for words in ("## Winners exchanged", "![](exchange.png)", "![](exchange.gif)", "![](bodies.png)", "**not run**"):
        assert words in report
    found = read_exchange({name: read_run(home / name) for name in ("hard", "sand")}, home)
    assert found is not None
    assert found.measured.shape == (4, 2, 2, 2)
    copied = tmp_path / "kept" / "grounds"
    kept = {str(path.relative_to(copied)) for path in copied.rglob("*")}
    assert {"report.md", "exchange.json", "exchange.csv", "exchange.gif", "hard.yaml", "best/sand.yaml"} <= kept
    assert "hard" not in kept
    (copied / "report.md").unlink()
    remake = ["reproduce", str(tmp_path / "kept" / "grounds.yaml"), "--scale", "smoke", "--report-only"]
    remade = CliRunner().invoke(cli.main, [*remake, "--out", str(tmp_path / "kept")])
    assert remade.exit_code == 0, remade.output
    assert (copied / "report.md").read_text().split("## Verdict")[0] == report.split("## Verdict")[0]
    again = CliRunner().invoke(cli.main, [*command, "--resume"])
    assert again.exit_code == 0, again.output
    assert "robots in the worlds" not in again.output
