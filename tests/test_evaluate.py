"""`vsr evaluate`: robots in other tasks, on other grounds and with faults, against scenes that are changed by hand."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY

from vsr.cli import main
from vsr.experiments.config import load_scene
from vsr.experiments.config.problems import ConfigError
from vsr.experiments.evaluate.command import as_plain, failed_text, kept_text, middle
from vsr.experiments.evaluate.matrix import (
    DRAWS,
    FaultyController,
    Matrix,
    Setting,
    apply_faults,
    combinations_of,
    read_groups,
    settle,
    trials_of,
)
from vsr.experiments.evaluate.sets import EvaluationSet, Fault, load_set
from vsr.experiments.shipped import shipped_files
from vsr.physics.engine import ENGINES, assemble_body
from vsr.robot import Body, Material
from vsr.scene import Scene, simulate

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SET = """
kind: evaluation_set
trials: 2
terrains:
  flat: {terrain: flat}
  hilly: {terrain: {type: hilly, height: 0.3, width: 2, length: 100}}
faults:
  none: {}
  slippery: {friction: 0.01}
  heavy: {mass: 2}
  soft: {stiffness: 0.6}
  moon: {gravity: 0.5}
  dead: {dead: 1}
"""


def vsr(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "tiny.yaml").write_text(TINY)
    (folder / "set.yaml").write_text(SET)
    result = vsr("evolve", folder / "tiny.yaml", "--set", "generations=2", "--out", folder / "run", "--no-report")
    assert result.exit_code == 0, result.output
    return folder / "run"


@pytest.fixture(scope="module")
def found(run):
    """What the command wrote, what it printed, and the folder."""
    folder = run.parent
    result = vsr(
        "evaluate", run, "--on", folder / "set.yaml", "--json", folder / "found.json", "--plot", folder / "found.png"
    )
    assert result.exit_code == 0, result.output
    return json.loads((folder / "found.json").read_text()), result.output, folder


def of_case(found, robot, *case):
    """The measures of a robot in all trials of a case."""
    place = [tuple(one.values())[1:] for one in found["cases"]].index(case)
    return found["robots"][robot]["trials"][place]


def changed(scene, material=None, world=None, controller=None):
    """A scene that has the fault by description."""
    plain = scene.to_plain()
    plain["robot"]["body"]["materials"]["a"] |= material or {}
    plain["robot"]["controller"] |= controller or {}
    plain["world"] |= world or {}
    return Scene.model_validate(plain)


@pytest.mark.slow
def test_every_case_is_what_a_scene_of_its_own_gives(run, found):
    scene = load_scene(run / "best" / "seed-1.yaml")
    dying = int(np.argmin(np.random.default_rng([DRAWS, 0]).permutation(2)))
    expected = {
        "none": scene,
        "slippery": changed(scene, {"friction": 1.0}),
        "heavy": changed(scene, {"mass": 2.0, "spring_frequency": 8 / 2**0.5}),
        "soft": changed(scene, {"spring_frequency": 8 * 0.6**0.5}),
        "moon": changed(scene, world={"gravity": 4.9}),
        "dead": changed(scene, controller={"amplitude": [[float(voxel != dying) for voxel in (0, 1)]]}),
    }
    numbers = {}
    for fault, other in expected.items():
        wanted = simulate(other).measures
        assert of_case(found[0], 1, "flat", fault)[0] == pytest.approx(wanted["relative_velocity"], rel=0.01)
        numbers[fault] = wanted["relative_velocity"]
    assert len({round(number, 4) for number in numbers.values()}) == len(numbers)  # each of them does something
    ground = {"type": "hilly", "height": 0.3, "width": 2.0, "length": 100.0}
    hilly = simulate(changed(scene, world={"terrain": ground})).measures["relative_velocity"]
    assert of_case(found[0], 1, "hilly", "none")[0] == pytest.approx(hilly, rel=0.01)
    first, second = of_case(found[0], 1, "flat", "none")
    assert first != second


@pytest.mark.slow
def test_a_table_a_map_and_every_number(found):
    data, output, folder = found
    assert "2 robots, 1 task x 2 terrains x 6 faults, median of 2 trials" in output
    assert len([line for line in output.splitlines() if line.strip().startswith(("flat, ", "hilly, "))]) == 12
    assert (folder / "found.png").stat().st_size > 10_000
    assert [robot["name"] for robot in data["robots"]] == ["run, seed 0", "run, seed 1"]
    robot = data["robots"][0]
    assert robot["measures"] == ["relative_velocity"] * 12
    assert robot["taken"][0] == pytest.approx(np.mean(robot["trials"][0]))
    assert robot["kept"][1] == pytest.approx(robot["taken"][1] / robot["taken"][0])
    assert data["left_out"] == []


# Faults


@pytest.mark.parametrize("engine", ["squares", "points"])
def test_a_heavier_body_is_one_of_heavier_material(engine):
    def model(mass):
        return assemble_body(Body(shape=("aa", "a."), materials={"a": Material(mass=mass)}, engine=engine))

    scaled = ENGINES[engine].scaled(model(1.0), 1.0, 1.0, 1.0, mass=2.5)
    for found, expected in zip(jax.tree.leaves(scaled), jax.tree.leaves(model(2.5)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_dead_voxels_are_among_those_that_are_there():
    described = EvaluationSet(trials=5, faults={"two": Fault(dead=2), "all": Fault(dead=9), "none": Fault()})
    body = Body(shape=("aaa", "aaa"))
    trials = trials_of(described, list(described.faults.values()), 1, body, (2, 3), jnp.dtype("float32"))
    present = jnp.array([[1.0, 1, 0], [1, 1, 0]])
    alive = []
    for number in range(15):
        trial = trials._replace(dead=trials.dead[number], order=trials.order[number], noise=trials.noise[number])
        alive.append(np.asarray(apply_faults(None, present, trial).alive))  # pyright: ignore[reportArgumentType]
    assert [int(one.sum()) for one in alive] == [2] * 5 + [0] * 5 + [4] * 5
    assert all((one <= np.asarray(present)).all() for one in alive)
    assert len({one.tobytes() for one in alive[:5]}) > 1  # others in other trials


def test_noise_is_of_its_size_and_new_at_every_call():
    class Echo:
        sensors = ()

        def control(self, time, readings):
            return readings[0]

    own = FaultyController(Echo(), jnp.ones((40, 50)).at[0].set(0), jnp.float32(0.5), jnp.uint32(3))
    still = jnp.zeros((1, 40, 50))
    first, again, later = (np.asarray(own.decide(None, jnp.float32(t), still)[0]) for t in (1.0, 1.0, 1.1))
    np.testing.assert_array_equal(first, again)
    assert (first[1:] != later[1:]).all()
    assert (first[0] == 0).all()
    assert first[1:].std() == pytest.approx(0.5, rel=0.05)
    other, _ = replace(own, number=jnp.uint32(4)).decide(None, jnp.float32(1.0), still)
    assert (np.asarray(other)[1:] != first[1:]).all()


# Numbers


@pytest.fixture
def matrix():
    values = np.array([[[1.0, 3.0, 2.0], [1.0, np.nan, 3.0]], [[4.0, 4.0, 4.0], [np.nan, np.nan, 1.0]]])
    measures = np.full((2, 2), "relative_velocity", dtype=object)
    return Matrix(values, np.ones((2, 2)), "median", robots=("a", "b"), sources=(0, 1), measures=measures)


def test_failures_are_worse_than_any_number(matrix):
    np.testing.assert_array_equal(matrix.aggregated, [[2.0, 1.0], [4.0, np.nan]])
    np.testing.assert_array_equal(matrix.kept, [[1.0, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(replace(matrix, how="worst").aggregated[:, 1], [np.nan, np.nan])
    less_is_better = replace(matrix, sign=-np.ones((2, 2)))
    np.testing.assert_array_equal(less_is_better.aggregated, [[2.0, 3.0], [4.0, np.nan]])
    assert middle(matrix, 0, np.array([True, True])) == "3"
    assert middle(matrix, 1, np.array([True, True])) == "failed"
    assert (failed_text(matrix, 1), kept_text(matrix, 1)) == ("1", "25 %")


def test_cases_that_suit_nobody_are_blank(matrix):
    matrix.measures[1, 1], matrix.measures[0, 1] = "", "average_height"
    assert np.isnan(matrix.kept[:, 1]).all()  # a height is no share of a velocity
    assert middle(matrix, 1, np.array([False, True])) == ""
    assert failed_text(matrix, 1) == "0"
    described = EvaluationSet(faults={"none": Fault(), "other": Fault(dead=1)}, trials=3)
    assert as_plain(["x", "y"], described, matrix, [])["robots"][1]["taken"] == [4.0, None]


# Sets and what they suit


@pytest.mark.slow
def test_what_does_not_suit_robots_is_left_out_with_the_reason(run):
    described = EvaluationSet.model_validate(
        {
            "tasks": {
                "own": {},
                "walker": {"task": "Walker-v0"},
                "height": {"fitness": {"measure": "average_height", "direction": "minimize"}},
            },
            "terrains": {"flat": {"terrain": "flat"}, "bumpy": {"terrain": "bumpy"}},
            "faults": {"none": {}, "hard": {"stiffness": 100}, "hard, finer": {"stiffness": 100, "refine": 10}},
        }
    )
    found, left_out = combinations_of(read_groups([run], elites=False), described)
    reported = "\n".join(left_out)
    assert "own, bumpy: left out for all robots: world.terrain: its height changes along y" in reported
    assert "own, hard: left out for all robots: springs so quick need" in reported
    assert "walker, flat: left out for all robots" in reported
    assert [(one.faults, one.refine) for one in found] == [(("none",), 1), (("hard, finer",), 10)] * 2
    names = [setting.names for one in found for setting in one.settings]
    assert names == [("own", "flat")] * 2 + [("height", "flat")] * 2
    goals = [one.settings[0].goal for one in found]
    assert [(goal.measure, goal.sign) for goal in goals[::2]] == [("relative_velocity", 1.0), ("average_height", -1.0)]


@pytest.mark.slow
def test_substeps_chosen_at_home_are_divided_among_meetings_with_things(run):
    """19 in a time step would be 19 meetings in it, where 7 do."""
    described = EvaluationSet.model_validate({"tasks": {"home": {}, "carrier": {"task": "Carrier-v0"}}})
    (group, *_) = read_groups([run], elites=False)
    group = replace(group, physics=group.physics.model_copy(update={"substeps": 19}))
    (ground,) = described.terrains
    home, carrier = (settle(group, described, (name, ground)) for name in ("home", "carrier"))
    assert isinstance(home, Setting)
    assert isinstance(carrier, Setting)
    assert (home.physics.substeps, carrier.physics.substeps) == (19, 21)


def test_faulty_sets_are_reported_whole(tmp_path):
    file = tmp_path / "set.yaml"
    file.write_text(
        "trials: 0\nterrains:\n  a: {terrain: {type: hilly, heigth: 3}}\nfaults:\n  x: {frictoin: 2}\n"
        "tasks:\n  t: {task: {duration: 1}, fitness: relative_velocitx}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_set(file)
    lines = str(caught.value).splitlines()
    assert "set.yaml:1: trials: 0 given" in lines[0]
    assert "set.yaml:3: terrains.a.terrain.heigth: unknown key; did you mean 'height'?" in lines[1]
    assert "set.yaml:5: faults.x.frictoin: unknown key; did you mean 'friction'?" in lines[2]
    assert "set.yaml:7: tasks.t.fitness: unknown measure 'relative_velocitx'; did you mean" in lines[3]
    assert len(lines) == 4


def test_shipped_sets_are_sound():
    sets = [file for file in shipped_files() if file.kind == "evaluation_set"]
    assert sets
    for file in sets:
        assert load_set(file.path).cases
        assert vsr("check", file.path).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "transfr"], "did you mean 'transfer', which is shipped?"),
        (["--on", "biped"], "has this name; biped is for vsr simulate"),
        (["--on", "transfer", "--elites"], "keeps no elites; leave out --elites for its best"),
        (["--on", "transfer", "--plot", "x.jpg"], "should end in .png"),
    ],
)
def test_wrong_words_are_helped(run, arguments, message):
    result = vsr("evaluate", run, *arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


@pytest.mark.slow
def test_elites_of_an_archive(run, tmp_path):
    axes = "[{measure: gene_mean, range: [-3, 3], cells: 3}, {measure: gene_deviation, range: [0, 3], cells: 2}]"
    search = f"optimizer={{type: map_elites, population_size: 6, archives: {{brain: {{type: grid, axes: {axes}}}}}}}"
    result = vsr(
        "evolve", run.parent / "tiny.yaml", "--set", search, "--set", "generations=2", "--out", tmp_path / "elites",
        "--no-report",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    target = tmp_path / "found.json"
    (tmp_path / "set.yaml").write_text("faults: {none: {}}\n")
    assert (
        vsr("evaluate", tmp_path / "elites", "--elites", "--on", tmp_path / "set.yaml", "--json", target).exit_code == 0
    )
    robots = json.loads(target.read_text())["robots"]
    stored = np.load(tmp_path / "elites" / "archive.npz")["brain.members.fitness"]
    expected = stored[np.isfinite(stored)]
    # Other programs round otherwise, and gaits are chaotic.
    np.testing.assert_allclose([robot["taken"][0] for robot in robots], expected, rtol=0.03)
    assert robots[0]["name"].startswith("elites, seed 0, brain:")
