"""From genes to robots: against slow plain Python, and arrays against descriptions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pydantic import ValidationError

from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.encodings.bodies import GaussianMixture, MaterialGrid, in_the_corner, largest_component
from vsr.experiments.evolve.generation import body_count
from vsr.physics.squares.assembly import SquareMaterials, assemble

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SENSORS = [
    {"quantity": quantity, "reading": reading}
    for reading in ("mean", "difference")
    for quantity in ("rotated_velocity_x", "rotated_velocity_y", "area_ratio")
]


def plain_component(present):
    """The largest side-connected set by flooding, the one with the first cell among equals."""
    rows, columns = present.shape
    left = {(r, c) for r in range(rows) for c in range(columns) if present[r, c]}
    largest = set()
    for cell in sorted(left):
        if cell not in left:
            continue
        found, pending = set(), [cell]
        while pending:
            r, c = pending.pop()
            if (r, c) in left:
                left.discard((r, c))
                found.add((r, c))
                pending += [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]
        largest = found if len(found) > len(largest) else largest
    return np.array([[(r, c) in largest for c in range(columns)] for r in range(rows)])


def plain_mixture(genes, materials, gaussians, columns, rows, threshold):
    """The original's decoding, cell by cell."""
    cells = -np.ones((rows, columns), int)
    for row in range(rows):
        for column in range(columns):
            strengths = []
            for material in range(materials):
                total = 0.0
                for gaussian in range(gaussians):
                    at = 4 * (material * gaussians + gaussian)
                    mu_x, mu_y, sigma, weight = (float(gene) for gene in genes[at : at + 4])
                    if sigma > 0:
                        squared = (column / columns - mu_x) ** 2 + (row / rows - mu_y) ** 2
                        density = math.exp(-squared / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
                        total += weight * density
                strengths.append(total)
            if max(strengths) > threshold:
                cells[row, column] = strengths.index(max(strengths))
    return np.where(plain_component(cells >= 0), cells, -1)


decode_mixture = jax.jit(GaussianMixture(grid=(5, 4)).decode)
component = jax.jit(largest_component)
growing_body = jax.jit(MaterialGrid(grid=(5, 4), materials={"s": {}, "a": {}}, voxels=7).decode)


@given(arrays.arrays(bool, (5, 6)))
def test_largest_component_agrees_with_flooding(present):
    np.testing.assert_array_equal(component(present), plain_component(present))


def test_a_long_snake_is_one_component():
    snake = np.zeros((5, 6), bool)
    snake[::2] = True
    snake[1, -1] = snake[3, 0] = True
    np.testing.assert_array_equal(component(snake), snake)


def plain_growth(scores, count):
    """The best cell, then always the best neighbor, the first among equals."""
    best = scores.max(0)
    body = [np.unravel_index(best.argmax(), best.shape)]
    while len(body) < count:
        near = [(r + dr, c + dc) for r, c in body for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        near = sorted({(r, c) for r, c in near if 0 <= r < best.shape[0] and 0 <= c < best.shape[1]} - set(body))
        body.append(max(near, key=lambda cell: best[cell]))
    cells = np.full(best.shape, -1)
    for cell in body:
        cells[cell] = scores[(slice(None), *cell)].argmax()
    return cells


@given(arrays.arrays(np.float32, (2, 4, 5), elements=st.integers(-3, 3)))
def test_grown_bodies_have_their_voxels_and_agree_with_plain_python(scores):
    body = growing_body(jnp.asarray(scores).ravel())
    np.testing.assert_array_equal(body, plain_growth(scores, 7))


def test_genes_that_are_no_numbers_still_grow_a_body():
    for genes in (np.full(40, np.nan, np.float32), np.full(40, -np.inf, np.float32)):
        cells = np.asarray(growing_body(genes)) >= 0
        assert cells.sum() == 7
        np.testing.assert_array_equal(plain_component(cells), cells)


def test_bodies_cannot_have_more_voxels_than_cells():
    with pytest.raises(ValidationError, match="21 given; the grid has 20 cells"):
        MaterialGrid(grid=(5, 4), voxels=21)


@pytest.mark.slow
def test_a_body_is_the_same_wherever_it_lies():
    ell = np.array([[0, 1, -1], [2, -1, -1], [-1, -1, -1]])
    for shift in ((0, 0), (1, 0), (0, 1), (1, 1)):
        np.testing.assert_array_equal(in_the_corner(jnp.asarray(np.roll(ell, shift, (0, 1)))), ell)
    body = MaterialGrid(grid=(3, 1), materials={"a": {}}, threshold=0.5)
    genes = jnp.array([[1.0, 0, 0], [0, 0, 1.0], [1.0, 1.0, 0], [0, 0, 0]])
    assert int(body_count(body, genes)) == 3


@given(st.integers(0, 10_000))
def test_mixture_agrees_with_plain_python(seed):
    genes = np.random.default_rng(seed).uniform(-0.2, 1.2, 80).astype(np.float32)
    np.testing.assert_array_equal(decode_mixture(genes), plain_mixture(genes, 4, 5, 5, 4, 1.0))


def test_random_mixtures_fill_varied_bodies():
    body = GaussianMixture(grid=(10, 10))
    genes = body.sample(jax.random.key(0), 100)
    assert genes.shape == (100, 80)
    assert 0 <= float(genes.min()) < 0.01 < 0.99 < float(genes.max()) <= 1
    cells = np.asarray(jax.jit(jax.vmap(body.decode))(genes))
    size = (cells >= 0).sum((1, 2))
    assert 20 < np.median(size) < 100
    assert set(np.unique(cells)) == {-1, 0, 1, 2, 3}
    assert (cells[:, 0, 0] >= 0).any()
    assert (cells[:, -1, -1] >= 0).any()


def test_material_grid_takes_the_largest_gene():
    body = MaterialGrid(grid=(2, 2), threshold=0.5)
    genes = np.array([[0.6, 0.1, 0.9, 0.2], [0.7, 0.2, 0.1, 0.2], [0.1] * 4, [0.1] * 4], np.float32)
    np.testing.assert_array_equal(body.decode(jnp.asarray(genes.ravel())), [[1, -1], [0, -1]])


@pytest.mark.parametrize(
    ("body", "controller", "genes"),
    [
        ({"type": "gaussian_mixture", "grid": [5, 5]}, "sine_by_material", 80),
        ({"type": "gaussian_mixture", "grid": [10, 10]}, "sine_by_material", 80),
        ({"shape": ["a" * 11] * 4}, "sine", 44),
        ({"shape": ["a" * 11] * 4}, "development", 132),
        ({"shape": "aaaa"}, {"type": "mlp", "sensors": SENSORS}, 104),
        ({"shape": ["aaaa", "a..a"]}, {"type": "mlp", "sensors": SENSORS}, 228),
        ({"shape": ["aaaaa", "a.a.a"]}, {"type": "mlp", "sensors": SENSORS}, 400),
    ],
)
def test_the_papers_gene_counts(body, controller, genes):
    robot = EvolvedRobot.model_validate({"body": body, "controller": controller})
    sample = robot.sample(jax.random.key(0), 2)
    assert robot.gene_count == genes == sum(leaf.shape[1] for leaf in sample.values())


TOUCHY = {**SENSORS[0], "voxels": [[0, 0], [2, 1]]}
ROBOTS = {
    "fixed, phases": ({"shape": ["ab", "a."], "materials": {"a": {}, "b": {"mass": 2}}}, {"type": "sine", "passive": ["b"]}),
    "fixed, mlp": ({"shape": ["aaa", "a.a"]}, {"type": "mlp", "sensors": [*SENSORS, TOUCHY], "hidden": [4], "clock": None}),
    "mixture, by material": ({"type": "gaussian_mixture", "grid": [3, 2]}, "sine_by_material"),
    "mixture, development": ({"type": "gaussian_mixture", "grid": [3, 2]}, {"type": "development", "passive": ["h"]}),
    "grid, mlp": ({"type": "material_grid", "grid": [3, 2]}, {"type": "mlp", "sensors": [TOUCHY], "passive": ["h", "s"]}),
    "mixture, deep mlp": ({"type": "gaussian_mixture", "grid": [3, 2]}, {"type": "mlp", "sensors": SENSORS, "hidden": [3, 2]}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_descriptions_are_the_same_robot_as_arrays(name):
    """What a file of the best robot holds is what was evaluated: same body, same control values."""
    body, controller = ROBOTS[name]
    robot = EvolvedRobot.model_validate({"body": body, "controller": controller})
    many = jax.jit(lambda key: robot.sample(key, 30))(jax.random.key(5))
    cells = np.asarray(jax.jit(jax.vmap(robot.body.decode))(many["body"]))
    varied = np.array([len(np.unique(body)) for body in cells])
    genes = jax.tree.map(lambda leaf: leaf[varied.argmax()], many)
    model, built = jax.jit(lambda g: robot.build(g, 20.0))(genes)
    described = robot.describe(jax.tree.map(np.asarray, genes), 20.0)
    table = SquareMaterials.of(list(described.body.materials.values()))
    again = jax.jit(lambda cells: assemble(cells, table, layers=robot.body.layers))(described.body.cells)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), model, again)
    readings = jnp.asarray(np.random.default_rng(0).normal(size=(len(built.sensors), *described.body.cells.shape)))
    readings = (readings * model.present).astype(jnp.float32)
    own = described.controller.build(described.body)
    control = jax.jit(lambda controller, time: controller.control(time, readings) * model.present)
    for time in (0.3, 7.2):
        values = [control(controller, jnp.float32(time)) for controller in (built, own)]
        np.testing.assert_allclose(*values, atol=2e-6)
        assert np.abs(values[0]).max() > 0.01


def built_at_random(robot, duration):
    """The controller of random genes."""

    @jax.jit
    def build(key):
        genes = jax.tree.map(lambda leaf: leaf[0], robot.sample(key, 1))
        return robot.build(genes, duration)[1]

    return build(jax.random.key(1))


def test_passive_materials_are_not_driven():
    for controller in ({"type": "sine"}, {"type": "development"}, {"type": "mlp", "sensors": SENSORS}):
        robot = EvolvedRobot.model_validate(
            {"body": {"shape": "ab", "materials": {"a": {}, "b": {}}}, "controller": {**controller, "passive": ["b"]}}
        )
        built = built_at_random(robot, 60.0)
        control = np.asarray(built.control(jnp.float32(0.2), jnp.ones((len(built.sensors), 1, 2))))
        assert control[0, 0] != 0
        assert control[0, 1] == 0


def test_development_lasts_as_long_as_the_task_unless_told():
    for reported, expected in ((None, 20.0), (5.0, 5.0)):
        robot = EvolvedRobot.model_validate(
            {"body": {"shape": "a"}, "controller": {"type": "development", "duration": reported}}
        )
        assert float(built_at_random(robot, 20.0).duration) == expected


def test_a_body_without_voxels_has_no_description():
    robot = EvolvedRobot.model_validate(
        {"body": {"type": "gaussian_mixture", "grid": [3, 2]}, "controller": "sine_by_material"}
    )
    assert robot.describe({"body": np.zeros(80, np.float32), "controller": np.zeros(0, np.float32)}, 1.0) is None


@pytest.mark.parametrize(
    ("body", "controller", "message"),
    [
        ({"shape": "a"}, "sine_by_material", "controller.drives: there is no material 'h'; the materials are 'a'"),
        ({"shape": "a"}, {"type": "sine_by_material", "drives": {}}, "nothing evolves"),
        ({"shape": "a"}, {"type": "sine", "passive": ["x"]}, "there is no material 'x'"),
        ({"shape": "a"}, {"type": "sine", "initial": [1, 1]}, "the smaller first"),
        ({"shape": "aa"}, {"type": "mlp", "sensors": [{"quantity": "angle", "voxels": [[5, 0]]}]}, "no voxel in column 5"),
        ({"type": "gaussian_mixture", "grid": [0, 2]}, "sine", "greater than or equal to 1"),
        ({"type": "gaussian_mixture", "grid": [5]}, "sine", "(?s)1 validation error.*at least 2 items"),
        ({"type": "gaussian_mixture", "grid": [5, 5, 5, 5]}, "sine", "(?s)1 validation error.*at most 3 items"),
        ({"type": "material_grid", "grid": [2, 2], "materials": {".": {}}}, "sine", "cannot stand for a material"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(body, controller, message):
    with pytest.raises(ValidationError, match=message):
        EvolvedRobot.model_validate({"body": body, "controller": controller})
