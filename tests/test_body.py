"""Shapes, and their assembly into welded clusters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError

from vsr.physics.engine import assemble_body
from vsr.physics.squares.assembly import SquareMaterials, assemble
from vsr.physics.squares.geometry import bounding_box, center, mass_corners, mass_motion, rest_state
from vsr.robot import Body, Material

ROWS, COLUMNS = 3, 4
pytestmark = pytest.mark.usefixtures("quickly_compiled")
TABLE = SquareMaterials.of([Material(), Material(mass=2.0, mass_side_ratio=0.2)])
assemble_any = jax.jit(assemble)
cells = arrays(np.int32, (ROWS, COLUMNS), elements=st.integers(-1, 1))


def welded_clusters(cells):
    """Plain version: masses (row, column, corner) joined for each pair of side-adjacent voxels."""
    parent = {(r, c, k): (r, c, k) for r, c in zip(*np.nonzero(cells >= 0), strict=True) for k in range(4)}

    def root(mass):
        while parent[mass] != mass:
            mass = parent[mass]
        return mass

    for r, c in {mass[:2] for mass in parent}:
        if (r, c + 1, 0) in parent:
            for ours, theirs in ((1, 0), (2, 3)):
                parent[root((r, c, ours))] = root((r, c + 1, theirs))
        if (r + 1, c, 0) in parent:
            for ours, theirs in ((3, 0), (2, 1)):
                parent[root((r, c, ours))] = root((r + 1, c, theirs))
    clusters = {}
    for mass in parent:
        clusters.setdefault(root(mass), []).append(mass)
    return list(clusters.values())


def slot_of(model, mass):
    r, c, k = mass
    row, column = ((0, 0), (0, 1), (1, 1), (1, 0))[k]
    return int(model.in_second_layer[k, r, c]), r + row, c + column


@given(cells)
def test_clusters_are_the_welded_masses(grid):
    model = assemble_any(jnp.asarray(grid), TABLE, 3.0)
    clusters = welded_clusters(grid)
    assert int((model.cluster_mass > 0).sum()) == len(clusters)
    mass = np.array([1.0, 2.0])
    for members in clusters:
        slots = {slot_of(model, member) for member in members}
        assert len(slots) == 1
        slot = slots.pop()
        assert float(model.cluster_mass[slot]) == pytest.approx(sum(mass[grid[r, c]] for r, c, _ in members))


@given(cells)
def test_masses_sit_in_their_voxels_corners(grid):
    model = assemble_any(jnp.asarray(grid), TABLE, 3.0)
    motion = mass_motion(model, rest_state(model))
    side = np.where(grid == 1, 0.6, 0.9)
    for r, c in zip(*np.nonzero(grid >= 0), strict=True):
        reach = (3.0 - side[r, c]) / 2
        for k, (sx, sy) in enumerate(((-1, -1), (1, -1), (1, 1), (-1, 1))):
            wanted = np.array([3 * c + 1.5 + sx * reach, 3 * r + 1.5 + sy * reach])
            np.testing.assert_allclose(motion.center[k, r, c], wanted, atol=1e-5)


@given(arrays(np.int32, (ROWS, COLUMNS), elements=st.integers(-1, 0)))
def test_contact_points_are_the_clusters_convex_corners(grid):
    model = assemble_any(jnp.asarray(grid), TABLE, 3.0)
    corners = np.asarray(mass_corners(model, mass_motion(model, rest_state(model))))
    for members in welded_clusters(grid):
        slot = slot_of(model, members[0])
        active = np.asarray(model.contact_active[(slice(None), *slot)])
        ours = np.asarray(model.contact_offset[(slice(None), *slot)])[active] + np.asarray(model.rest_position[slot])
        every = np.concatenate([corners[:, k, r, c] for r, c, k in members])
        assert {tuple(p) for p in np.round(ours, 3)} == convex_corners(np.round(every, 3))


def convex_corners(points):
    """Strict corners of the convex hull (monotone chain)."""
    points = sorted({tuple(p) for p in points})

    def half(sequence):
        hull = []
        for p in sequence:
            while (
                len(hull) > 1
                and (
                    (hull[-1][0] - hull[-2][0]) * (p[1] - hull[-2][1])
                    - (hull[-1][1] - hull[-2][1]) * (p[0] - hull[-2][0])
                )
                <= 1e-6
            ):
                hull.pop()
            hull.append(p)
        return hull[:-1]

    return set(half(points)) | set(half(points[::-1]))


def test_one_compilation_serves_all_bodies():
    count = assemble_any._cache_size()
    for seed in range(5):
        grid = np.random.default_rng(seed).integers(-1, 2, (ROWS, COLUMNS)).astype(np.int32)
        assemble_any(jnp.asarray(grid), TABLE, 3.0)
    assert assemble_any._cache_size() <= max(count, 1)


def test_one_layer_equals_two_where_nothing_touches_at_a_corner(biped):
    one = assemble_body(biped)
    two = assemble_any(jnp.asarray(biped.cells), SquareMaterials.of(list(biped.materials.values())), 3.0)
    assert one.cluster_mass.shape[0] == 1
    assert float(two.cluster_mass[1].sum()) == 0
    np.testing.assert_allclose(one.cluster_inertia[0], two.cluster_inertia[0], rtol=1e-6)
    np.testing.assert_allclose(one.contact_offset[:, 0], two.contact_offset[:, 0], atol=1e-6)


def test_inertia_follows_the_parallel_axis_theorem():
    """A 2 x 1 block: the middle clusters are two squares side by side, that is one rectangle."""
    model = assemble_body(Body(shape=("aa",)))
    rectangle = 2.0 * (1.8**2 + 0.9**2) / 12
    assert float(model.cluster_inertia[0, 0, 1]) == pytest.approx(rectangle, rel=1e-6)
    assert float(model.cluster_inertia[0, 0, 0]) == pytest.approx(0.9**2 / 6, rel=1e-6)


def test_geometry_of_the_resting_biped(biped):
    model = assemble_body(biped)
    motion = mass_motion(model, rest_state(model))
    low, high = bounding_box(model, motion)
    np.testing.assert_allclose(low, [0, 0], atol=1e-5)
    np.testing.assert_allclose(high, [12, 6], atol=1e-5)
    np.testing.assert_allclose(center(model, motion), [6, 3.5], atol=1e-5)


def test_shape_is_read_as_drawn():
    body = Body(shape="ab\n.a", materials={"a": Material(), "b": Material(mass=2.0)})
    np.testing.assert_array_equal(body.cells, [[-1, 0], [0, 1]])
    assert Body(shape=["a", "aa"]).shape == ("a.", "aa")


@pytest.mark.parametrize(
    ("shape", "message"),
    [("..", "no voxel"), ("ax", "'x'"), ([], "shape"), ("", "no voxel"), (3, "shape")],
)
def test_bad_shapes_are_refused(shape, message):
    with pytest.raises(ValidationError, match=message):
        Body(shape=shape)


def test_a_dot_cannot_be_a_material():
    with pytest.raises(ValidationError, match="empty"):
        Body(shape="a", materials={"a": Material(), ".": Material()})
