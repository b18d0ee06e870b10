"""Signed distance functions: formulas against brute force, sampled shapes against formulas, and the way out."""

import jax.numpy as jnp
import numpy as np
import pytest
import trimesh

from vsr.sdf import (
    Ball,
    Block,
    Capsule,
    Cylinder,
    HalfSpace,
    Inverted,
    Moved,
    Ridge,
    Sampled,
    Union,
    distance_and_normal,
)
from vsr.terrain import Terrain

ARRAY = jnp.asarray
SHAPES = {
    "half-space": HalfSpace(ARRAY([0.0, 0.6, 0.8]), ARRAY(0.1)),
    "ball": Ball(ARRAY(0.4)),
    "block": Block(ARRAY([0.3, 0.2, 0.4])),
    "cylinder": Cylinder(ARRAY(0.3), ARRAY(0.35)),
    "capsule": Capsule(ARRAY([-0.2, 0.0, 0.1]), ARRAY([0.3, 0.1, -0.1]), ARRAY(0.2)),
    "moved": Moved(
        Block(ARRAY([0.3, 0.2, 0.4])), ARRAY([0.1, 0.0, 0.2]), ARRAY([[0.0, -1, 0], [1, 0, 0], [0, 0, 1.0]])
    ),
    "union": Union((Ball(ARRAY(0.3)), Moved(Ball(ARRAY(0.2)), ARRAY([0.5, 0.0, 0.0]), jnp.eye(3)))),
}


def points(count=400, dimension=3):
    return tuple(ARRAY(part, jnp.float32) for part in np.random.default_rng(0).uniform(-0.7, 0.7, (dimension, count)))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_way_out_leads_to_the_surface(shape):
    """Walking the distance against the normal ends on the surface, wherever the distance is exact: outside."""
    place = points()
    distance, normal = distance_and_normal(shape, place)
    outside = np.asarray(distance) > 0.01
    assert outside.sum() > 50
    foot = tuple(part - distance * n for part, n in zip(place, normal, strict=True))
    assert np.abs(np.asarray(shape.distance(foot)))[outside].max() < 2e-4
    assert np.allclose(np.asarray(sum(n * n for n in normal)), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["ball", "block", "cylinder", "capsule"])
def test_the_distance_is_that_of_the_nearest_point_of_the_surface(name):
    shape = SHAPES[name]
    axis = np.linspace(-0.7, 0.7, 71, dtype=np.float32)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    inside = np.asarray(shape.distance(tuple(ARRAY(part) for part in grid.T))) <= 0
    place = np.stack(points(40))
    nearest = np.sqrt(((place.T[:, None] - grid[inside][None]) ** 2).sum(-1)).min(1)
    distance = np.asarray(shape.distance(tuple(ARRAY(part) for part in place)))
    assert np.abs(nearest - distance)[distance > 0].max() < 0.02 * np.sqrt(3)  # a cell of the grid


@pytest.mark.slow
def test_a_sampled_shape_is_near_its_formula_and_nearer_on_a_finer_grid():
    shape, place = SHAPES["capsule"], points()
    exact = np.asarray(shape.distance(place))
    errors = []
    for spacing in (0.1, 0.05):
        sampled = Sampled.of(shape, np.full(3, -0.8), np.full(3, 0.8), spacing)
        errors.append(np.abs(np.asarray(sampled.distance(place)) - exact).max())
    assert errors[1] < 0.6 * errors[0] < 0.03
    far = sampled.distance((ARRAY(5.0), ARRAY(0.0), ARRAY(0.0)))
    assert float(far) > 4.0  # beyond the grid the way to it is added


@pytest.mark.slow
def test_a_closed_mesh_is_sampled_and_an_open_one_refused():
    mesh = trimesh.creation.icosphere(subdivisions=3, radius=0.4)
    sampled = Sampled.of_mesh(mesh, 0.05, 0.15)
    place = points(200)
    near = np.abs(np.asarray(SHAPES["ball"].distance(place))) < 0.1
    error = np.abs(np.asarray(sampled.distance(place)) - np.asarray(SHAPES["ball"].distance(place)))[near]
    assert error.max() < 0.012
    mesh.update_faces(np.arange(len(mesh.faces)) > 0)
    with pytest.raises(ValueError, match="not closed"):
        Sampled.of_mesh(mesh, 0.05, 0.15)


def test_ground_and_containers():
    ground = Ridge(Terrain.of(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0])))
    distance, normal = distance_and_normal(ground, (ARRAY([0.5, 1.5]), ARRAY([0.3, 0.5])))
    assert np.allclose(distance, [0.3, 0.0], atol=1e-6)
    assert np.allclose(np.stack(normal), [[0, -np.sqrt(0.5)], [1, np.sqrt(0.5)]], atol=1e-6)
    inner = Inverted(Ball(ARRAY(1.0)))
    distance, normal = distance_and_normal(inner, (ARRAY([0.4]), ARRAY([0.0])))
    assert float(distance[0]) == pytest.approx(0.6)
    assert float(normal[0][0]) == pytest.approx(-1)
