"""Genes that are numbers of kinds, as those of EvoGym's bodies: searches with mutation redraw or exchange them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.evo import OPTIMIZERS, Evaluation
from vsr.evo.population import NO_PARENT, offspring
from vsr.evo.variation import cross_or_mutate
from vsr.experiments.encodings import EvolvedRobot

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SIZE, KINDS = 400, 5


class Sample:
    """Kinds from 0 to 4 and real numbers."""

    kinds = {"body": True, "brain": False}  # noqa: RUF012

    def __call__(self, key, count):
        one, two = jax.random.split(key)
        body = jax.random.randint(one, (count, 20), 0, KINDS).astype(float)
        return {"body": body, "brain": jax.random.normal(two, (count, 3))}


def children(rate, resampling_rate, sample):
    """Of two parents of nothing but kind 1 and kind 3, and their ids."""

    def parent(kind, first):
        genes = {"body": jnp.full((SIZE, 20), float(kind)), "brain": jnp.full((SIZE, 3), float(kind))}
        return offspring(genes, jnp.full((SIZE, 2), NO_PARENT), jnp.int32(first), jnp.int32(0))

    keys = tuple(jax.random.split(jax.random.key(0), 3))
    made = jax.jit(lambda: cross_or_mutate(keys, parent(1, 0), parent(3, SIZE), rate, 0.1, sample, resampling_rate))
    genes, parents = made()
    return np.asarray(genes["body"]), np.asarray(genes["brain"]), np.asarray(parents)


def test_mutation_draws_kinds_anew_and_adds_noise_to_the_rest():
    body, brain, parents = children(0.0, 0.25, Sample())
    assert set(np.unique(body)) == set(range(KINDS))
    assert (body != 1).mean() == pytest.approx(0.25 * (1 - 1 / KINDS), abs=0.02)
    assert brain.std() == pytest.approx(0.1, rel=0.1)
    assert (parents[:, 1] == NO_PARENT).all()


def test_crossover_takes_kinds_from_either_parent():
    body, brain, parents = children(1.0, 0.25, Sample())
    assert set(np.unique(body)) == {1, 3}
    assert (body == 1).mean() == pytest.approx(0.5, abs=0.03)
    assert brain.min() < 1 < 3 < brain.max()
    assert (parents[:, 1] >= 0).all()


def test_without_kinds_nothing_is_drawn_anew():
    """As before there were any: the same numbers for real genes, whether others are kinds or not."""
    _, with_kinds, _ = children(0.3, 0.25, Sample())
    body, without, _ = children(0.3, 0.25, lambda key, count: None)
    np.testing.assert_array_equal(with_kinds, without)
    assert len(np.unique(body)) > SIZE


def test_only_numbers_of_kinds_are_told_to_be():
    for body, wanted in (({"type": "voxel_kinds", "grid": [3, 3]}, True), ({"type": "cppn", "grid": [3, 3]}, False)):
        sampling = EvolvedRobot.model_validate({"body": body, "controller": "sine"}).sampling
        assert sampling.kinds == {"body": wanted, "controller": False}


@pytest.mark.full
@pytest.mark.parametrize("name", ["mu_plus_lambda", "afpo", "nsga2", "map_elites"])
def test_searches_keep_kinds_whole(name):
    axes = [{"measure": "m", "range": [0.0, 1.0], "cells": 6}]
    needed = {
        "nsga2": {"objectives": [{"measure": "m"}]},
        "map_elites": {"archives": {"one": {"type": "grid", "axes": axes}}},
    }
    optimizer = OPTIMIZERS[name](population_size=16, **needed.get(name, {}))
    sample = Sample()

    @jax.jit
    def generation(search):
        asked = optimizer.ask(search, sample)
        fitness = (asked.genes["body"] == 2).sum(-1).astype(float)
        described = jnp.abs(asked.genes["brain"][:, :1]) if optimizer.descriptors else None
        evaluation = Evaluation(fitness, failed=jnp.isnan(fitness), descriptors=described)
        return optimizer.tell(search, asked, evaluation), asked, optimizer.summary(search).best.fitness

    search, best = optimizer.start(jax.random.key(0), sample), []
    for _ in range(12):
        search, asked, leader = generation(search)
        best.append(float(leader[0]))
        body = np.asarray(asked.genes["body"])
        np.testing.assert_array_equal(body, np.round(body))
        assert body.min() >= 0
        assert body.max() < KINDS
    assert best[-1] > best[1], "kinds evolve"
