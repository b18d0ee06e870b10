"""Fluid in chambers: volumes and loads against closed forms and gradients, columns against the paper and loops."""

import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import vsr.cli as cli
from vsr.evidence.columns import candidates_needed, distribute
from vsr.evidence.validate import fluid
from vsr.evidence.validate.checks import Findings, absolute
from vsr.physics.fluid import Filling, surface, surface_of, voxel_faces
from vsr.physics.fluid.shapes import (
    block,
    bowl,
    icosphere,
    signed_volume,
    upright_ring,
    voxel_block,
    voxel_corners,
)
from vsr.physics.points.geometry import size
from vsr.scene import precision

pytestmark = pytest.mark.usefixtures("quickly_compiled")
GRAVITY = 9.8
energy, first_moment, load, volume = map(jax.jit, (surface.energy, surface.first_moment, surface.load, surface.volume))
TABLE_1 = {30: 4.1835, 50: 4.1828, 100: 4.1804, 200: 4.1799, 500: 4.1798}
"""Columns along each side, and the paper's volume of the ball of 5120 triangles [cm³]."""


@pytest.fixture(autouse=True)
def _double():
    with precision("float64"):
        yield


def of_voxels(*cells, seed, **options):
    return of_shape(voxel_block(*cells, shaken=0.2, seed=seed), **options)


def of_shape(shape, **options):
    return surface_of(shape.corners, len(shape.position), dtype=np.float64, **options), jnp.asarray(shape.position)


def filling(*chambers):
    return Filling(*(jnp.array(values) for values in zip(*chambers, strict=True)))


WATER = filling((300.0, 1000.0, 0.4))
CLOSED = {
    "polygon": lambda: of_voxels(2, 3, seed=1, depth=0.3),
    "triangles": lambda: of_shape(icosphere(1)),
    "ring": lambda: of_shape(upright_ring(12, 6)),
    "bent voxels": lambda: of_voxels(2, 2, 3, seed=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSED)
def test_the_load_is_the_gradient_of_the_energy(name):
    surface, position = CLOSED[name]()
    found = load(surface, position, WATER, GRAVITY)
    wanted = -jax.jit(jax.grad(lambda place: energy(surface, place, WATER, GRAVITY).sum()))(position)
    assert np.abs(found - wanted).max() < 1e-6 * np.abs(wanted).max()
    direct = WATER.density * GRAVITY * (
        first_moment(surface, position) - WATER.port * volume(surface, position)
    ) - WATER.pressure * volume(surface, position)
    assert np.allclose(energy(surface, position, WATER, GRAVITY), direct, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSED)
def test_the_load_is_the_weight_at_the_center_of_the_fluid(name):
    surface, position = CLOSED[name]()
    found = np.asarray(load(surface, position, WATER, GRAVITY))
    weight = float(WATER.density[0] * GRAVITY * volume(surface, position)[0])
    assert np.allclose(found.sum(0), -weight * np.eye(surface.dimension)[-1], atol=1e-9 * weight)
    # The center along x is that along the vertical of the same body on its side.
    side = [surface.dimension - 1, *range(1, surface.dimension - 1), 0]
    mirrored = replace(surface, corners=surface.corners[:, ::-1])
    along = float(first_moment(mirrored, position[:, jnp.array(side)])[0] / volume(surface, position)[0])
    up = float(first_moment(surface, position)[0] / volume(surface, position)[0])
    arm = np.asarray(position)[:, [0, -1]] - (along, up)
    assert abs((arm[:, 0] * found[:, -1] - arm[:, 1] * found[:, 0]).sum()) < 1e-9 * weight


@pytest.mark.parametrize("name", CLOSED)
def test_a_body_moved_with_its_port_has_the_same_load(name):
    surface, position = CLOSED[name]()
    shift = jnp.arange(1.0, surface.dimension + 1)
    moved = replace(WATER, port=WATER.port + shift[-1])
    before, after = load(surface, position, WATER, GRAVITY), load(surface, position + shift, moved, GRAVITY)
    assert np.allclose(before, after, atol=1e-10 * np.abs(before).max())
    assert np.allclose(volume(surface, position + shift), volume(surface, position), rtol=1e-12)
    raised = first_moment(surface, position) + shift[-1] * volume(surface, position)
    assert np.allclose(first_moment(surface, position + shift), raised, rtol=1e-10)


def test_closed_forms_of_a_block_and_a_ball():
    surface, position = of_shape(block((2.0, 3.0, 4.0)))
    assert np.allclose(volume(surface, position), 24)
    assert np.allclose(first_moment(surface, position), 24 * 2)
    push = np.asarray(load(surface, position, filling((0.0, 1000.0, 4.0)), GRAVITY))
    right = np.asarray(position)[:, 0] == 2
    assert push[right, 0].sum() == pytest.approx(1000 * GRAVITY * 4**2 / 2 * 3)  # ρ g h²/2 on a wall 3 m wide
    ball, place = of_shape(icosphere(3, radius=0.01))
    assert float(volume(ball, place)[0]) == pytest.approx(signed_volume(icosphere(3, radius=0.01)), rel=1e-12)
    lid = np.asarray(place)[:, 2] > 0
    even = np.asarray(load(ball, place, filling((5.0, 0.0, 0.0)), GRAVITY))
    assert even[lid, 2].sum() == pytest.approx(5 * np.pi * 0.01**2, rel=0.05)  # pressure times the section


@pytest.mark.slow
def test_a_plane_body_is_its_extrusion():
    flat, position = of_voxels(2, 3, seed=4, depth=0.7)
    squares = voxel_corners(2, 3)
    nodes = len(position)
    place = jnp.concatenate([jnp.insert(position, 1, 0.0, 1), jnp.insert(position, 1, 0.7, 1)])
    # Corners by their bits: across the plane is bit 1, and up moves from there to bit 2.
    cubes = np.stack([squares[:, (bits & 1) + (bits >> 2) * 2] + nodes * (bits >> 1 & 1) for bits in range(8)], 1)
    solid = surface_of(voxel_faces(cubes), 2 * nodes, dtype=np.float64)
    assert np.allclose(volume(flat, position), volume(solid, place))
    assert np.allclose(first_moment(flat, position), first_moment(solid, place))
    both = np.asarray(load(solid, place, WATER, GRAVITY)).reshape(2, nodes, 3)[..., [0, 2]].sum(0)
    assert np.allclose(load(flat, position, WATER, GRAVITY), both, atol=1e-9 * np.abs(both).max())


@pytest.mark.slow
def test_bilinear_faces_have_no_diagonal_and_cancel():
    surface, position = of_voxels(1, 1, 2, seed=5)
    voxels = voxel_corners(1, 1, 2)
    own = size(jnp.moveaxis(position[voxels], 1, 0), 3)
    each = replace(surface, chamber=jnp.repeat(jnp.arange(2), 6), chambers=2)
    assert np.allclose(volume(each, position), own, rtol=1e-12)
    assert float(volume(surface, position)[0]) == pytest.approx(float(own.sum()), rel=1e-12)
    turned = replace(surface, corners=jnp.roll(surface.corners, 1, 1))
    assert np.allclose(first_moment(turned, position), first_moment(surface, position), rtol=1e-12)
    common = [set(row) == set(voxels[0]) & set(voxels[1]) for row in np.asarray(surface.corners).tolist()]
    assert sum(common) == 2
    without = replace(surface, weight=jnp.where(jnp.array(common), 0.0, 1.0))
    for function in (volume, first_moment, partial(load, filling=WATER, gravity=GRAVITY)):
        full = np.asarray(function(surface, position))
        assert np.allclose(full, function(without, position), rtol=1e-12, atol=1e-12 * np.abs(full).max())


@pytest.fixture(scope="module")
def of_mask():
    """Volume and load of any voxels of a body, compiled once."""
    with precision("float64"):
        surface, position = of_voxels(2, 2, 3, seed=6)
        voxels = voxel_corners(2, 2, 3)
        own = np.asarray(size(jnp.moveaxis(position[voxels], 1, 0), 3))

        @jax.jit
        def measured(mask):
            filled = replace(surface, weight=jnp.repeat(mask, 6))
            return volume(filled, position)[0], load(filled, position, WATER, GRAVITY)

    return measured, own


@given(mask=st.lists(st.booleans(), min_size=12, max_size=12))
def test_any_set_of_voxels_is_a_chamber(of_mask, mask):
    measured, own = of_mask
    found, push = measured(jnp.array(mask, float))
    assert float(found) == pytest.approx(own[mask].sum(), abs=1e-12)
    assert np.allclose(push.sum(0), [0, 0, -1000 * GRAVITY * own[mask].sum()], atol=1e-7)


def test_chambers_are_apart():
    surface, position = of_voxels(1, 3, seed=7)
    two = replace(surface, chamber=jnp.repeat(jnp.array([0, 0, 1]), 4), weight=jnp.repeat(jnp.array([1.0, 0, 1]), 4))
    two = replace(two, chambers=2)
    parts = [replace(surface, weight=jnp.repeat(jnp.eye(3)[voxel], 4)) for voxel in (0, 2)]
    assert np.allclose(volume(two, position), [volume(part, position)[0] for part in parts])
    both = filling((100.0, 1000.0, 1.0), (0.0, 800.0, 0.5))
    single = [filling((100.0, 1000.0, 1.0)), filling((0.0, 800.0, 0.5))]
    wanted = sum(load(part, position, one, GRAVITY) for part, one in zip(parts, single, strict=True))
    assert np.allclose(load(two, position, both, GRAVITY), wanted)
    energies = [energy(part, position, one, GRAVITY)[0] for part, one in zip(parts, single, strict=True)]
    assert np.allclose(energy(two, position, both, GRAVITY), energies)


def test_bodies_at_once_are_bodies_one_by_one():
    surface, position = of_voxels(2, 2, 2, seed=8)
    places = position + 0.05 * jax.random.normal(jax.random.key(0), (3, *position.shape))
    masks = jnp.repeat(jnp.array([[1.0, 0, 1, 1, 0, 1, 1, 1], [0.0] * 8, [1.0] * 8]), 6, 1)

    def pushed(mask, place):
        return load(replace(surface, weight=mask), place, WATER, GRAVITY)

    many = jax.vmap(pushed)(masks, places)
    one_by_one = jnp.stack([pushed(mask, place) for mask, place in zip(masks, places, strict=True)])
    assert np.allclose(many, one_by_one, atol=1e-9)
    assert not np.asarray(many[1]).any()


@pytest.mark.parametrize("height", [0.0, 100.0])
def test_single_precision_is_kept_far_from_the_origin(height):
    shape = icosphere(3, radius=0.5)
    surface = surface_of(shape.corners, len(shape.position))
    place = jnp.asarray(shape.position + np.array([50.0, 0.0, height]), jnp.float32)
    assert float(volume(surface, place)[0]) == pytest.approx(signed_volume(shape), rel=2e-5)


@pytest.mark.parametrize(
    ("corners", "options", "message"),
    [
        (block().corners[:-1], {}, "3 edges of faces meet no other"),
        (block().corners[:, :1], {}, r"shape \(12, 1\)"),
        ([[0, 1], [1, 2]], {}, "2 ends of faces"),
        (block().corners + 1, {}, "names nodes 1 to 8; there are nodes 0 to 7"),
        (block().corners, {"chamber": 1}, "there are chambers 0 to 0"),
        (block().corners, {"chamber": [0] * 11 + [1], "chambers": 2}, "6 edges"),
    ],
)
def test_what_is_no_chamber_is_refused(corners, options, message):
    with pytest.raises(ValueError, match=message):
        surface_of(corners, 8, **options)


def columns(shape, grid, sections=1, candidates=None):
    surface, position = of_shape(shape)
    needed = candidates_needed(shape.corners, shape.position, grid)
    work = partial(distribute, surface, grid=grid, candidates=candidates or needed, sections=sections)
    return jax.jit(work)(position)


@pytest.mark.parametrize("grid", TABLE_1)
def test_table_1_of_the_paper(grid):
    found = columns(icosphere(4), grid)
    assert float(found.volume) == pytest.approx(TABLE_1[grid], abs=1e-4)
    assert float(found.share.sum()) == pytest.approx(float(found.volume), rel=1e-12)
    assert int(found.left_out) == int(found.unpaired) == 0


def plain_columns(shape, grid):
    """The paper's steps in plain loops: sorted lists per column, a bottom belongs to the top that follows it."""
    low, high = shape.position.min(0)[:2], shape.position.max(0)[:2]
    side = (high - low) / grid
    lists = {}
    for corners in shape.corners:
        a, b, c = shape.position[corners]
        matrix = np.array([[*a[:2], 1], [*b[:2], 1], [*c[:2], 1]]).T
        turn = np.linalg.det(matrix)
        if abs(turn) < 1e-14:
            continue
        span = (shape.position[corners][:, :2] - low) / side - 0.5
        for x in range(int(np.ceil(span[:, 0].min())), int(span[:, 0].max()) + 1):
            for y in range(int(np.ceil(span[:, 1].min())), int(span[:, 1].max()) + 1):
                shares = np.linalg.solve(matrix, [*(low + side * (x + 0.5, y + 0.5)), 1])
                if (shares > 0).all():
                    lists.setdefault((x, y), []).append((shares @ (a[2], b[2], c[2]), turn > 0, corners, shares))
    share = np.zeros(len(shape.position))
    for hits in lists.values():
        hits.sort(key=lambda hit: hit[0])
        for (below, _, corners, shares), (above, is_top, *_) in zip(hits[::2], hits[1::2], strict=True):
            assert is_top
            share[corners] += shares * (above - below) * side.prod()
    return share


def tilted(shape):
    """Off every symmetry, so that no center of a column lies on an edge."""
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    return shape._replace(position=shape.position @ (turn * np.linalg.det(turn)))


@pytest.mark.parametrize(("shape", "sections"), [(icosphere(2), 1), (upright_ring(16, 8), 2)], ids=["ball", "ring"])
def test_columns_agree_with_plain_loops(shape, sections):
    shape = tilted(shape)
    found = columns(shape, 24, sections)
    assert int(found.unpaired) == 0
    assert np.allclose(found.share, plain_columns(shape, 24), atol=1e-12)


@pytest.mark.parametrize("grid", [8, 9, 32])
def test_centers_on_edges_count_once(grid):
    """The diagonals of a block's top and bottom pass through centers of columns, and so do edges of its sides."""
    found = columns(block((1.0, 1.0, 2.0)), grid)
    assert float(found.volume) == pytest.approx(2, rel=1e-12)
    assert int(found.unpaired) == 0


@pytest.mark.slow
def test_sections_of_a_ring_that_stands():
    ring = upright_ring()
    exact = signed_volume(ring)
    found = columns(ring, 200, sections=2)
    assert float(found.volume) == pytest.approx(exact, rel=1e-4)
    assert int(found.unpaired) == 0
    below = np.asarray(found.share)[ring.position[:, 2] < 0].sum()
    assert 0.5 * exact < below < exact  # the upper part of the ring carries fluid of its own
    alone = columns(ring, 200, sections=1)
    assert int(alone.unpaired) > 0  # never silent
    assert float(alone.volume) < 0.8 * exact


def test_too_few_candidates_are_reported():
    needed = candidates_needed(icosphere(2).corners, icosphere(2).position, 40)
    assert int(columns(icosphere(2), 40, candidates=needed).left_out) == 0
    few = columns(icosphere(2), 40, candidates=needed - 1)
    assert int(few.left_out) > 0
    assert float(few.volume) <= signed_volume(icosphere(2)) * 1.001


@pytest.mark.slow
def test_columns_converge_with_order_two():
    """Midpoints of a continuous, piecewise smooth depth: volume and nodal load converge with order 2.

    The exact load is that of a bowl open at the port: no pressure at its lid, so the floor carries all weight.
    """
    shape = bowl(3)
    surface, position = of_shape(shape)
    exact = -np.asarray(load(surface, position, filling((0.0, 1.0, 0.0)), 1.0))[:, 2]
    grids = (25, 50, 100, 200)
    found = [np.asarray(columns(shape, grid).share) for grid in grids]
    errors = [np.linalg.norm(share - exact) / np.linalg.norm(exact) for share in found]
    order = -np.polyfit(np.log(grids), np.log(errors), 1)[0]
    assert errors[-1] < 1e-3
    assert 1.7 < order < 2.7
    off = [abs(share.sum() / exact.sum() - 1) for share in found]
    assert -np.polyfit(np.log(grids), np.log(off), 1)[0] > 1.5


def test_cavities_at_once_are_cavities_one_by_one():
    shape = icosphere(2)
    surface, position = of_shape(shape)
    places = jnp.stack([position, position * jnp.array([1.0, 0.7, 1.3]), position @ jnp.eye(3)[:, [1, 2, 0]]])
    work = jax.jit(partial(distribute, surface, grid=20, candidates=64, sections=2))
    many = jax.jit(jax.vmap(work))(places)
    for number, place in enumerate(places):
        one = work(place)
        assert float(many.volume[number]) == pytest.approx(float(one.volume), rel=1e-12)
        assert np.allclose(many.share[number], one.share, atol=1e-14)
        assert int(many.left_out[number]) == int(one.left_out) == 0
        assert int(many.unpaired[number]) == int(one.unpaired) == 0


def test_absent_faces_do_not_widen_the_grid():
    """Two balls far apart in one body: each alone, by its faces."""
    ball = icosphere(2)
    both = ball._replace(
        position=np.concatenate([ball.position, ball.position + np.array([9.0, 0, 0])]),
        corners=np.concatenate([ball.corners, ball.corners + len(ball.position)]),
    )
    surface, position = of_shape(both)
    masks = jnp.repeat(jnp.eye(3)[:, :2], len(ball.corners), 1)  # the third has no faces at all
    work = jax.vmap(lambda mask: distribute(replace(surface, weight=mask), position, grid=20, candidates=32))
    found = jax.jit(work)(masks)
    assert np.allclose(found.volume[:2], columns(ball, 20).volume, rtol=1e-9)
    assert not np.asarray(found.volume[2]).any()
    assert not np.asarray(found.share[2]).any()
    assert not np.asarray(found.share[0, len(ball.position) :]).any()


def test_columns_in_single_precision():
    shape = icosphere(3)
    surface = surface_of(shape.corners, len(shape.position))
    needed = candidates_needed(shape.corners, shape.position, 50)
    work = jax.jit(partial(distribute, surface, grid=50, candidates=needed))
    found = work(jnp.asarray(shape.position, jnp.float32))
    assert found.share.dtype == jnp.float32
    assert float(found.volume) == pytest.approx(float(columns(shape, 50).volume), rel=1e-5)
    assert int(found.unpaired) == 0


def test_columns_want_triangles():
    surface, position = of_voxels(1, 1, 1, seed=0)
    with pytest.raises(ValueError, match="4 corners"):
        distribute(surface, position, grid=4, candidates=16)


@pytest.mark.full
def test_the_suite_reports_and_draws(tmp_path, monkeypatch):
    curve = {"columns": {"grid": [10, 20], "volume": [1e-2, 3e-3], "load": [4e-2, 1e-2]}}
    drawn = Findings([absolute("order", 2.1, 2, 0.5)], curve)
    checks = {"exact volumes": fluid.check_volumes, "columns, orders": lambda: drawn}
    monkeypatch.setattr(fluid, "SUITE", replace(fluid.SUITE, checks=checks))
    target, plots = tmp_path / "fluid.json", tmp_path / "plots"
    order = ["validate", "--suite", "fluid", "--json", str(target), "--plots", str(plots)]
    result = CliRunner().invoke(cli.main, order)
    assert result.exit_code == 0, result.output
    assert "5 of 5" in result.output
    assert json.loads(target.read_text())["suite"] == "fluid"
    assert (plots / "fluid_columns.png").exists()


def test_the_suite_covers_what_is_promised():
    assert set(fluid.SUITE.longest_first) <= set(fluid.SUITE.checks)
    assert fluid.TABLE_1 == TABLE_1
