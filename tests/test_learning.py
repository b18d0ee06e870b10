"""Search along gradients and learning in a lifetime: what goes through windows, what is inherited, what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.episode import begin, rollout
from vsr.evo import OPTIMIZERS, Evaluation, adam
from vsr.evo.inheritance import Baldwinian, Lamarckian
from vsr.evo.population import NO_PARENT
from vsr.experiments.config import ConfigError, parse_experiment
from vsr.experiments.evolve.command import evolve
from vsr.experiments.evolve.fitness import evaluation_of
from vsr.experiments.learning import Learning, learn
from vsr.experiments.options import EvolveOptions
from vsr.experiments.perturbation import Perturbation, reset_perturbed
from vsr.experiments.storage.runs import read_run
from vsr.gradients import rollout_truncated
from vsr.scene import precision

pytestmark = pytest.mark.usefixtures("quickly_compiled")

FLYING = """
robot:
  body: {shape: aa, engine: points}
  controller: {type: sine, frequency: 2.0}
world: {terrain: null}
task: {duration: 0.4}
fitness: average_squared_control
physics: {implementation: differentiable, precision: float64, time_step: 1/30}
evaluation: {trials: 1, refine: null, gradients: {window: 0.4}}
optimizer: {type: adam, population_size: 4}
generations: 4
seeds: 2
checkpoint_seconds: 0
"""


def hill(genes):
    """Highest at 1."""
    return -((genes["controller"] - 1) ** 2).sum(-1)


def hill_of_robots(genes, copies):
    return Evaluation(hill(genes), jnp.zeros(len(genes["controller"]), bool), gradients=jax.vmap(jax.grad(hill))(genes))


def born(size=5, genes=3):
    draw = jax.random.normal(jax.random.key(3), (size, genes))
    return {"body": jnp.arange(2.0 * size).reshape(size, 2), "controller": draw}


# Windows


@pytest.mark.full
def test_the_slope_of_a_window_over_a_whole_episode_is_that_of_fitness():
    experiment = parse_experiment(FLYING)
    with precision("float64"):
        genes = {"body": jnp.zeros(0), "controller": jnp.array([0.3, 1.1])}
        found = jax.jit(evaluation_of(experiment, differentiable=True))(genes)
        fitness = jax.jit(lambda own: evaluation_of(experiment)({**genes, "controller": own}).fitness)
        at, size = genes["controller"], 1e-6
        gradients = [float(fitness(at + size * way) - fitness(at - size * way)) / (2 * size) for way in np.eye(2)]
        assert float(found.fitness) == pytest.approx(float(fitness(at)), rel=1e-12)
    assert np.abs(gradients).min() > 1e-3
    np.testing.assert_allclose(found.gradients["controller"], gradients, rtol=1e-6)
    assert found.gradients["body"].shape == (0,)


@pytest.mark.full
def test_windows_change_no_episode_and_slopes_stay_inside_them():
    """Two windows of one call in an episode of six: what is decided before them is given."""
    experiment = parse_experiment(FLYING)
    with precision("float64"):
        scenario, controller = experiment.scene({"body": np.zeros(0), "controller": np.array([0.3, 1.1])}).build()
        scenario, start = reset_perturbed(scenario, Perturbation())

        def two(amplitude):
            driven = replace(controller, amplitude=amplitude * controller.amplitude)
            begun = begin(scenario, start.world.robots[0])
            summary, worths = rollout_truncated(
                scenario, driven, begun, lambda seen: seen.mean_squared_control, length=1, count=2
            )
            return worths, (summary, rollout(scenario, driven, begun))

        gradients, (summary, plain) = jax.jit(jax.jacfwd(two, has_aux=True))(jnp.array(0.5))
        worths = np.asarray(jax.jit(lambda amplitude: two(amplitude)[0])(jnp.array(0.5)))
        assert scenario.schedule.calls == 6
        with pytest.raises(ValueError, match="3 windows of 3 control calls do not fit into an episode of 6"):
            rollout_truncated(scenario, controller, start, lambda seen: seen.mean_height, 3, 3)
    # What is decided in a window of one call is its effort: the square of what is asked for.
    np.testing.assert_allclose(gradients, 2 * worths / 0.5, rtol=1e-9)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), summary, plain)


# Adam


def ascended(optimizer, generations, failing=()):
    """What was asked in every generation; failing: (generation, individual) that fail."""

    def sample(key, count):
        return {"controller": jax.random.normal(key, (count, 3)), "body": jnp.zeros((count, 0))}

    search, seen = optimizer.start(jax.random.key(0), sample), []
    ask, tell = jax.jit(lambda search: optimizer.ask(search, sample)), jax.jit(optimizer.tell)
    for generation in range(generations):
        asked = ask(search)
        seen.append(asked)
        failed = jnp.array([(generation, place) in failing for place in range(optimizer.population_size)])
        search = tell(search, asked, replace(hill_of_robots(asked.genes, 1), failed=failed))
    return seen


def test_restarts_climb_and_those_that_fail_begin_anew():
    seen = ascended(OPTIMIZERS["adam"](population_size=3, rate=0.2, patience=None), 12, failing={(4, 1)})
    fitness = np.array([hill(asked.genes) for asked in seen])
    assert (fitness[-1, [0, 2]] > fitness[0, [0, 2]]).all()
    assert fitness[-1, [0, 2]].min() > -0.5
    begun = np.array([asked.parents[:, 0] for asked in seen]) == NO_PARENT
    expected = np.zeros((12, 3), bool)
    expected[0], expected[5, 1] = True, True
    np.testing.assert_array_equal(begun, expected)
    steps = np.array([np.abs(seen[k + 1].genes["controller"] - seen[k].genes["controller"]).max(1) for k in range(11)])
    assert steps[4, 1] > 0.3  # somewhere else
    assert steps[~expected[1:]].max() < 0.25  # no further than about the rate


@pytest.mark.full
def test_restarts_that_do_not_become_better_begin_anew():
    """With a rate that leaps over the hill."""
    seen = ascended(OPTIMIZERS["adam"](population_size=3, rate=50.0, patience=2), 4)
    assert (seen[1].parents[:, 0] == seen[0].id).all()
    assert (seen[3].parents[:, 0] == NO_PARENT).all()


def test_without_optax_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(adam, "_optax", lambda: None)
    with pytest.raises(ConfigError, match=r"pip install 'voxel-soft-robots\[learning\]'"):
        parse_experiment(FLYING)


# Learning


@pytest.mark.parametrize("method", ["es", "gradient"])
def test_individuals_learn_alone_from_their_genes(method):
    learning = Learning(method=method, steps=4, samples=16, sigma=0.05, rate=0.1)
    genes = born()
    after = learn(learning, genes, hill_of_robots)
    assert (hill(after) > hill(genes)).all()
    np.testing.assert_array_equal(after["body"], genes["body"])
    way = np.sqrt(np.mean((after["controller"] - genes["controller"]) ** 2, axis=1))
    assert 0.1 < way.min() < way.max() <= 0.4 * (1 + 1e-5)
    alone = learn(learning, jax.tree.map(lambda leaf: leaf[2:3], genes), hill_of_robots)
    np.testing.assert_allclose(alone["controller"][0], after["controller"][2], rtol=1e-6)


@pytest.mark.full
def test_nothing_is_learned_where_everything_fails():
    def failing(genes, copies):
        return replace(hill_of_robots(genes, copies), failed=jnp.ones(len(genes["controller"]), bool))

    np.testing.assert_array_equal(learn(Learning(), born(), failing)["controller"], born()["controller"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param(Lamarckian, marks=pytest.mark.full), Baldwinian])
def test_children_inherit_what_was_learned_or_not(kind):
    """In either case the best is kept as it was when it was judged."""
    search = kind(OPTIMIZERS["mu_plus_lambda"](population_size=6, tournament_size=2))

    def sample(key, count):
        return {"body": jnp.zeros((count, 0)), "controller": jax.random.normal(key, (count, 3))}

    @jax.jit
    def generation(state):
        asked = search.ask(state, sample)
        learned = {**asked.genes, "controller": asked.genes["controller"] + 0.25}
        evaluation = replace(hill_of_robots(learned, 1), learned=learned)
        following = search.tell(state, asked, evaluation)
        return following, asked, search.summary(following)

    state, seen = search.start(jax.random.key(0), sample), {}
    for _ in range(4):
        state, asked, summary = generation(state)
        seen |= dict(zip(np.asarray(asked.id).tolist(), np.asarray(asked.genes["controller"]), strict=True))
        kept = 0.25 if kind is Lamarckian else 0.0
        for id, genes in zip(np.asarray(summary.members.id).tolist(), summary.members.genes["controller"], strict=True):
            np.testing.assert_allclose(genes, seen[id] + kept, rtol=1e-6)
        best = summary.best
        np.testing.assert_allclose(best.genes["controller"][0], seen[int(best.id[0])] + 0.25, rtol=1e-6)
        assert float(hill(best.genes)[0]) == pytest.approx(float(best.fitness[0]), rel=1e-5)


# Experiments

NOT_LEARNING = "optimizer: {type: adam, population_size: 4}"
LEARNING = "optimizer: {population_size: 4, tournament_size: 2}\nlearning: "


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("implementation: differentiable, ", "", "physics.implementation: 'auto' has no gradients, which 'adam' needs"),
        (
            "average_squared_control",
            "gait_frequency",
            "fitness.measure: 'gait_frequency' has no gradients, which 'adam'",
        ),
        (
            "{shape: aa, engine: points}",
            "{type: gaussian_mixture, grid: [2, 2], materials: {a: {}}}",
            "optimizer.type: 'adam' uses gradients, and the genes",
        ),
        ("window: 0.4", "window: 0.5", "evaluation.gradients: 1 of 0.533 s do not fit into an episode of 0.4 s"),
        (
            "window: 0.4",
            "window: 0.2, windows: 3",
            "evaluation.gradients: 3 of 0.2 s do not fit into an episode of 0.4 s",
        ),
        (NOT_LEARNING, NOT_LEARNING + "\nlearning: {}", "learning: 'adam' learns itself: leave it out"),
        (NOT_LEARNING, LEARNING + "{samples: 3}", "learning.samples: .*opposite pairs"),
    ],
)
def test_what_cannot_learn_is_refused(old, new, complaint):
    with pytest.raises(ConfigError, match=complaint):
        parse_experiment(FLYING.replace(old, new))


def test_learning_by_gradient_needs_slopes_too_and_by_samples_does_not():
    plain = FLYING.replace("implementation: differentiable, ", "")
    assert parse_experiment(plain.replace(NOT_LEARNING, LEARNING + "{method: es}")).learning is not None
    with pytest.raises(
        ConfigError, match="'auto' has no gradients, which learning by gradient needs: use 'differentiable'"
    ):
        parse_experiment(plain.replace(NOT_LEARNING, LEARNING + "{method: gradient}"))


def test_costs_are_counted():
    each = {"steps": 3, "samples": 8}
    learning = parse_experiment(FLYING.replace(NOT_LEARNING, LEARNING + str(each).replace("'", "")))
    assert learning.episodes() == 4 * (1 + 3 * 8)
    half = parse_experiment(FLYING.replace("window: 0.4", "window: 0.2, windows: 1"))
    assert half.episodes() == pytest.approx(4 * (1 + 5 * 0.5))


@pytest.mark.full
@pytest.mark.parametrize(
    "optimizer",
    [
        NOT_LEARNING,
        LEARNING + "{steps: 1, samples: 2, inheritance: baldwinian}",
        LEARNING + "{method: gradient, steps: 2, inheritance: lamarckian}",
    ],
)
def test_a_run_resumes_bit_by_bit_and_tells_its_cost(tmp_path, optimizer):
    file = tmp_path / "flying.yaml"
    file.write_text(FLYING.replace(NOT_LEARNING, optimizer))
    whole = evolve(EvolveOptions(str(file), out=str(tmp_path / "whole")))
    torn = evolve(EvolveOptions(str(file), settings=("generations=2",), out=str(tmp_path / "torn")))
    evolve(EvolveOptions(str(torn), settings=("generations=4",), resume=True))
    alone = evolve(EvolveOptions(str(file), seed=1, out=str(tmp_path / "alone")))
    np.testing.assert_array_equal(read_run(whole).fitness, read_run(torn).fitness)
    np.testing.assert_array_equal(read_run(whole).fitness[1:], read_run(alone).fitness)
    assert (whole / "best" / "seed-0.yaml").read_bytes() == (torn / "best" / "seed-0.yaml").read_bytes()
    assert "simulated_seconds" in read_run(whole).metrics
