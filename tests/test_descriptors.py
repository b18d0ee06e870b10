"""Descriptors of bodies and brains, and searches that use them in an experiment."""

import jax.numpy as jnp
import numpy as np
import pytest

from vsr.experiments import descriptors
from vsr.experiments.config import ConfigError, parse_experiment
from vsr.experiments.descriptors import describe, descriptor_names
from vsr.experiments.encodings import EvolvedRobot

EMPTY = -1
L_SHAPE = jnp.array([[0, 0, 0, EMPTY], [1, EMPTY, EMPTY, EMPTY], [EMPTY] * 4])
"""Lowest row first: three voxels in a row and one of another material on the first."""
LINE = jnp.array([[EMPTY, 0, 0, 0, 0]])
CUBE = jnp.zeros((2, 2, 2), int)


def test_counts_and_boxes():
    assert int(descriptors.voxels(L_SHAPE)) == 4
    assert float(descriptors.width_over_height(L_SHAPE)) == pytest.approx(3 / 2)
    assert float(descriptors.filled_share(L_SHAPE)) == pytest.approx(4 / 6)
    assert float(descriptors.share_of(1, L_SHAPE)) == pytest.approx(0.25)
    assert float(descriptors.width_over_height(LINE)) == 4
    assert float(descriptors.filled_share(CUBE)) == 1


@pytest.mark.slow
def test_elongation_is_that_of_the_ellipse_with_the_same_moments():
    assert float(descriptors.elongation(CUBE)) == pytest.approx(0, abs=1e-3)
    assert float(descriptors.elongation(jnp.zeros((3, 3), int))) == pytest.approx(0, abs=1e-6)
    # A bar of n x 1 cells has moments n²/12 and 1/12.
    assert float(descriptors.elongation(LINE)) == pytest.approx(1 - 1 / 4, abs=1e-5)
    places = np.argwhere(np.asarray(L_SHAPE) >= 0)
    values = np.linalg.eigvalsh(np.cov(places.T, bias=True) + np.eye(2) / 12)
    assert float(descriptors.elongation(L_SHAPE)) == pytest.approx(1 - np.sqrt(values[0] / values[-1]), abs=1e-5)
    random = np.random.default_rng(0).integers(-1, 1, (3, 4, 2))
    values = np.linalg.eigvalsh(np.cov(np.argwhere(random >= 0).T, bias=True) + np.eye(3) / 12)
    assert float(descriptors.elongation(jnp.asarray(random))) == pytest.approx(
        1 - np.sqrt(values[0] / values[-1]), abs=1e-4
    )


def test_symmetry_is_left_to_right_in_the_bodys_own_box():
    assert float(descriptors.symmetry(LINE)) == 1
    assert float(descriptors.symmetry(L_SHAPE)) == pytest.approx(3 / 4)
    assert float(descriptors.symmetry(jnp.array([[0, 1, EMPTY]]))) == 0  # materials differ


def test_an_empty_body_has_numbers_too():
    empty = jnp.full((2, 3), EMPTY)
    for function in descriptors.BODY_DESCRIPTORS.values():
        assert np.isfinite(function(empty))


def test_brains():
    assert float(descriptors.connectivity(jnp.array([0.1, -0.3, 0.5, 0.0]))) == 0.5
    assert float(descriptors.connectivity(jnp.zeros(0))) == 0
    assert float(descriptors.gene_deviation(jnp.array([1.0, 3.0]))) == 1


def test_materials_have_shares_by_their_symbols():
    robot = EvolvedRobot(body={"type": "material_grid", "grid": [3, 2]}, controller={"type": "sine"})
    assert {"share_of_h", "share_of_a", "voxels", "connectivity"} <= set(descriptor_names(robot))
    genes = {"body": jnp.zeros((4, 2, 3)).at[1, 0].set(1.0).ravel(), "controller": jnp.ones(6)}
    found = describe(robot, genes, ("share_of_s", "share_of_h", "voxels", "gene_mean"))
    assert {name: float(value) for name, value in found.items()} == {
        "share_of_s": 1,
        "share_of_h": 0,
        "voxels": 3,
        "gene_mean": 1,
    }


def test_a_descriptor_of_ones_own_is_an_axis_and_a_number():
    """One function and one line; a name that belongs to a shipped one is refused."""

    def columns(cells):
        return (cells >= 0).any(0).sum()

    axes = "axes: [{measure: columns, range: [0, 4], cells: 4}]"
    text = (
        "robot: {body: {type: material_grid, grid: [3, 2]}, controller: sine}\n"
        f"optimizer: {{type: map_elites, archives: {{one: {{type: grid, {axes}}}}}}}\n"
    )
    with pytest.raises(ConfigError, match="columns"):
        parse_experiment(text)
    try:
        descriptors.BODY_DESCRIPTORS["columns"] = columns
        robot = parse_experiment(text).robot
        assert "columns" in descriptors.DESCRIPTORS
        cells = robot.body.decode(jnp.zeros(robot.body.gene_count))
        genes = {"body": jnp.zeros(robot.body.gene_count), "controller": jnp.zeros(2)}
        assert int(describe(robot, genes, ("columns",))["columns"]) == int(columns(cells))
        with pytest.raises(ValueError, match="'elongation' exists"):
            descriptors.BODY_DESCRIPTORS["elongation"] = columns
    finally:
        descriptors.BODY_DESCRIPTORS.pop("columns", None)
