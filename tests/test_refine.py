"""Fitness that can be believed: several trials, leaders looked at again, `vsr refine`, reasons for failures."""

import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from vsr.cli import main
from vsr.episode import begin, reset, rollout, step
from vsr.evidence.reproduce.robots import keep_best, read_robustness
from vsr.evo.population import WORST
from vsr.experiments.config import load_experiment, load_scene
from vsr.experiments.evolve.fitness import confirmed_fitness, evaluate_all
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.perturbation import (
    MOST_TRIALS,
    EvaluationOptions,
    InitialNoise,
    Perturbation,
    aggregate_trials,
    perturbations_of,
    reset_perturbed,
)
from vsr.experiments.refine import VARIANTS, Robustness, head, robustness_of, rows, summary, variations_of
from vsr.experiments.report.findings import find_out
from vsr.experiments.report.sections import robustness
from vsr.experiments.resimulate import batches_of, read_robots
from vsr.experiments.storage.files import without_nan
from vsr.experiments.storage.robots import read_title
from vsr.experiments.storage.runs import read_run
from vsr.physics.failure import REASONS, Failure, counted
from vsr.physics.telemetry import fastest_speed
from vsr.scene import Scene, precision, simulate
from vsr.world.state import failure, pierced

pytestmark = pytest.mark.usefixtures("quickly_compiled")
CONFIG = """
robot:
  body: {shape: [aa]}
  controller: sine
task: {duration: 0.8}
evaluation: {trials: 2, aggregate: worst, refine: {factor: 2, top: 0.3, trials: 2}}
optimizer: {population_size: 6, tournament_size: 2}
generations: 2
seeds: 2
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    file = tmp_path_factory.mktemp("refine") / "walk.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def run(config):
    path = config.parent / "run"
    result = CliRunner().invoke(main, ["evolve", str(config), "--out", str(path), "--no-report"])
    assert result.exit_code == 0, result.output
    return path


# Starts


def test_starts_are_the_same_every_time_and_within_their_bounds():
    jitter = InitialNoise(height=0.002, frequency=0.01, damping=0.02)
    trials = perturbations_of(jitter, 9)
    again = perturbations_of(jitter, 9)
    for one, other in zip(trials, again, strict=True):
        np.testing.assert_array_equal(one, other) if one is not None else None
    assert float(trials.higher[0]) == 0
    assert float(trials.frequency[0]) == float(trials.damping[0]) == 1
    assert len(np.unique(trials.higher)) == 9
    assert 0.001 < float(trials.higher.max()) <= 0.002
    for factors, most in ((trials.frequency, 0.01), (trials.damping, 0.02)):
        assert 0.5 * most < float(abs(factors - 1).max()) <= most * (1 + 1e-5)
        assert float(factors.min()) < 1 < float(factors.max())
    assert trials.friction is None
    assert perturbations_of(jitter, 1).higher is None


@pytest.mark.parametrize(("aggregate", "expected"), [("median", 2.0), ("mean", 3.0), ("worst", 0.0)])
def test_several_starts_are_combined(aggregate, expected):
    fitness = jnp.array([[0.0, 7.0, 2.0], [1.0, WORST, 3.0]])
    found = np.asarray(aggregate_trials(aggregate, fitness))
    assert found[0] == expected
    assert found[1] == {"median": 1.0, "mean": -np.inf, "worst": -np.inf}[aggregate]


def test_the_first_of_several_starts_is_the_undisturbed_one():
    """In every bit, also where a robot stands on the ground from the beginning."""
    scene = Scene.model_validate({"robot": {"body": {"shape": "a"}}, "task": {"placement": {"clearance": 0.0}}})
    scenario, _ = scene.build()
    begun = jax.jit(lambda start: reset_perturbed(scenario, start)[1].world.robots[0].position)
    np.testing.assert_array_equal(begun(Perturbation()), begun(Perturbation(higher=jnp.float32(0))))


# Leaders


def test_leaders_get_the_worse_number_and_no_one_unchecked_leads():
    fitness = jnp.array([5.0, 4.0, 3.9, 3.0, 1.0, WORST])
    found = np.asarray(confirmed_fitness(fitness, jnp.array([0, 1]), jnp.array([2.0, 4.5])))
    np.testing.assert_allclose(found[:2], [2.0, 4.0])  # the second look cannot raise what the first one said
    np.testing.assert_allclose(found[2:5], [3.9 - 1.5, 3.0 - 1.5, 1.0 - 1.5])  # less by the median loss of 3 and 0
    assert found[5] == -np.inf
    contact_overflow = np.asarray(confirmed_fitness(jnp.array([5.0, 4.9, 4.8]), jnp.array([0]), jnp.array([5.0])))
    assert contact_overflow[0] > contact_overflow[1]
    failed = np.asarray(confirmed_fitness(jnp.array([5.0, 4.0, 3.0]), jnp.array([0, 1]), jnp.array([WORST, 3.5])))
    assert failed[0] == -np.inf
    assert failed[1] > failed[2]
    no_one = np.asarray(confirmed_fitness(jnp.array([5.0, 4.0, 3.0]), jnp.array([0, 1]), jnp.array([WORST, WORST])))
    assert (no_one == -np.inf).all()


@pytest.mark.slow
def test_an_evaluation_is_the_worst_of_its_starts_and_of_finer_steps(config):
    experiment = load_experiment(config)
    genes = jax.jit(lambda key: experiment.robot.sample(key, 6))(jax.random.key(1))

    def fitness(options):
        options = {"trials": 1, "refine": None, **options}
        chosen = experiment.model_copy(update={"evaluation": EvaluationOptions.model_validate(options)})
        (found,) = jax.jit(lambda given: evaluate_all(chosen, 8, (given,)))(genes)
        assert found.failure is not None
        return np.asarray(found.fitness)

    once = fitness({})
    twice = fitness({"trials": 2, "aggregate": "worst"})
    assert (twice <= once + 1e-5).all()
    assert (twice < once - 1e-5).any()
    checked = fitness({"trials": 2, "aggregate": "worst", "refine": {"factor": 2, "top": 1.0, "trials": 2}})
    assert (checked <= twice + 1e-5).all()
    substeps = 2 * experiment.schedule().substeps
    experiment = experiment.model_copy(update={"physics": experiment.physics.model_copy(update={"substeps": substeps})})
    smaller_steps = fitness({"trials": 2, "aggregate": "worst"})
    np.testing.assert_allclose(checked, np.minimum(twice, smaller_steps), atol=1e-3)


@pytest.mark.slow
def test_both_looks_are_programs_of_their_own_and_say_what_one_would(config):
    """In double precision, because programs round differently and gaits are chaotic."""
    with precision("float64"):
        experiment = load_experiment(config)
        physics = experiment.physics.model_copy(update={"precision": "float64"})
        resampled = experiment.evaluation.model_copy(update={"resample": "every_generation"})
        experiment = experiment.model_copy(update={"evaluation": resampled, "physics": physics})
        genes = tuple(jax.jit(lambda key: experiment.robot.sample(key, 6))(jax.random.key(seed)) for seed in (1, 2))
        when = tuple(jnp.array([seed, 3], jnp.uint32) for seed in (0, 1))
        evolution = compile_evolution(experiment)
        whole = jax.jit(partial(evaluate_all, experiment, evolution.at_once))(genes, when)
        for one, other in zip(evolution.evaluate(genes, when), whole, strict=True):
            np.testing.assert_allclose(one.fitness, other.fitness, rtol=1e-6, atol=1e-9)
            np.testing.assert_array_equal(one.failure, other.failure)


@pytest.mark.slow
def test_a_run_says_what_its_numbers_mean(run):
    title = (run / "best" / "seed-0.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert "(worst of 16 fresh trials with time steps 2 times smaller, quartiles " in title
    assert title.endswith(" in the search)")
    found = read_title(run / "best" / "seed-0.yaml")
    assert found is not None
    assert found.value == pytest.approx(read_run(run).best[0, -1], rel=1e-5)


# vsr refine


@pytest.fixture(scope="module")
def refined(run, tmp_path_factory):
    """What the command prints, and the folder with what it writes."""
    folder = tmp_path_factory.mktemp("refined")
    files = ["--json", str(folder / "found.json"), "--plot", str(folder / "found.png")]
    result = CliRunner().invoke(main, ["refine", str(run), "--factors", "1,2", "--trials", "3", *files])
    assert result.exit_code == 0, result.output
    return result.output, folder


@pytest.mark.slow
def test_refine_prints_and_stores_what_is_left(run, refined):
    output, folder = refined
    assert "run, seed 1" in output
    assert "2 times smaller the median robot keeps" in output
    assert (folder / "found.png").stat().st_size > 1000
    stored = folder / "found.json"
    found = Robustness.of_plain(json.loads(stored.read_text(encoding="utf-8")))
    assert found.refined.shape == (2, 2, 3)
    assert found.changed.shape == (2, 6, 3)
    alone = simulate(load_scene_of(run, 0)).measures["relative_velocity"]
    assert found.refined[0, 0] == pytest.approx(alone, rel=0.2, abs=1e-3)  # nearly: no trial is the undisturbed one
    assert "lost x1" in output
    assert "lost x2" in output
    assert json.loads(stored.read_text(encoding="utf-8"))["lost"] == found.lost.tolist()
    assert (found.refined[:, 0, 0] != found.refined[:, 0, 1]).all()
    assert (found.changed[:, 0, 0] != found.changed[:, 1, 0]).all()
    np.testing.assert_allclose(found.kept, np.median(found.refined[:, 1], -1) / np.median(found.refined[:, 0], -1))
    assert (run / "refinement.json").is_file()


@pytest.mark.slow
def test_a_study_takes_what_refine_has_stored(run, refined, tmp_path, monkeypatch):
    """Only if it has the factors and starts that the study wants."""
    monkeypatch.setattr("vsr.evidence.reproduce.robots.robustness_of", None)  # cannot be called
    monkeypatch.setattr("vsr.evidence.reproduce.robots.simulate_again", lambda *_: ([0.1, 0.2, 0.3], None))
    found = read_run(run)
    keep_best(found, tmp_path, "walk", 3, (1, 2))
    known = read_robustness(found, tmp_path, "walk")
    assert known is not None
    stored = Robustness.of_plain(json.loads((run / "refinement.json").read_text(encoding="utf-8")))
    np.testing.assert_array_equal(known.refined, stored.refined)
    for repeats, factors in ((3, (1, 4)), (2, (1, 2))):
        with pytest.raises(TypeError):
            keep_best(found, tmp_path / "other", "walk", repeats, factors)


def load_scene_of(run, seed):
    return load_scene(run / "best" / f"seed-{seed}.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(("factors", "part"), [("0,2", "from 1 to 64"), ("4,2", "larger than"), ("a", "whole numbers")])
def test_refine_refuses_factors_that_are_none(run, factors, part):
    result = CliRunner().invoke(main, ["refine", str(run), "--factors", factors])
    assert result.exit_code == 2
    assert part in result.output


def test_refine_needs_a_robot(config):
    result = CliRunner().invoke(main, ["refine", str(config)])
    assert result.exit_code == 2
    assert "still to evolve" in result.output


def test_failed_starts_are_worse_than_any_other():
    values = np.array([[[1.0, np.nan, 3.0], [1.0, np.nan, np.nan]]])
    found = Robustness((1, 2), values, (), np.empty((1, 0, 3)))
    assert found.at(1)[0] == 1.0
    assert np.isnan(found.at(2)[0])
    assert found.kept[0] == 0  # nothing is left of it
    assert replace(found, minimized=True).at(1)[0] == 3.0


def test_no_trial_of_refine_is_one_that_evolution_selects_on():
    """Neither in height nor in the noise of hardware, however many there are."""
    jitter = InitialNoise()
    selected = perturbations_of(jitter, MOST_TRIALS)  # as many as evolution and its second look may have
    for count in (1, 8, 300):
        ((_, again),) = variations_of((4,), count, jitter, (), jnp.dtype("float32"))
        assert again.higher is not None
        assert again.higher.shape == (count,)
        assert not np.isin(np.asarray(again.higher), np.asarray(selected.higher)).any()
        assert not np.isin(np.asarray(again.number), np.asarray(selected.number)).any()
        assert (np.asarray(again.higher) <= jitter.height).all()
    for name in ("trials", "refine"):
        given = {"trials": MOST_TRIALS + 1}
        with pytest.raises(ValidationError):
            EvaluationOptions.model_validate(given if name == "trials" else {"refine": given})


def test_trials_that_collapse_are_seen_though_the_median_holds():
    values = np.array([[[1.0] * 8, [1.0] * 5 + [0.79, 0.1, np.nan]], [[-1.0] * 8, [-1.0] * 7 + [-1.21]]])
    found = Robustness((1, 16), values, (), np.empty((2, 0, 8)))
    np.testing.assert_allclose(found.kept, 1)
    np.testing.assert_allclose(found.lost, [[0, 3 / 8], [0, 1 / 8]])
    robots = [(name, None) for name in "ab"]
    assert dict(zip(head(found), rows(robots, found)[0], strict=True))["lost x16"] == "38 %"
    assert "25 % of all trials are then below 80 % of the x1 median, in 2 of 2 robots" in summary(found)
    less = replace(found, refined=-values, minimized=True)
    np.testing.assert_allclose(less.lost, found.lost)


def test_files_of_both_directions_are_judged_each_by_its_own():
    values = np.array([[[1.0, np.nan, 3.0]], [[1.0, np.nan, 3.0]]])
    found = Robustness((1,), values, (), np.empty((2, 0, 3)), (False, True))
    np.testing.assert_array_equal(found.at(1), [1.0, 3.0])
    np.testing.assert_array_equal(Robustness.of_plain(found.to_plain()).at(1), [1.0, 3.0])
    np.testing.assert_array_equal(found.some(slice(1, 2)).at(1), [3.0])


@pytest.mark.slow
def test_a_robots_file_says_whether_less_is_better(run, tmp_path):
    text = (run / "best" / "seed-0.yaml").read_text(encoding="utf-8")
    assert "direction: maximize" in text
    for direction in ("maximize", "minimize"):
        file = tmp_path / f"{direction}.yaml"
        file.write_text(text.replace("direction: maximize", f"direction: {direction}"), encoding="utf-8")
        (robot,) = read_robots(file)
        assert robot.goal.direction == direction


@pytest.mark.slow
def test_other_physics_is_one_more_row():
    """Here with substeps; a robot that has them already is not simulated again, one that cannot is left out."""
    scene = Scene.model_validate({"robot": {"body": {"shape": ["a"]}}, "task": {"duration": 0.2}})
    own = scene.physics.model_copy(update={"substeps": 12})
    scenes, measures = [scene, scene.model_copy(update={"physics": own})], ["average_height"] * 2
    variants = (("more substeps", "physics", {"substeps": 12}), ("too few", "physics", {"substeps": 1}))
    calls = []
    found = robustness_of(
        scenes, measures, factors=(1,), trials=2, changes=(), variants=variants, done=lambda *now: calls.append(now)
    )
    assert found.varied is not None
    assert found.tried is not None
    assert found.tried.tolist() == [[True, False], [True, False]]
    np.testing.assert_array_equal(found.varied[:, 0], np.broadcast_to(found.refined[1, 0], (2, 2)))
    assert (found.varied[0, 0] != found.refined[0, 0]).all()
    kept = found.kept_by_variant
    assert kept[1, 0] == 1
    assert kept[0, 0] == pytest.approx(1, abs=0.1)
    assert np.isnan(kept[:, 1]).all()
    assert sum(more for more, _ in calls) == 6  # two robots and one variant of one of them, in two trials each
    assert {total for _, total in calls} == {6}
    again = Robustness.of_plain(json.loads(json.dumps(without_nan(found.to_plain()))))
    np.testing.assert_array_equal(again.kept_by_variant, kept)


def test_a_robot_that_depends_on_one_kind_of_physics_is_marked():
    values, varied = np.ones((3, 1, 2)), np.array([[[0.95, 0.95]], [[0.7, 0.7]], [[np.nan, np.nan]]])
    tried = np.ones((3, 1), bool)
    found = Robustness((1,), values, (), np.empty((3, 0, 2)), False, ("contact free",), varied, tried)
    robots = [(name, None) for name in "abc"]
    assert head(found)[-1] == "contact free"
    assert [row[-1] for row in rows(robots, found)] == ["95 %", "70 % !", "0 % !"]
    assert "2 of 3 robots change by more than 10 % with contact free" in summary(found)


@pytest.mark.slow
def test_rules_of_sticking_are_tried_with_square_masses():
    assert [fields for _, _, fields in VARIANTS] == [{"sticking": "in_contact"}, {"sticking": "approaching"}]
    scenes = [
        Scene.model_validate({"robot": {"body": {"shape": ["a"], "engine": engine}}, "task": {"duration": 0.1}})
        for engine in ("squares", "points")
    ]
    found = robustness_of(scenes, ["average_height"] * 2, factors=(1,), trials=1, changes=())
    assert found.tried is not None
    assert found.tried.tolist() == [[True, True], [False, False]]
    with pytest.raises(ValidationError, match=r"world\.sticking: it has no meaning for points"):
        Scene.model_validate({**scenes[1].model_dump(), "world": {"sticking": "in_contact"}})


@pytest.mark.slow
@pytest.mark.parametrize("simulated", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_files_of_the_same_name_and_of_different_precision_are_told_apart(run, tmp_path, monkeypatch, simulated):
    text = (run / "best" / "seed-0.yaml").read_text(encoding="utf-8")
    for folder, kind in (("a", "float32"), ("b", "float64")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "best.yaml").write_text(text.replace("precision: float32", f"precision: {kind}"))
    monkeypatch.chdir(tmp_path)
    files = [f"{folder}/best.yaml" for folder in "ab"]  # short, so that the table's column does not break them
    scenes = [load_scene(file) for file in files]
    assert [batch.rows for batch in batches_of(scenes, [None] * 2, Scene.build)] == [[0], [1]]  # no program has both
    if not simulated:
        found = Robustness((1,), np.ones((2, 1, 1)), (), np.empty((2, 0, 1)))
        monkeypatch.setattr("vsr.experiments.refine.robustness_of", lambda *_, **__: found)
    result = CliRunner().invoke(main, ["refine", *files, "--factors", "1", "--trials", "1"])
    assert result.exit_code == 0, result.output
    assert all(f"{file}: best" in result.output.replace("\n", "") for file in files)


@pytest.mark.slow
@pytest.mark.usefixtures("refined")
def test_a_report_forgets_what_was_found_of_an_older_state(run):
    stored = json.loads((run / "refinement.json").read_text(encoding="utf-8"))
    found = find_out(read_run(run), "walk")
    assert "most changed" in str(robustness(found, "c"))
    (run / "refinement.json").write_text(json.dumps(stored | {"generations": 1}))
    assert "vsr refine" in str(robustness(found, "c"))
    (run / "refinement.json").write_text(json.dumps(stored))


# Failures


def test_reasons_are_counted():
    failure = jnp.array([0, 1, 1, 5, 3, 0])
    assert counted(failure).tolist() == [2, 0, 1, 0, 1, 0, 0, 0, 0, 0]
    labels = [
        "empty",
        "not finite",
        "exploded",
        "inverted",
        "left the world",
        "contact overflow",
        "leaking",
        "buried",
        "gained energy",
        "pierced",
    ]
    assert [reason.label for reason in REASONS] == labels


def scenario(**changed):
    scene = Scene.model_validate({"robot": {"body": {"shape": ["a"], **changed}}, "task": {"duration": 0.1}})
    return scene.build()


@pytest.mark.slow
def test_a_voxel_that_stays_inside_out_and_a_robot_that_is_gone_have_failed():
    """The mirror image of a voxel of points is at rest, so it stays one."""
    here, controller = scenario(engine="points")
    free = replace(here, world=replace(here.world, environment=replace(here.world.environment, terrain=None,
                                                                       gravity=jnp.zeros(()))))  # fmt: skip
    robot = reset(jax.random.key(0), free).world.robots[0]
    run = jax.jit(lambda scenario, state: rollout(scenario, controller, begin(scenario, state)).failure)
    assert int(run(free, robot)) == Failure.none
    mirrored = replace(robot, position=robot.position * jnp.array([-1, 1]))
    assert int(run(free, mirrored)) == Failure.inverted
    here, controller = scenario()  # squares, which the ground does not put back at once
    run = jax.jit(lambda scenario, state: rollout(scenario, controller, begin(scenario, state)).failure)
    robot = reset(jax.random.key(0), here).world.robots[0]
    away = replace(robot, position=robot.position + jnp.array([0, -5000.0]))
    assert int(run(here, away)) == Failure.buried

    def lost(scenario, start, later):
        first = begin(scenario, start)
        return rollout(scenario, controller, replace(first, world=replace(first.world, robots=(later,)))).failure

    assert int(jax.jit(lost)(here, robot, away)) == Failure.left_world
    nowhere = replace(robot, velocity=robot.velocity * jnp.nan)
    assert int(run(here, nowhere)) == Failure.not_finite
    fast = replace(robot, velocity=robot.velocity + jnp.array([0.0, 5e4]))
    assert int(run(here, fast)) == Failure.exploded


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["xla", "interpreted"])
@pytest.mark.parametrize("engine", ["squares", "points"])
def test_what_moves_a_quarter_of_a_voxel_in_a_substep_has_exploded(engine, implementation):
    """270 m/s for voxels of 3 m and 6 substeps of 1/60 s; a robot that is thrown less fast is none the worse for it."""
    body = {"shape": ["a"], "engine": engine}
    scene = Scene.model_validate(
        {"robot": {"body": body}, "world": {"terrain": None}, "physics": {"substeps": 6}, "task": {"duration": 1 / 30}}
    )
    here, _ = scene.build()

    @partial(jax.jit, static_argnames="substeps")
    def judged(speed, substeps):
        schedule = replace(here.schedule, substeps=substeps, implementation=implementation)
        scenario = replace(here, schedule=schedule)
        first = reset(jax.random.key(0), scenario)
        (robot,) = first.world.robots
        fast = replace(robot, velocity=robot.velocity + jnp.array([1.0, 0.0]) * speed)
        first = replace(first, world=replace(first.world, robots=(fast,)))  # what begins so has failed before
        return step(scenario, first, jnp.zeros((1, 1)))[0].failure

    assert float(fastest_speed(3.0, 1 / 360)) == pytest.approx(270)
    assert float(fastest_speed(0.01, 1 / 360)) == pytest.approx((2 * 9.81 * 1.0) ** 0.5)
    # Drag takes 3 % within the interval.
    assert jax.vmap(partial(judged, substeps=6))(jnp.array([260.0, 300.0])).tolist() == [0, Failure.exploded]
    if implementation == "xla":
        assert jax.vmap(partial(judged, substeps=12))(jnp.array([300.0, 570.0])).tolist() == [0, Failure.exploded]


def test_the_limit_of_objects_is_that_of_the_robots_voxels():
    described = {"name": "ball", "shape": {"type": "ball", "radius": 1.0}, "position": [100.0, 50.0]}
    scene = {"robot": {"body": {"shape": ["a"]}}, "world": {"objects": [described]}, "physics": {"substeps": 6}}
    here, _ = Scene.model_validate(scene).build()

    @jax.jit
    def found(speed):
        state = reset(jax.random.key(0), here).world
        objects = state.systems["objects"]
        fast = replace(objects, solids=replace(objects.solids, velocity=jnp.array([[0.0, -1.0]]) * speed))
        return failure(here.world, replace(state, systems={"objects": fast}), here.schedule.substep)

    assert jax.vmap(found)(jnp.array([260.0, 280.0])).tolist() == [0, Failure.exploded]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "engine"), [(["aa"], "squares"), (["aa"], "points"), ([["aa"]], "points")])
def test_what_is_deeper_in_the_ground_than_steps_explain_has_pierced_it(shape, engine):
    """More than a quarter of a voxel's side; ground of lines, of heights in 3-D, and of blocks."""
    in_3d = [{"type": "bumpy", "height": 0.0}] if engine == "points" and len(shape[0]) == 1 else []
    for terrain in [{"type": "flat"}, {"type": "blocks", "heights": "3x300"}, *in_3d]:
        scene = {
            "robot": {"body": {"shape": shape, "engine": engine}},
            "world": {"terrain": terrain},
            "task": {"placement": {"left": 20.0, "clearance": 0.0}},
        }
        here, _ = Scene.model_validate(scene).build()

        @jax.jit
        def found(depth, here=here):
            state = reset(jax.random.key(0), here).world
            (robot,) = state.robots
            down = jnp.zeros(robot.position.shape[-1]).at[-1].set(-depth)
            return pierced(here.world, replace(state, robots=(replace(robot, position=robot.position + down),)))

        assert jax.vmap(found)(jnp.array([-1.0, 0.0, 0.7, 0.8])).tolist() == [0, 0, 0, Failure.pierced], terrain


@pytest.mark.slow
def test_a_robot_that_was_pressed_into_the_ground_has_failed():
    """Found at the next control call: the ground puts it back by 0.2 m a substep at most."""
    here, controller = scenario()

    def pressed(depth):
        first = reset(jax.random.key(0), here)
        (robot,) = first.world.robots
        low = replace(robot, position=robot.position - jnp.array([0.0, 1.0]) * depth)
        return rollout(here, controller, replace(first, world=replace(first.world, robots=(low,)))).failure

    assert jax.jit(jax.vmap(pressed))(jnp.array([0.0, 1.5, 5.2])).tolist() == [0, 0, Failure.pierced]
