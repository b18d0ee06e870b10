"""Lattices from grids, graphs and meshes."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsr.compute.vector import join, split
from vsr.lattice import (
    Environment,
    Stiffness,
    advance,
    as_graph,
    breakable,
    count_springs,
    driven,
    isotropic,
    keep_in_plane,
    of_cells,
    of_graph,
    of_pairs,
    peristaltic_wave,
    rest_state,
    spring_count,
)
from vsr.lattice.mesh import (
    Mesh,
    best_candidates,
    cells_inside,
    contains,
    neighbors,
    of_mesh_cells,
    of_mesh_points,
    read_mesh,
)
from vsr.lattice.springs import forces_on_nodes


@jax.jit
def forces(lattice, position, velocity, time):
    axes = lattice.node_axes
    on_nodes = forces_on_nodes(
        lattice.springs, split(position, axes), split(velocity, axes), time, rest_state(lattice).intact
    )
    return join(on_nodes, axes)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4)])
def test_a_grid_as_a_graph_has_the_same_forces(shape):
    random = np.random.default_rng(0)
    present = random.random(shape) < 0.7
    lattice = of_cells(present, 0.5, Stiffness(3.0, 2.0, 1.0), 10.0, damping_time=0.1)
    if len(shape) == 2:  # in 3-D the program takes long enough to compile
        lattice = breakable(driven(lattice, peristaltic_wave(lattice, 0.2, 20.0, 1.0)), 100.0)
    lattice = keep_in_plane(lattice, np.asarray(lattice.mass) > 0, [1.0] + [0.0] * (len(shape) - 1))
    graph = as_graph(lattice)
    size = (*lattice.mass.shape, lattice.dimension)
    position = lattice.rest_position + jnp.asarray(0.1 * random.normal(size=size), jnp.float32)
    velocity = jnp.asarray(random.normal(size=size), jnp.float32)
    flat = (-1, lattice.dimension)
    expected = forces(lattice, position, velocity, 0.3).reshape(flat)
    np.testing.assert_allclose(
        forces(graph, position.reshape(flat), velocity.reshape(flat), 0.3), expected, atol=1e-5, rtol=1e-5
    )
    assert count_springs(graph) == count_springs(lattice) == graph.springs.stiffness.size
    assert as_graph(graph) is graph


def test_springs_are_counted():
    assert count_springs(of_pairs((2, 3, 4), 1.0, Stiffness(1.0, 1.0, 1.0), 1.0)) == spring_count((2, 3, 4))


def test_rods_have_the_stiffness_and_mass_of_their_material():
    rods = of_graph([[0, 0, 0], [2, 0, 0], [2, 0.5, 0]], [[0, 1], [1, 2]], young_modulus=1e6, area=1e-4, density=1000.0)
    np.testing.assert_allclose(rods.springs.stiffness, [50, 200])
    np.testing.assert_allclose(rods.springs.rest_length, [2, 0.5])
    np.testing.assert_allclose(rods.mass, [0.1, 0.125, 0.025])
    shared = of_graph([[0, 0], [1, 0]], [[0, 1]], stiffness=1.0, total_mass=3.0, anchored=[True, False])
    np.testing.assert_allclose(shared.mass, 1.5)
    np.testing.assert_allclose(shared.inverse_mass, [0, 1 / 1.5])


def test_graphs_name_what_is_wrong():
    ends = [[0, 0], [1, 0]]
    with pytest.raises(ValueError, match="nodes 0 to 1; found 0 to 2"):
        of_graph(ends, [[0, 2]], stiffness=1.0, mass=1.0)
    with pytest.raises(ValueError, match="to itself"):
        of_graph(ends, [[1, 1]], stiffness=1.0, mass=1.0)
    with pytest.raises(ValueError, match="twice"):
        of_graph(ends, [[0, 1], [1, 0]], stiffness=1.0, mass=1.0)
    with pytest.raises(ValueError, match="either stiffness"):
        of_graph(ends, [[0, 1]], mass=1.0)
    with pytest.raises(ValueError, match="area"):
        of_graph(ends, [[0, 1]], young_modulus=1.0, mass=1.0)
    with pytest.raises(ValueError, match="exactly one"):
        of_graph(ends, [[0, 1]], stiffness=1.0)


def test_the_wave_runs_along_a_graph_as_along_a_grid():
    lattice = of_pairs((2, 2, 5), 0.5, Stiffness(1.0, 1.0, 1.0), 1.0)
    graph = as_graph(driven(lattice, peristaltic_wave(lattice, 0.2, 20.0, 1.0, speed=2.0)))
    wave = peristaltic_wave(graph, 0.2, 20.0, 1.0, speed=2.0)
    np.testing.assert_allclose(wave.delay, graph.springs.wave.delay)
    assert float(wave.delay.max()) == pytest.approx(2.0 / 2.0)  # springs across the far end begin at x = 2 m


def box_mesh(lowest=(0, 0, 0), highest=(1, 1, 1)) -> Mesh:
    trimesh = pytest.importorskip("trimesh")
    return Mesh(np.asarray(trimesh.creation.box(bounds=[lowest, highest]).triangles, float))


@functools.cache
def ball_mesh(radius=1.0) -> Mesh:
    trimesh = pytest.importorskip("trimesh")
    return Mesh(np.asarray(trimesh.creation.icosphere(subdivisions=3, radius=radius).triangles, float))


class TestMesh:
    @pytest.mark.parametrize("suffix", ["stl", "obj", "ply"])
    def test_files(self, suffix, tmp_path):
        trimesh = pytest.importorskip("trimesh")
        path = tmp_path / f"box.{suffix}"
        trimesh.creation.box(extents=(1000, 2000, 3000)).export(path)
        mesh = read_mesh(path, scale=1e-3)
        assert mesh.volume == pytest.approx(6)
        np.testing.assert_allclose(mesh.highest - mesh.lowest, [1, 2, 3])
        present = cells_inside(mesh, 0.5)
        assert present.shape == (6, 4, 2)
        assert present.all()

    def test_problems_are_named(self, tmp_path, monkeypatch):
        trimesh = pytest.importorskip("trimesh")
        with pytest.raises(FileNotFoundError, match="no mesh file"):
            read_mesh(tmp_path / "absent.stl")
        with_hole = trimesh.creation.box()
        with_hole.update_faces(np.arange(len(with_hole.faces)) > 0)
        with_hole.export(tmp_path / "hole.stl")
        with pytest.raises(ValueError, match="not closed"):
            read_mesh(tmp_path / "hole.stl")
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(ValueError, match=r"notes\.txt"):
            read_mesh(tmp_path / "notes.txt")
        outer, hollow = (trimesh.creation.box(extents=[size] * 3) for size in (1.0, 0.9))
        hollow.invert()
        shell = Mesh(np.concatenate([outer.triangles, hollow.triangles]))
        with pytest.raises(ValueError, match="no cell of side 1 m"):
            cells_inside(shell, 1.0)  # the center of the only cell lies in the hollow
        monkeypatch.setitem(sys.modules, "trimesh", None)
        with pytest.raises(ImportError, match=r"pip install 'voxel-soft-robots\[mesh\]'"):
            read_mesh(tmp_path / "hole.stl")

    @given(st.integers(0, 10_000))
    def test_inside_a_ball_is_inside(self, seed):
        mesh = ball_mesh()
        points = np.random.default_rng(seed).uniform(-1.2, 1.2, (200, 3))
        distance = np.linalg.norm(points, axis=1)
        clear = np.abs(distance - 1) > 0.02  # the mesh has flat faces
        np.testing.assert_array_equal(contains(mesh, points)[clear], distance[clear] < 1)

    def test_rays_through_edges_and_corners_count_once(self):
        """Points below and above vertices, edges and diagonals of a box of 12 triangles, and of a ball's vertices."""
        grid = np.stack(np.meshgrid([0.25, 0.5, 0.75], [0.25, 0.5, 0.75], [-1, 0.5, 2], indexing="ij"), -1)
        points = grid.reshape(-1, 3)
        np.testing.assert_array_equal(contains(box_mesh(), points), points[:, 2] == 0.5)
        mesh = ball_mesh()
        vertices = np.unique(mesh.corners.reshape(-1, 3), axis=0)
        assert contains(mesh, 0.9 * vertices * [1, 1, 0] + [0, 0, 1e-3])[np.abs(vertices[:, 2]) < 0.9].all()
        below = np.concatenate([vertices * [1, 1, 0] + [0, 0, height] for height in (-1.5, 1.5)])
        assert not contains(mesh, below).any()

    def test_cells_fill_the_volume(self):
        mesh = ball_mesh()
        lattice = of_mesh_cells(mesh, 0.2, isotropic(1e5, 0.2, 3), 1000.0)
        assert float(lattice.mass.sum()) == pytest.approx(1000 * mesh.volume, rel=0.08)

    def test_points_fill_the_volume_evenly_and_hold_together(self):
        mesh = ball_mesh()
        lattice = of_mesh_points(mesh, 150, 1e5, 1000.0, neighbor_count=10)
        position = np.asarray(lattice.rest_position)
        assert contains(mesh, position).all()
        assert float(lattice.mass.sum()) == pytest.approx(1000 * mesh.volume, rel=1e-5)
        springs = lattice.springs
        assert (np.asarray(springs.incidence) >= 0).sum(1).min() >= 10
        # The sum of k L² over 6 V is the Young's modulus of an even deformation.
        modulus = (np.asarray(springs.stiffness) * np.asarray(springs.rest_length) ** 2).sum() / (6 * mesh.volume)
        assert modulus == pytest.approx(1e5, rel=1e-4)
        at_random = np.random.default_rng(1).uniform(-1, 1, (400, 3))
        at_random = at_random[np.linalg.norm(at_random, axis=1) < 1][:150]
        assert closest(position) > 2 * closest(at_random)
        other = of_mesh_points(mesh, 150, 1e5, 1000.0, neighbor_count=10, seed=1)
        assert not np.array_equal(position, np.asarray(other.rest_position))


def closest(points: np.ndarray) -> float:
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return float((apart + 10 * np.eye(len(points))).min())


def test_neighbors_are_mutual_and_all_connected():
    far_apart = np.concatenate([np.random.default_rng(0).random((10, 3)) + shift for shift in ([0] * 3, [9, 0, 0])])
    for pairs in (neighbors(far_apart, count=3), neighbors(far_apart, radius=1.0)):
        between = (pairs[:, 0] < 10) != (pairs[:, 1] < 10)
        assert between.sum() == 1
        assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(neighbors(far_apart[:2], count=12)) == 1
    with pytest.raises(ValueError, match="either"):
        neighbors(far_apart)


def test_points_at_the_same_place_are_not_their_own_neighbors():
    twice = np.random.default_rng(0).random((6, 3)).repeat(3, 0)
    for count in (1, 2, 5):
        pairs = neighbors(twice, count=count)
        assert (pairs[:, 0] < pairs[:, 1]).all()
        assert (np.bincount(pairs.ravel(), minlength=18) >= count).all()
    assert neighbors(twice[:1], count=3).shape == (0, 2)


def test_best_candidates_are_of_those_drawn():
    random = np.random.default_rng(0)
    points = best_candidates(lambda count: random.random((count, 2)), 20)
    assert points.shape == (20, 2)
    assert closest(points) > 0.1


def test_a_body_from_a_mesh_falls_as_one():
    lattice = of_mesh_points(box_mesh(), 30, 1e4, 100.0)
    state = advance(lattice, Environment(), rest_state(lattice), step=1e-3, count=100)
    expected = replace(rest_state(lattice), velocity=jnp.zeros((30, 3)).at[:, 2].set(-0.981))
    np.testing.assert_allclose(state.velocity, expected.velocity, atol=1e-3)
