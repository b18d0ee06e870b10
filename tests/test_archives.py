"""Archives, fronts and strategies, against brute force and, where they are installed, pyribs, pymoo and pycma."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.evo import OPTIMIZERS, Evaluation
from vsr.evo.archives import CVTArchive, GridArchive, archive_metrics, insert, nobody
from vsr.evo.pareto import crowding, fronts, hypervolume
from vsr.evo.population import NO_PARENT, WORST, offspring, with_fitness
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.descriptors import SHARE, elongation
from vsr.experiments.shipped import shipped_files
from vsr.tasks.gait import frequencies

pytestmark = pytest.mark.usefixtures("quickly_compiled")
AXES = [{"measure": "speed", "range": [-1.0, 2.0], "cells": 4}, {"measure": "height", "range": [0.0, 1.0], "cells": 3}]
GRID = GridArchive(axes=AXES)
CVT = CVTArchive(axes=[{"measure": axis["measure"], "range": axis["range"]} for axis in AXES], cells=10)


def individuals(fitness, first=0):
    fitness = jnp.asarray(fitness, jnp.float32)
    size = len(fitness)
    born = offspring({"x": fitness[:, None] * 10}, jnp.full((size, 2), NO_PARENT), jnp.int32(first), jnp.int32(0))
    return with_fitness(born, fitness, jnp.isnan(fitness))


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
    """By comparison with every center, for both kinds."""
    low, high = np.array([axis.range for axis in archive.axes]).T
    apart = (np.clip(point, low, high) - archive.centers()) / (high - low)
    if archive.type == "grid":  # a cell is a box: the largest distance in cells decides
        return int(np.argmin(np.abs(apart * archive.shape).max(-1)))
    return int(np.argmin((apart**2).sum(-1)))


@pytest.mark.parametrize("archive", [GRID, CVT], ids=["grid", "cvt"])
def test_of_every_cell_the_fittest_and_among_equals_the_first_stays(archive):
    elites, expected, first = nobody(archive, individuals([0.0])), {}, 0
    enter = jax.jit(lambda *given: insert(archive, *given))
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
    metrics = archive_metrics(elites, offset=-2.0)
    values = np.array([value for value, *_ in expected.values()])
    assert float(metrics["coverage"]) == pytest.approx(len(values) / len(archive.centers()))
    assert float(metrics["qd_score"]) == pytest.approx((values + 2).sum())
    assert float(metrics["mean"]) == pytest.approx(values.mean())


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(
    ("bounds", "cells", "expected"),
    [
        ((0.0, 0.8), 16, {0.19999998807907104: 4, 0.2: 4, 0.25: 5, 0.4: 8, 0.5: 10, 0.6: 12, 0.75: 15}),
        ((0.0, 0.8), 16, {0.0499999: 0, 0.04999999: 1, -1.0: 0, 0.8: 15, 2.0: 15}),
        ((0.2, 1.0), 10, {0.28: 1, 0.36: 2, 0.44: 3, 0.52: 4, 0.6: 5, 0.84: 8, 0.92: 9, 1.0: 9}),
        ((-1.0, 2.0), 32, {-0.90625: 1, 0.49999994039535522: 15, 0.4999999701976776: 16, 0.5: 16, 1.90625: 31}),
    ],
)
def test_values_on_borders_are_in_the_cells_of_pyribs(precision, bounds, cells, expected):
    """Numbers of cells as pyribs 0.12 gives them, from either precision."""
    archive = GridArchive(axes=[{"measure": "speed", "range": bounds, "cells": cells}])
    with jax.enable_x64(precision == "float64"):
        values = jnp.array(list(expected), precision)[:, None]
        found = jax.jit(archive.place)(values, jnp.asarray(archive.centers()))
    assert found.tolist() == list(expected.values())


def attainable(measure, rows, columns, voxels):
    """Values of a measure that are fractions of small whole numbers, so that many robots of a grid share them."""
    wholes = [voxels] if voxels else range(1, rows * columns + 1)
    boxes = list(itertools.product(range(1, rows + 1), range(1, columns + 1)))
    if measure == "symmetry" or measure.startswith(SHARE):
        return [part / whole for whole in wholes for part in range(whole + 1)]
    if measure == "filled_share":
        return [part / (high * wide) for high, wide in boxes for part in range(1, high * wide + 1)]
    if measure == "elongation":  # of all rectangles, and of every body of 4 x 4 cells
        bodies = np.arange(1, 2**16)[:, None] >> np.arange(16) & 1
        small = jax.jit(jax.vmap(elongation))(jnp.asarray(bodies.reshape(-1, 4, 4) - 1))
        return [*small.tolist(), *(1 - min(box) / max(box) for box in boxes)]
    if measure == "gait_frequency":
        return [0.0, *frequencies(1e-3).tolist()]
    if measure == "mean_duty":  # of feet that always or never touch the ground
        return [standing / feet for feet in range(1, columns + 1) for standing in range(feet + 1)]
    assert measure in ("gene_mean", "gene_deviation"), f"say here which values of {measure} robots share"
    return []


WITH_ARCHIVES = [
    pytest.param(file.path, id=file.name)
    for file in shipped_files()
    if "archives" in (read_yaml(file.path).data.get("optimizer") or {})
]


@pytest.mark.parametrize("path", WITH_ARCHIVES)
def test_no_value_that_many_robots_share_lies_on_a_border_of_a_shipped_archive(path):
    described = read_yaml(path).data
    body = described["robot"]["body"]
    for name, archive in described["optimizer"]["archives"].items():
        for axis in archive["axes"]:
            values = np.array(attainable(axis["measure"], *body["grid"], body.get("voxels")))
            low, high = axis["range"]
            share = (values - low) / (high - low) * axis["cells"]
            inside = (share > 0.5) & (share < axis["cells"] - 0.5)
            near = inside & (np.abs(share - np.round(share)) < 1e-4)
            assert not near.any(), f"{name}, {axis['measure']}: {sorted(set(values[near]))[:5]}"


def test_an_empty_archive_has_no_mean():
    metrics = archive_metrics(nobody(GRID, individuals([0.0])), 0.0)
    assert float(metrics["coverage"]) == 0
    assert float(metrics["qd_score"]) == 0
    assert np.isnan(metrics["mean"])


def test_centers_of_a_cvt_are_spread_evenly_and_always_the_same():
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


def test_crowding_is_the_gap_between_neighbors():
    line = jnp.array([[0.0, 10.0], [1.0, 6.0], [4.0, 3.0], [10.0, 0.0], [5.0, 5.0]])
    front = jnp.array([0, 0, 0, 0, 1])
    np.testing.assert_allclose(crowding(line, front), [np.inf, 0.4 + 0.7, 0.9 + 0.6, np.inf, np.inf], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("objectives", [2, 3])
def test_hypervolume_is_what_cells_of_a_grid_count(objectives):
    points, reference = OBJECTIVES[:, :objectives], jnp.full(objectives, -1.0)
    counted = sum(
        any((point >= corner).all() for point in points) for corner in itertools.product(range(6), repeat=objectives)
    )
    # Points have whole coordinates from 0 to 5, so that a cell [c - 1, c] is dominated or not as a whole.
    assert float(hypervolume(jnp.asarray(points), reference)) == pytest.approx(counted)


@pytest.mark.full
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


@pytest.mark.full
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
        elites = insert(archive, elites, individuals(fitness, first), jnp.asarray(descriptors))
        sound = np.isfinite(fitness) & np.isfinite(descriptors).all(1)
        inside = np.clip(descriptors[sound] / unit, theirs.lower_bounds, theirs.upper_bounds)
        theirs.add(10 * fitness[sound, None], fitness[sound], inside)
        first += len(fitness)
    metrics = archive_metrics(elites, -2.0)
    assert float(metrics["coverage"]) == pytest.approx(theirs.stats.coverage)
    assert float(metrics["qd_score"]) == pytest.approx(theirs.stats.qd_score)
    assert float(metrics["mean"]) == pytest.approx(theirs.stats.obj_mean)
    assert float(elites.members.fitness.max()) == theirs.stats.obj_max


@pytest.mark.full
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cells_at_and_around_borders_are_those_of_pyribs(precision):
    ribs = pytest.importorskip("ribs.archives", reason="pyribs is not installed")
    random = np.random.default_rng(4)
    for (low, high), cells in itertools.product([(0.0, 0.8), (0.2, 1.01), (-1.0, 2.0), (-1e3, 1e3)], [1, 3, 16, 1000]):
        archive = GridArchive(axes=[{"measure": "speed", "range": (low, high), "cells": cells}])
        theirs = ribs.GridArchive(solution_dim=1, dims=[cells], ranges=[(low, high)])
        borders = low + (high - low) * np.arange(cells + 1) / cells
        values = np.concatenate([borders, random.uniform(low, high, 1000)]).astype(precision)
        around = [values + np.array(by * 1e-6 / cells, precision) for by in (-2, -1, -0.9, 0, 0.1)]
        values = np.concatenate([*around, np.nextafter(values, -np.inf, dtype=precision)])[:, None]
        with jax.enable_x64(precision == "float64"):
            found = archive.place(jnp.asarray(values), jnp.asarray(archive.centers()))
        np.testing.assert_array_equal(found, theirs.index_of(values))


@pytest.mark.full
def test_cma_es_needs_as_many_generations_as_pycma():
    """On an ellipsoid with axes of 1 to 10, which only an adapted covariance descends quickly; medians of five runs."""
    cma = pytest.importorskip("cma", reason="pycma is not installed")
    strategies = pytest.importorskip("evosax") and OPTIMIZERS
    size, genes, most, target = 12, 6, 200, 1e-8
    scales = 10.0 ** np.linspace(0, 1, genes)

    def cost(x):
        return ((x * scales) ** 2).sum(-1)

    optimizer = strategies["cma_es"](population_size=size, sigma=0.5)

    @jax.jit
    def ours(key):
        def sample(_, count):
            return jnp.ones((count, genes))

        def generation(search, _):
            asked = optimizer.ask(search, sample)
            fitness = -cost(asked.genes)
            return optimizer.tell(search, asked, Evaluation(fitness, jnp.zeros(size, bool))), fitness.max()

        return -jax.lax.scan(generation, optimizer.start(key, sample), length=most)[1]

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
