"""Search: what every optimizer must keep, and the operators' statistics."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.evo import OPTIMIZERS, Evaluation, EvogymGA, MuPlusLambda
from vsr.evo.diversity import distinct, gene_spread
from vsr.evo.generations import Generational
from vsr.evo.operators import (
    duplicates,
    extended_segment_crossover,
    fingerprints,
    gaussian_mutation,
    redrawn,
    tournament,
    truncation,
)
from vsr.evo.population import NO_PARENT, WORST
from vsr.evo.two_stage import TwoStage

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SIZE, GENES, GENERATIONS = 24, 6, 8


def sample(key, count):
    one, two = jax.random.split(key)
    return {"a": jax.random.uniform(one, (count, GENES)), "b": jax.random.normal(two, (count,))}


def fitness_of(genes):
    """A hill at 0.5, with holes where individuals fail."""
    value = -((genes["a"] - 0.5) ** 2).sum(-1) - genes["b"] ** 2
    return jnp.where(genes["b"] > 1.5, jnp.nan, value)


def evaluation_of(genes, descriptors=(), differentiable=False):
    """descriptors: names of genes in "a", by their place; sloped: whether to tell the gradients of the hill."""
    fitness = fitness_of(genes)
    described = jnp.stack([genes["a"][:, int(name)] for name in descriptors], -1) if descriptors else None
    gradients = jax.vmap(jax.grad(fitness_of))(genes) if differentiable else None
    return Evaluation(fitness, failed=jnp.isnan(fitness), descriptors=described, gradients=gradients)


NEEDED = {
    "map_elites": {
        "archives": {
            "one": {"type": "grid", "axes": [{"measure": "0", "range": [0.0, 1.0], "cells": 6}]},
            "two": {"type": "cvt", "axes": [{"measure": n, "range": [0.0, 1.0]} for n in "12"], "cells": 8},
        }
    },
    "two_stage": {"first": "a", "first_generations": 4},
    "nsga2": {"objectives": [{"measure": "0"}], "reference": [-10.0, 5.0]},
}
"""Settings that an optimizer cannot do without."""


def generation_of(optimizer):
    """A function of a search, and of whether everyone fails: the search a generation later, and what is seen of it."""

    def generation(search, ill):
        asked = optimizer.ask(search, sample)
        evaluation = evaluation_of(asked.genes, optimizer.descriptors, optimizer.needs_gradients)
        following = optimizer.tell(search, asked, replace(evaluation, failed=evaluation.failed | ill))
        summary = optimizer.summary(following)
        return following, (asked, summary.members, summary.best, summary.metrics)

    return generation


LESS_OFTEN = ("sep_cma_es", "snes", "open_es", "evosax")
"""Strategies that differ from another one in a few lines of evosax: left to the full suite."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.full] * (name in LESS_OFTEN)) for name in OPTIMIZERS],
)
def optimizer(request):
    if request.param in ("cma_es", *LESS_OFTEN):
        pytest.importorskip("evosax")
    return OPTIMIZERS[request.param](population_size=SIZE, **NEEDED.get(request.param, {}))


@pytest.fixture(scope="module")
def first(optimizer):
    """The search of a seed before its first generation."""
    begin = jax.jit(lambda key: optimizer.start(key, sample))
    return lambda seed: begin(jax.random.key(seed))


@pytest.fixture(scope="module")
def following(optimizer):
    return jax.jit(generation_of(optimizer))


@pytest.fixture(scope="module")
def history(first, following):
    """A function of a seed: every generation's asked individuals, survivors, leader and figures."""

    def history(seed):
        search, seen = first(seed), []
        for _ in range(GENERATIONS):
            search, now = following(search, False)
            seen.append(now)
        return jax.tree.map(lambda *parts: np.stack(parts), *jax.device_get(seen))

    return history


@pytest.fixture(scope="module")
def run(history):
    return history(1)


def test_the_best_never_worsens(run):
    asked, _, leader, _ = run
    top = leader.fitness[:, 0]
    assert (np.diff(top) >= 0).all()
    assert top[-1] > top[0]
    assert top[-1] == np.nanmax(fitness_of(asked.genes))


def test_survivors_are_sorted_and_never_a_failure_while_others_live(optimizer, run):
    asked, survivors, *_ = run
    assert not np.isnan(survivors.fitness).any()
    if isinstance(optimizer, Generational):
        assert np.isnan(fitness_of(asked.genes)).any()
        np.testing.assert_array_equal(survivors.fitness, -np.sort(-survivors.fitness, axis=1))
        assert (survivors.fitness[-1] > WORST).all()


def test_the_same_seed_gives_the_same_run_and_another_does_not(history, run):
    _, survivors, *_ = run
    _, again, *_ = history(1)
    _, other, *_ = history(2)
    jax.tree.map(np.testing.assert_array_equal, again, survivors)
    assert not np.array_equal(other.genes["a"], survivors.genes["a"])


def test_lineage_follows_genes(run):
    """Ids are unique and rise with birth; survivors have the genes they were asked with; parents were alive."""
    asked, survivors, *_ = run
    ids = asked.id.ravel()
    np.testing.assert_array_equal(np.sort(ids), np.arange(SIZE * GENERATIONS))
    genes = dict(zip(ids, asked.genes["a"].reshape(-1, GENES), strict=True))
    for generation in range(GENERATIONS):
        for survivor, own in zip(survivors.id[generation], survivors.genes["a"][generation], strict=True):
            np.testing.assert_array_equal(own, genes[survivor])
        known = set(survivors.id[generation - 1]) | {NO_PARENT} if generation else {NO_PARENT}
        assert set(asked.parents[generation].ravel()) <= known
        assert (asked.birth[generation] == generation).all()


@pytest.mark.full
def test_seeds_batch_to_the_same_runs(optimizer, first, following):
    searches = [first(seed) for seed in (3, 4)]
    together = jax.jit(jax.vmap(generation_of(optimizer), (0, None)))
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *searches)
    for _ in range(3):
        batch, (_, members, *_) = together(batch, False)
    for i, search in enumerate(searches):
        for _ in range(3):
            search, (_, alone, *_) = following(search, False)
        np.testing.assert_allclose(members.genes["a"][i], alone.genes["a"], atol=1e-5)
        np.testing.assert_array_equal(members.id[i], alone.id)


def test_a_generation_of_failures_is_survived(first, following):
    """Those after it are asked for as by default, and the first that is sound leads."""
    search = first(0)
    for ill in (True, True, False):
        search, (asked, _, leader, _) = following(search, ill)
        assert all(np.isfinite(leaf).all() for leaf in asked.genes.values())
        assert (leader.fitness[0] == WORST) == ill


def test_mutation_has_its_spread():
    genes = {"a": jnp.zeros((2000, 5)), "b": jnp.ones(2000)}
    child = gaussian_mutation(jax.random.key(0), genes, 0.15)
    assert float(child["a"].std()) == pytest.approx(0.15, rel=0.03)
    assert float(child["b"].mean()) == pytest.approx(1.0, abs=0.02)
    assert abs(np.corrcoef(child["a"][:, 0], child["b"])[0, 1]) < 0.08


def test_crossover_is_uniform_along_the_extended_segment():
    first, second = jnp.full((4000, 3), 1.0), jnp.full((4000, 3), 3.0)
    child = np.asarray(extended_segment_crossover(jax.random.key(0), first, second))
    assert child.min() == pytest.approx(-1.0, abs=0.01)
    assert child.max() == pytest.approx(5.0, abs=0.01)
    assert child.mean() == pytest.approx(2.0, abs=0.06)
    assert abs(np.corrcoef(child[:, 0], child[:, 1])[0, 1]) < 0.06


def second_generation(optimizer, key):
    search = optimizer.start(key, sample)
    asked = optimizer.ask(search, sample)
    return optimizer.tell(search, asked, evaluation_of(asked.genes))


def test_operators_are_chosen_at_their_rate():
    optimizer = MuPlusLambda(population_size=4000, attempts=0)
    children = jax.jit(lambda key: optimizer.ask(second_generation(optimizer, key), sample))(jax.random.key(0))
    assert float((children.parents[:, 1] != NO_PARENT).mean()) == pytest.approx(0.8, abs=0.02)


def test_tournaments_win_as_often_as_they_should():
    """With n individuals the fittest wins with chance 1 - (1 - 1/n)**size."""
    winners = np.asarray(tournament(jax.random.key(0), jnp.arange(10.0), 3, 20000))
    assert (winners == 9).mean() == pytest.approx(1 - 0.9**3, abs=0.01)
    assert (winners == 0).mean() == pytest.approx(0.1**3, abs=0.001)


def test_truncation_keeps_the_fittest_and_the_elder_among_equals():
    np.testing.assert_array_equal(truncation(jnp.array([1.0, 3.0, WORST, 3.0, 2.0]), 3), [1, 3, 4])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_fingerprints_tell_genes_apart(precision):
    with jax.enable_x64(precision == "float64"):
        genes = jnp.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.0, 0.0], [-0.0, 0.0], [0.5, 2.0]], precision)
        marks = np.asarray(jax.jit(fingerprints)(genes))
    assert (marks[0] == marks[2]).all()
    assert (marks[3] == marks[4]).all()
    assert len({tuple(mark) for mark in marks}) == 4


def test_repeated_finds_copies_of_others_and_of_earlier_children():
    others = jnp.array([[5.0], [6.0]])
    np.testing.assert_array_equal(
        duplicates(jnp.array([[1.0], [5.0], [1.0], [2.0]]), others), [False, True, True, False]
    )


def test_children_that_exist_are_made_anew():
    """Two parents that are the same give themselves by crossover; with attempts no child is a copy."""
    optimizer = MuPlusLambda(population_size=16, tournament_size=8)

    @jax.jit
    def copies(key):
        search = second_generation(optimizer, key)
        choices = [optimizer.model_copy(update={"attempts": attempts}) for attempts in (0, 10)]
        children = [choice.ask(search, sample) for choice in choices]
        return [duplicates(each.genes, search.population.genes).sum() for each in children]

    without, with_attempts = copies(jax.random.key(0))
    assert int(without) > 0
    assert int(with_attempts) == 0


def test_spread_is_the_mean_over_genes_of_their_standard_deviations():
    genes = {"a": jnp.array([[0.0, 5.0], [2.0, 5.0]]), "b": jnp.array([1.0, 7.0]), "c": jnp.zeros((2, 0))}
    assert float(gene_spread(genes)) == pytest.approx((1 + 0 + 3) / 3)


def test_distinct_counts_what_differs_in_any_part():
    objects = {"a": jnp.array([[1, 2], [2, 1], [1, 2], [1, 2]]), "b": jnp.array([0.0, 0.0, -0.0, 1.0])}
    assert int(distinct(objects)) == 3
    assert int(distinct(jnp.zeros((1, 4)))) == 1


def test_evogyms_survivors_fall_linearly_to_two():
    optimizer = EvogymGA(population_size=25, budget=500)
    counts = [int(optimizer.survivor_count(jnp.array(used))) for used in (0, 100, 250, 475, 500, 900)]
    assert counts == [15, 12, 7, 2, 2, 2]


def whole_numbers(key, count):
    """Five genes from 0 to 4; those whose sum is odd are refused."""
    return jax.random.randint(key, (count, 5), 0, 5).astype(float)


class Even:
    def __call__(self, key, count):
        return whole_numbers(key, count)

    def accepts(self, genes):
        return genes.sum() % 2 == 0


def test_evogyms_children_come_from_survivors_are_acceptable_and_never_seen_before():
    optimizer = EvogymGA(population_size=6, budget=60, mutation_rate=0.4)

    @jax.jit
    def run(key):
        def generation(search, _):
            asked = optimizer.ask(search, Even())
            fitness = asked.genes.sum(1)
            survivors = (
                search.population.id[: optimizer.population_size],
                optimizer.survivor_count(search.generation * 6),
            )
            return optimizer.tell(search, asked, Evaluation(fitness, jnp.zeros(6, bool))), (asked, survivors)

        return jax.lax.scan(generation, optimizer.start(key, Even()), length=8)[1]

    asked, (members, survivors) = jax.device_get(run(jax.random.key(0)))
    genes = asked.genes.reshape(-1, 5)
    assert (genes.sum(1) % 2 == 0).all()
    assert len({tuple(one) for one in genes}) == len(genes)
    for generation in range(1, 8):
        parents = asked.parents[generation, :, 0]
        assert set(parents) <= set(members[generation][: survivors[generation]])
        assert (asked.parents[generation, :, 1] == NO_PARENT).all()


def test_evogyms_search_over_bodies_alone_leaves_controllers_as_they_are():
    optimizer = EvogymGA(population_size=4, budget=40, mutation_rate=0.2, part="body")

    def sample(key, count):
        bodies = jax.random.randint(key, (count, 2), 0, 7).astype(float)
        return {"body": bodies, "controller": jax.random.normal(key, (count, 3))}

    @jax.jit
    def run(key):
        def generation(search, _):
            asked = optimizer.ask(search, sample)
            return optimizer.tell(search, asked, Evaluation(asked.genes["body"].sum(1), jnp.zeros(4, bool))), asked

        return jax.lax.scan(generation, optimizer.start(key, sample), length=6)[1]

    asked = jax.device_get(run(jax.random.key(0)))
    bodies = asked.genes["body"].reshape(-1, 2)
    assert len({tuple(one) for one in bodies}) == len(bodies) == 24
    controllers = {
        int(one): genes for one, genes in zip(asked.id.flat, asked.genes["controller"].reshape(-1, 3), strict=True)
    }
    for one, parent in zip(asked.id.flat, asked.parents[:, :, 0].flat, strict=True):
        if parent != NO_PARENT:
            np.testing.assert_array_equal(controllers[int(one)], controllers[int(parent)])


def test_a_redrawn_gene_is_that_of_a_fresh_individual():
    old, fresh = jnp.zeros((4000, 3)), jnp.ones((4000, 3))
    assert float(redrawn(jax.random.key(0), old, fresh, 0.1).mean()) == pytest.approx(0.1, abs=0.01)


def test_parts_evolve_in_turn(run, optimizer):
    """Until the others' turn one part varies and the others are all the same; then it is the best one's."""
    if not isinstance(optimizer, TwoStage):
        pytest.skip("for one search only")
    asked, _, leader, _ = run
    for generation in range(GENERATIONS):
        a, b = (np.unique(asked.genes[name][generation], axis=0) for name in "ab")
        assert (len(a) > 1, len(b) > 1) == ((True, False) if generation < 4 else (False, True))
    np.testing.assert_array_equal(asked.genes["a"][4:], np.broadcast_to(leader.genes["a"][3], (4, SIZE, GENES)))
    assert (asked.parents[4] == [leader.id[3, 0], NO_PARENT]).all()
    assert (leader.genes["a"][4:] == leader.genes["a"][3]).all()
