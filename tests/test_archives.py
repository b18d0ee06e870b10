"""Archives, fronts and strategies, against brute force and, where they are installed, pyribs, pymoo and pycma."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.evo import OPTIMISERS, Evaluation
from vsr.evo.archives import CVTArchive, GridArchive, archive_figures, inserted, nobody
from vsr.evo.pareto import crowding, fronts, hypervolume
from vsr.evo.population import NOBODY, WORST, evaluated, newborns

pytestmark = pytest.mark.usefixtures("quickly_compiled")
AXES = [{"measure": "speed", "range": [-1.0, 2.0], "cells": 4}, {"measure": "height", "range": [0.0, 1.0], "cells": 3}]
GRID = GridArchive(axes=AXES)
CVT = CVTArchive(axes=[{"measure": axis["measure"], "range": axis["range"]} for axis in AXES], cells=10)


def individuals(fitness, first=0):
    fitness = jnp.asarray(fitness, jnp.float32)
    size = len(fitness)
    born = newborns({"x": fitness[:, None] * 10}, jnp.full((size, 2), NOBODY), jnp.int32(first), jnp.int32(0))
    return evaluated(born, fitness, jnp.isnan(fitness))


def batches(seed, count=3, size=60):
    """Fitness and descriptors with ties, failures, values beyond the ranges and some that are not numbers."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        fitness = random.integers(0, 5, size).astype(np.float32)
        descriptors = random.uniform([-2, -0.5], [3, 1.5], (size, 2)).astype(np.float32)
        fitness[random.random(size) < 0.1] = np.nan
        descriptors[random.random(size) < 0.05, 1] = np.nan
        yield fitness, descriptors


def nearest(archive, point):
    """By comparison with every centre, for both kinds."""
    low, high = np.array([axis.range for axis in archive.axes]).T
    apart = (np.clip(point, low, high) - archive.centers()) / (high - low)
    if archive.type == "grid":  # a cell is a box: the largest distance in cells decides
        return int(np.argmin(np.abs(apart * archive.shape).max(-1)))
    return int(np.argmin((apart**2).sum(-1)))


@pytest.mark.parametrize("archive", [GRID, CVT], ids=["grid", "cvt"])
def test_of_every_cell_the_fittest_and_among_equals_the_first_stays(archive):
    elites, expected, first = nobody(archive, individuals([0.0])), {}, 0
    enter = jax.jit(lambda *given: inserted(archive, *given))
    for fitness, descriptors in batches(1):
        newcomers = individuals(fitness, first)
        elites = enter(elites, newcomers, jnp.asarray(descriptors))
        for number, (value, place) in enumerate(zip(fitness, descriptors, strict=True), first):
            if np.isnan(value) or np.isnan(place).any():
                continue
            cell = nearest(archive, place)
            if cell not in expected or value > expected[cell][0]:
                expected[cell] = value, number, place
        first += len(fitness)
    filled = np.flatnonzero(elites.filled)
    assert sorted(expected) == list(filled)
    for cell in filled:
        value, number, place = expected[cell]
        assert float(elites.members.fitness[cell]) == value
        assert int(elites.members.id[cell]) == number
        np.testing.assert_array_equal(elites.members.genes["x"][cell], [10 * value])
        np.testing.assert_array_equal(elites.descriptors[cell], place)
    figures = archive_figures(elites, offset=-2.0)
    values = np.array([value for value, *_ in expected.values()])
    assert float(figures["coverage"]) == pytest.approx(len(values) / len(archive.centers()))
    assert float(figures["qd_score"]) == pytest.approx((values + 2).sum())
    assert float(figures["mean"]) == pytest.approx(values.mean())


def test_an_empty_archive_has_no_mean():
    figures = archive_figures(nobody(GRID, individuals([0.0])), 0.0)
    assert float(figures["coverage"]) == 0
    assert float(figures["qd_score"]) == 0
    assert np.isnan(figures["mean"])


def test_centres_of_a_cvt_are_spread_evenly_and_always_the_same():
    centers = CVT.centers()
    assert (centers == CVTArchive(**CVT.model_dump()).centers()).all()
    points = np.random.default_rng(0).uniform([-1, 0], [2, 1], (4000, 2))
    apart = ((points[:, None] - centers) / [3, 1]) ** 2
    share = np.bincount(apart.sum(-1).argmin(1), minlength=10) / len(points)
    assert share.min() > 0.04
    assert share.max() < 0.18


def dominates(a, b):
    return (a >= b).all() and (a > b).any()


OBJECTIVES = np.random.default_rng(3).integers(0, 6, (40, 3)).astype(np.float32)
OBJECTIVES[[4, 17]] = WORST


def test_fronts_are_those_that_nobody_left_dominates():
    found = np.asarray(fronts(jnp.asarray(OBJECTIVES)))
    left, number = set(range(40)), 0
    while left:
        free = {i for i in left if not any(dominates(OBJECTIVES[j], OBJECTIVES[i]) for j in left)}
        assert set(np.flatnonzero(found == number)) == free
        left, number = left - free, number + 1


def test_crowding_is_the_gap_between_neighbours():
    line = jnp.array([[0.0, 10.0], [1.0, 6.0], [4.0, 3.0], [10.0, 0.0], [5.0, 5.0]])
    front = jnp.array([0, 0, 0, 0, 1])
    np.testing.assert_allclose(crowding(line, front), [np.inf, 0.4 + 0.7, 0.9 + 0.6, np.inf, np.inf], rtol=1e-6)


@pytest.mark.parametrize("objectives", [2, 3])
def test_hypervolume_is_what_cells_of_a_grid_count(objectives):
    points, reference = OBJECTIVES[:, :objectives], jnp.full(objectives, -1.0)
    counted = sum(
        any((point >= corner).all() for point in points) for corner in itertools.product(range(6), repeat=objectives)
    )
    # Points have whole coordinates from 0 to 5, so that a cell [c - 1, c] is dominated or not as a whole.
    assert float(hypervolume(jnp.asarray(points), reference)) == pytest.approx(counted)


@pytest.mark.slow
def test_fronts_and_crowding_are_those_of_pymoo():
    sorting = pytest.importorskip("pymoo.util.nds.non_dominated_sorting", reason="pymoo is not installed")
    metrics = pytest.importorskip("pymoo.operators.survival.rank_and_crowding.metrics")
    indicators = pytest.importorskip("pymoo.indicators.hv")
    random = np.random.default_rng(5)
    values = random.normal(size=(120, 2)).astype(np.float32)
    _, rank = sorting.NonDominatedSorting().do(-values, return_rank=True)
    found = fronts(jnp.asarray(values))
    np.testing.assert_array_equal(found, rank)
    apart = np.asarray(crowding(jnp.asarray(values), found))
    for number in range(int(rank.max()) + 1):
        own = rank == number
        # pymoo takes the mean over objectives where Deb takes the sum
        expected = 2 * metrics.calc_crowding_distance(-values[own].astype(float))
        np.testing.assert_allclose(apart[own], expected, rtol=1e-4)
    volume = indicators.HV(ref_point=np.array([3.0, 3.0]))(-values.astype(float))
    assert float(hypervolume(jnp.asarray(values), jnp.full(2, -3.0))) == pytest.approx(volume, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("archive", [GRID, CVT], ids=["grid", "cvt"])
def test_archives_are_those_of_pyribs(archive):
    ribs = pytest.importorskip("ribs.archives", reason="pyribs is not installed")
    low, high = np.array([axis.range for axis in archive.axes]).T
    common = {"solution_dim": 1, "qd_score_offset": -2.0}
    if archive.type == "grid":
        theirs, unit = ribs.GridArchive(dims=archive.shape, ranges=list(zip(low, high, strict=True)), **common), 1
    else:  # distances in units of the ranges, which pyribs leaves to its user
        low, unit = low / (high - low), high - low
        theirs = ribs.CVTArchive(centroids=archive.centers() / unit, ranges=[(a, a + 1) for a in low], **common)
    elites, first = nobody(archive, individuals([0.0])), 0
    for fitness, descriptors in batches(2):
        elites = inserted(archive, elites, individuals(fitness, first), jnp.asarray(descriptors))
        sound = np.isfinite(fitness) & np.isfinite(descriptors).all(1)
        inside = np.clip(descriptors[sound] / unit, theirs.lower_bounds, theirs.upper_bounds)
        theirs.add(10 * fitness[sound, None], fitness[sound], inside)
        first += len(fitness)
    figures = archive_figures(elites, -2.0)
    assert float(figures["coverage"]) == pytest.approx(theirs.stats.coverage)
    assert float(figures["qd_score"]) == pytest.approx(theirs.stats.qd_score)
    assert float(figures["mean"]) == pytest.approx(theirs.stats.obj_mean)
    assert float(elites.members.fitness.max()) == theirs.stats.obj_max


@pytest.mark.slow
def test_cma_es_needs_as_many_generations_as_pycma():
    """On an ellipsoid with axes of 1 to 10, which only an adapted covariance descends quickly; medians of five runs."""
    cma = pytest.importorskip("cma", reason="pycma is not installed")
    strategies = pytest.importorskip("evosax") and OPTIMISERS
    size, genes, most, target = 12, 6, 200, 1e-8
    scales = 10.0 ** np.linspace(0, 1, genes)

    def cost(x):
        return ((x * scales) ** 2).sum(-1)

    optimiser = strategies["cma_es"](n_pop=size, sigma=0.5)

    @jax.jit
    def ours(key):
        def sample(_, count):
            return jnp.ones((count, genes))

        def generation(search, _):
            asked = optimiser.ask(search, sample)
            fitness = -cost(asked.genes)
            return optimiser.tell(search, asked, Evaluation(fitness, jnp.zeros(size, bool))), fitness.max()

        return -jax.lax.scan(generation, optimiser.start(key, sample), length=most)[1]

    def theirs(seed):
        search, best = cma.CMAEvolutionStrategy(genes * [1.0], 0.5, {"popsize": size, "seed": seed, "verbose": -9}), []
        for _ in range(most):
            asked = search.ask()
            values = [float(cost(np.array(one))) for one in asked]
            search.tell(asked, values)
            best.append(min(values))
        return np.array(best)

    def reached(curves):
        return np.median([np.argmax(curve < target) if (curve < target).any() else most for curve in curves])

    found = reached([np.asarray(ours(jax.random.key(seed))) for seed in range(5)])
    expected = reached([theirs(seed + 1) for seed in range(5)])
    assert expected < most
    assert found == pytest.approx(expected, rel=0.3)
