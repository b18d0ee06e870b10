"""Bodies and phases from pattern-producing networks, and bodies that are their own mirror image."""

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from vsr.experiments.check import check_file
from vsr.experiments.config import load_experiment
from vsr.experiments.encodings import BODIES, EvolvedRobot
from vsr.experiments.encodings.bodies import MaterialGrid, VoxelKinds, largest_component
from vsr.experiments.encodings.cppn import PatternBody, SineCPPN, inputs_of, pattern
from vsr.experiments.shipped import find_config

pytestmark = pytest.mark.usefixtures("quickly_compiled")
PLAIN = (np.tanh, lambda s: np.sin(np.pi * s), lambda s: np.exp(-(s**2)), np.abs, lambda s: s)
EVOLVED = sorted(set(BODIES) - {"fixed"})


def plain_pattern(genes, place, hidden, outputs, initial):
    """One cell after the other; place: its inputs."""
    sizes = [len(place), *hidden, outputs]
    functions = list(genes[sum(a * b for a, b in pairwise(sizes)) :])
    values, used = np.asarray(place), 0
    for layer in range(len(hidden) + 1):
        size = sizes[layer], sizes[layer + 1]
        values, used = values @ genes[used : used + size[0] * size[1]].reshape(size), used + size[0] * size[1]
        if layer < len(hidden):
            shares = [(functions.pop(0) - initial[0]) / (initial[1] - initial[0]) for _ in range(size[1])]
            values = np.array([PLAIN[int(5 * (share % 1))](value) for share, value in zip(shares, values, strict=True)])
    return values


@pytest.mark.slow
@pytest.mark.parametrize("grid", [(4, 3), (3, 2, 2)])
def test_patterns_agree_with_plain_python(grid):
    body = PatternBody(grid=grid, hidden=(4, 3), engine="points")
    genes = np.random.default_rng(1).uniform(-3, 3, body.gene_count)
    assert body.gene_count == (len(grid) + 2) * 4 + 4 * 3 + 3 * 5 + 7
    wanted = -np.ones(grid[::-1], int)
    for cell in np.ndindex(*grid[::-1]):
        x = [(2 * at + 1) / size - 1 for at, size in zip(cell[::-1], grid, strict=True)]
        strength = plain_pattern(genes, [*x, math.hypot(*x), 1.0], (4, 3), 5, (-2.0, 2.0))
        wanted[cell] = strength[1:].argmax() if strength[0] > 0 else -1
    np.testing.assert_array_equal(jax.jit(body.kinds)(jnp.asarray(genes, jnp.float32)), wanted)
    cells = jax.jit(body.decode)(jnp.asarray(genes, jnp.float32))
    np.testing.assert_array_equal(cells, np.where(largest_component(wanted >= 0), wanted, -1))
    assert len(np.unique(wanted)) > 2


@pytest.mark.full
def test_random_patterns_are_varied_bodies():
    body = PatternBody(grid=(7, 7))
    cells = np.asarray(jax.jit(jax.vmap(body.decode))(body.sample(jax.random.key(0), 200)))
    size = (cells >= 0).sum((1, 2))
    assert np.median(size) > 10
    assert len(np.unique(cells.reshape(200, -1), axis=0)) > 150
    assert set(np.unique(cells)) == {-1, 0, 1, 2, 3}


def test_phases_follow_the_pattern():
    encoding = SineCPPN(hidden=(5,), frequency=1.5, passive=("b",))
    robot = EvolvedRobot.model_validate(
        {"body": {"shape": ["aba", "a.a"], "materials": {"a": {}, "b": {}}}, "controller": encoding.to_plain()}
    )
    genes = np.random.default_rng(1).uniform(-2, 2, robot.gene_count).astype(np.float32)
    cells = robot.body.cells
    built = encoding.build(jnp.asarray(genes), jnp.asarray(cells), robot.body, 20.0)
    described = encoding.describe(genes, cells, robot.body, 20.0).build(robot.body)
    place = [2 / 3, 0.5]
    wanted = np.pi * plain_pattern(genes, [*place, math.hypot(*place), 1.0], (5,), 1, (-2.0, 2.0))[0]
    assert float(built.phase[1, 2]) == pytest.approx(wanted, rel=1e-4)
    for time in (0.1, 0.7):
        values = [np.asarray(one.control(jnp.float32(time), None)) for one in (built, described)]
        np.testing.assert_allclose(values[0][cells >= 0], values[1][cells >= 0], atol=2e-5)
        np.testing.assert_array_equal(values[0][cells == 1], 0)


def test_mirrored_phases_are_alike_at_both_ends():
    genes = jnp.asarray(np.random.default_rng(1).uniform(-2, 2, 5 * 4 + 4 + 4), jnp.float32)
    for axis, across in (("x", -1), ("y", -2), ("z", -3)):
        phase = np.asarray(pattern(genes, inputs_of((2, 3, 4), axis), (4,), 1, (-2.0, 2.0)))
        np.testing.assert_array_equal(phase, np.flip(phase, across))
        assert any((phase != np.flip(phase, other)).any() for other in (-1, -2, -3) if other != across)


# Mirrored bodies


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "cppn" else pytest.mark.full) for kind in EVOLVED]
)
def test_bodies_are_their_own_mirror_image(kind):
    grid, axis = {"cppn": ((3, 5), "y"), "material_grid": ((4, 4), "x"), "voxel_kinds": ((3, 4, 2), "y")}.get(
        kind, ((5, 4), "x")
    )
    body = BODIES[kind].model_validate({"grid": grid, "mirrored": axis})
    free = BODIES[kind].model_validate({"grid": grid})
    genes = body.sample(jax.random.key(3), 60)
    cells = np.asarray(jax.jit(jax.vmap(body.decode))(genes))
    across = {"x": -1, "y": -2, "z": -3}[axis]
    np.testing.assert_array_equal(cells, np.flip(cells, across))
    sizes = (cells >= 0).reshape(60, -1).sum(1)
    assert (sizes > 0).sum() > 20
    assert len(np.unique(cells.reshape(60, -1), axis=0)) > 5
    assert body.gene_count <= free.gene_count
    np.testing.assert_array_equal(jax.jit(jax.vmap(largest_component))(cells >= 0), cells >= 0)


def test_the_lower_half_is_what_genes_say():
    body = MaterialGrid(grid=(4, 1), materials={"a": {}, "b": {}}, threshold=0.5, mirrored="x")
    assert body.gene_count == 2 * 2
    np.testing.assert_array_equal(jax.jit(body.decode)(jnp.array([0.9, 0.1, 0.2, 0.8])), [[0, 1, 1, 0]])
    odd = MaterialGrid(grid=(5, 1), materials={"a": {}}, threshold=0.5, mirrored="x")
    np.testing.assert_array_equal(jax.jit(odd.decode)(jnp.array([0.9, 0.1, 0.9])), [[-1, -1, 0, -1, -1]])


def test_two_halves_that_do_not_meet_are_no_body():
    body = MaterialGrid(grid=(4, 1), materials={"a": {}}, threshold=0.5, mirrored="x")
    np.testing.assert_array_equal(jax.jit(body.decode)(jnp.array([0.9, 0.1])), [[-1, -1, -1, -1]])
    kinds = VoxelKinds(grid=(4, 1), engine="evogym", mirrored="x")
    accepts = jax.jit(kinds.accepts)
    assert not bool(accepts(jnp.array([3.0, 0.0])))
    assert bool(accepts(jnp.array([3.0, 1.0])))


@pytest.mark.parametrize(
    ("body", "controller", "message"),
    [
        ({"type": "cppn", "grid": [3, 3], "mirrored": "z"}, "sine", "a grid of two axes has x and y"),
        ({"type": "cppn", "grid": [3, 3], "mirrored": "w"}, "sine", "'x', 'y' or 'z'"),
        ({"type": "cppn", "grid": [3, 3], "hidden": []}, "sine", "at least 1 item"),
        ({"type": "material_grid", "grid": [3, 3], "voxels": 4, "mirrored": "x"}, "sine", "leave one of both out"),
        ({"shape": "aa"}, {"type": "sine_cppn", "mirrored": "z"}, "the body has no such axis"),
    ],
)
def test_what_cannot_be_is_refused(body, controller, message):
    with pytest.raises(ValidationError, match=message):
        EvolvedRobot.model_validate({"body": body, "controller": controller})


@pytest.mark.parametrize("name", ["cppn", "mirrored_bodies"])
def test_shipped_experiments_evolve_such_bodies(name):
    experiment = load_experiment(find_config(name))
    assert (experiment.robot.body.mirrored, experiment.robot.body.type)[name == "cppn"] == {"cppn": "cppn"}.get(
        name, "y"
    )


@pytest.mark.full
@pytest.mark.parametrize("name", ["cppn", "voxel_kinds_archive", "mirrored_bodies"])
def test_shipped_experiments_are_sound(name):
    assert "genes" in dict(check_file(name))
