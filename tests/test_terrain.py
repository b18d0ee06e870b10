"""Grounds: the original's recipe, look-up against interpolation, seeds, walls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vsr.controllers import Sine
from vsr.environment import Environment
from vsr.environment.obstacles import ball, floor, plane, slope
from vsr.environment.surfaces import surfaces
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.squares.geometry import bounding_box, mass_motion
from vsr.robot import Body, Material
from vsr.scene import Physics, Scene, simulate
from vsr.tasks import Locomotion
from vsr.terrain import (
    TERRAINS,
    AnyTerrain,
    Blocks,
    Bumpy,
    Columns,
    Downhill,
    Flat,
    HeightField,
    Heights,
    Hilly,
    Polyline,
    Sand,
    Steppy,
    Terrain,
    Uneven,
    Uphill,
    chosen,
    field_surface,
    surface,
    together,
)
from vsr.terrain.surface import nearest_surface
from vsr.world.placement import Placement, has_left, place
from vsr.world.spec import Box, Object, Robot, World

WHOLE = {
    "polyline": {"x": (0, 10, 20), "y": (5, 0, 5)},
    "columns": {"heights": (1, 1, 2, 1)},
    "blocks": {"heights": (1, 1, 2, 1)},
}
"""Fields that a ground cannot do without."""
LINES = {name: kind for name, kind in TERRAINS.items() if not kind.in_3d and name != "blocks"}
ALL = [kind(**WHOLE.get(name, {})) for name, kind in LINES.items()]


def test_flat_ground_is_the_originals(original_voxel):
    x, y = Flat().points()
    np.testing.assert_allclose(x, original_voxel["terrain_flat"]["xs"])
    np.testing.assert_allclose(y, original_voxel["terrain_flat"]["ys"])


@pytest.mark.parametrize("roughness", [5, 10, 20])
def test_uneven_ground_is_the_originals(original_voxel, roughness):
    original = original_voxel[f"terrain_uneven{roughness}"]
    x, y = Uneven(roughness=float(roughness)).points()
    np.testing.assert_allclose(x, original["xs"])
    # The original shifts the ground down by its lowest point when it builds it.
    np.testing.assert_allclose(y, np.array(original["ys"]) - min(original["ys"]), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("ground", ALL, ids=lambda ground: ground.type)
def test_height_and_normal_are_those_of_the_line(ground):
    x, y = ground.points()
    terrain = ground.build()
    inside = np.random.default_rng(0).uniform(x[0], x[-1], 500)
    height, normal_x, normal_y = (np.asarray(part) for part in surface(terrain, jnp.asarray(inside, jnp.float32)))
    np.testing.assert_allclose(height, np.interp(inside, x, y), atol=2e-2)
    np.testing.assert_allclose(np.hypot(normal_x, normal_y), 1, rtol=1e-5)
    ahead = (np.interp(inside + 1e-4, x, y) - np.interp(inside - 1e-4, x, y)) / 2e-4
    away = np.abs(x[:, None] - inside).min(0) > 1e-2
    np.testing.assert_allclose((-normal_x / normal_y)[away], ahead[away], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [Hilly, Steppy, Uneven])
def test_seeds_decide(kind):
    one, again, other = kind(seed=1).points(), kind(seed=1).points(), kind(seed=2).points()
    np.testing.assert_array_equal(one, again)
    assert one[0].shape != other[0].shape or not np.allclose(one[1], other[1])


@pytest.mark.parametrize(("kind", "sign"), [(Uphill, 1), (Downhill, -1)])
def test_slopes_have_their_angle(kind, sign):
    x, y = kind(angle=20.0).profile()
    assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(sign * np.tan(np.radians(20)))


def test_steps_are_level_with_steep_risers():
    x, y = Steppy(height=1.0, width=8.0, seed=3).profile()
    slope = np.diff(y) / np.diff(x)
    widths = np.diff(x)
    assert (np.diff(x) > 0).all()
    assert set(np.round(widths[1::2], 6)) == {0.5}
    assert np.abs(slope[::2]).max() == 0


@pytest.mark.slow
@pytest.mark.parametrize("ground", ALL, ids=lambda ground: ground.type)
def test_a_robot_starts_clear_of_the_ground(ground):
    model = assemble_body(Body(shape=("aa",), voxel_side=1.0))
    terrain = ground.build()
    low, high = bounding_box(model, mass_motion(model, place(model, terrain, Placement(clearance=0.5))))
    assert float(low[1]) == pytest.approx(float(terrain.highest(low[0][None], high[0][None])) + 0.5, abs=1e-2)
    assert float(low[0]) == pytest.approx(ground.points()[0][1] + 1, abs=1e-3)


@pytest.mark.slow
@given(st.lists(st.floats(0.3, 9), min_size=2, max_size=12), st.integers(0, 100))
def test_any_line_is_looked_up_right(widths, seed):
    random = np.random.default_rng(seed)
    x = np.concatenate([[0], np.cumsum(widths)])
    y = random.normal(size=x.size)
    probe = random.uniform(x[0], x[-1], 64)
    height = surface(Terrain.of(x, y), jnp.asarray(probe, jnp.float32))[0]
    np.testing.assert_allclose(height, np.interp(probe, x, y), atol=1e-3)


def test_positions_that_are_not_numbers_do_no_harm():
    height = surface(Uneven().build(), jnp.array([jnp.nan, jnp.inf, 50.0]))[0]
    assert bool(jnp.isfinite(height[2]))


NEEDED = {
    Polyline: {"x": (0.0, 9.0), "y": (1.0, 0.0)},
    Heights: {"heights": ((0.0, 1.0), (1.0, 0.0))},
    TERRAINS["columns"]: {"heights": (1.0, 2.0)},
    TERRAINS["blocks"]: {"heights": (1.0, 2.0)},
}
OF_COLUMNS = {"heights": (2.0, 1.0), "ceiling": (8.0, 9.0), "start": 3.0}
OTHER = {"x": (0.0, 8.0), "y": (2.0, 0.0), "heights": ((0.0, 1.0), (1.0, 2.0)), "spacing": 2.0, "start": (1.0, 2.0),
         "riser": 0.25}  # fmt: skip


@pytest.mark.parametrize("kind", TERRAINS.values(), ids=TERRAINS)
def test_no_key_of_a_ground_is_without_meaning(kind):
    def arrays(**given):
        return [np.asarray(part) for part in jax.tree.leaves(kind(**{**NEEDED.get(kind, {}), **given}).build())]

    plain = arrays()
    of_grains = set(Sand.model_fields) - set(Flat.model_fields) - {"depth"} if kind is Sand else set()
    for name, field in kind.model_fields.items():  # what grains are like is tested with them
        if name not in {"type", "shape"} | of_grains:  # a shape is instead of heights
            if name in OF_COLUMNS and kind in (TERRAINS["columns"], TERRAINS["blocks"]):
                other = OF_COLUMNS[name]
            else:
                other = OTHER[name] if name in OTHER else 2 * field.default or field.default + 1
            assert any(not np.array_equal(*pair) for pair in zip(plain, arrays(**{name: other}), strict=True)), name


@pytest.mark.parametrize(
    "build",
    [
        lambda: Flat(length=-1.0), lambda: Uneven(roughness=-1.0), lambda: Uphill(angle=90.0), lambda: Hilly(width=0.0),
        lambda: Flat(friction=-0.1), lambda: Polyline(x=(0.0,), y=(0.0,)), lambda: Polyline(x=(0.0, 1.0), y=(0.0,)),
        lambda: Polyline(x=(1.0, 0.0), y=(0.0, 0.0)), lambda: Flat(wall_width=1200.0),
    ],
)  # fmt: skip
def test_bad_grounds_are_refused(build):
    with pytest.raises(ValidationError):
        build()


@pytest.mark.slow
def test_several_lines_together_are_what_they_are_alone():
    """Inside and beyond their ends; a line that falls at its end included."""
    falling = Polyline(x=(0, 10, 20), y=(5, 3, 0))
    alone = [ground.build() for ground in (Flat(length=100.0), Uneven(length=100.0, points_between=7), falling)]
    all_of_them = together(alone)
    x = jnp.linspace(-30, 150, 1001)
    for number, ground in enumerate(alone):
        one = chosen(all_of_them, jnp.int32(number))
        for found, expected in zip(surface(one, x), surface(ground, x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(one.highest(x[100][None], x[400][None]), ground.highest(x[100][None], x[400][None]))
        below = jnp.array([0.0, -0.5])
        assert has_left(one, below, jnp.float32(1.0)) == has_left(ground, below, jnp.float32(1.0))
    assert not all_of_them.convex
    assert together([Flat().build(), Flat(length=90.0).build()]).convex


@pytest.mark.slow
def test_several_fields_together_are_what_they_are_alone():
    alone = [ground.build() for ground in (Bumpy(length=60.0, breadth=20.0), Heights(heights=((0, 1), (2, 5))))]
    all_of_them = together(alone)
    x, y = jnp.meshgrid(jnp.linspace(-10, 80, 61), jnp.linspace(-20, 20, 41))
    for number, ground in enumerate(alone):
        height, normal = field_surface(chosen(all_of_them, jnp.int32(number)), x, y)
        expected, expected_normal = field_surface(ground, x, y)
        np.testing.assert_allclose(height, expected, atol=1e-5)
        inside = np.abs(np.stack(normal) - np.stack(expected_normal)).max(0) < 1e-4
        assert inside.mean() > 0.99  # on the border itself a point is of one side or of the other
    with pytest.raises(ValueError, match="cannot be used together"):
        together([Flat().build(), alone[0]])


@pytest.mark.slow
def test_what_hits_the_side_of_a_shaft_is_not_lifted_out():
    """At 40 m/s a mass passes 60 mm of side in one substep; under the top it would be pushed up to it, 267 m."""
    scene = Scene(
        robot=Robot(body=Body(shape=("aa", "aa")), controller=Sine(amplitude=0.0)),
        world=World(terrain=Columns(heights=(270, 3, 3, 3, 3, 3, 270))),
        task=Locomotion(duration=1.0, placement=Placement(left=6.0, clearance=1.0, velocity=(-40.0, 0.0))),
        physics=Physics(implementation="xla"),
    )
    trajectory = simulate(scene, keep_trajectory=True).trajectory
    assert trajectory is not None
    assert np.asarray(trajectory.state.position)[..., 1].max() < 15


def test_sides_of_columns():
    """A fiftieth of a column, however high; what gets behind them is put out through them."""
    for heights in ((270, 3, 270), (3, 270, 3), (3, 6, 6), (3, 600, 600)):
        x, y = Columns(heights=heights).points()
        assert (np.diff(x) > 0).all()
        np.testing.assert_allclose(np.diff(x)[np.diff(y) != 0], 0.06)


def test_what_is_inside_a_step_is_nearest_to_the_side_or_to_the_top():
    ground = Columns(heights=(0, 0, 2, 2, 0, 0, 5, 0, 0), width=3.0)
    terrain = ground.build()
    assert terrain.walls
    x, y = ground.points()
    draw = np.random.default_rng(0)
    point = np.stack([draw.uniform(6, 21, 4000), draw.uniform(0, 5, 4000)], 1)
    ends = np.stack([x, y], 1)
    along = np.diff(ends, axis=0)
    share = np.clip(((point[:, None] - ends[:-1]) * along).sum(-1) / (along**2).sum(-1), 0, 1)
    distance = np.linalg.norm(ends[:-1] + share[..., None] * along - point[:, None], axis=-1).min(1)
    inside = point[:, 1] < np.interp(point[:, 0], x, y)
    height, *normal = nearest_surface(terrain, *(jnp.asarray(part, jnp.float32) for part in point.T))
    np.testing.assert_array_equal(np.asarray(height) < 0, inside)
    np.testing.assert_allclose(-np.asarray(height)[inside], distance[inside], atol=float(terrain.deep))
    deep = inside & (distance > float(terrain.deep))
    np.testing.assert_allclose(-np.asarray(height)[deep], distance[deep], atol=1e-3)
    out = point - np.stack(normal, 1) * (np.asarray(height) - 1e-3)[:, None]
    assert (out[inside, 1] > np.interp(out[inside, 0], x, y)).all(), "along the normal they come out"
    below, *_ = surface(terrain, jnp.asarray(point[:, 0], jnp.float32))
    assert (point[inside, 1] - np.asarray(below)[inside] < -1).sum() > 500, "many are far below the top"


@pytest.mark.parametrize("ground", ALL, ids=lambda ground: ground.type)
def test_outside_the_surface_is_that_below(ground):
    x, y = ground.points()
    terrain = ground.build()
    place = np.random.default_rng(1).uniform(x[0], x[-1], 500)
    probe = jnp.asarray(place, jnp.float32), jnp.asarray(np.interp(place, x, y) + 0.3, jnp.float32)
    height, normal_x, normal_y = surface(terrain, probe[0])
    found = nearest_surface(terrain, *probe)
    np.testing.assert_allclose(found[0], (probe[1] - height) * normal_y, atol=1e-4)
    np.testing.assert_array_equal(found[1:], (normal_x, normal_y))


TOO_LIVELY = (1.5, -0.1, float("nan"))


@pytest.mark.parametrize("kind", TERRAINS.values(), ids=TERRAINS)
def test_no_ground_gives_back_more_than_it_gets(kind):
    needed = NEEDED.get(kind, {})
    assert kind(**needed, restitution=1.0).restitution == 1.0
    for value in TOO_LIVELY:
        with pytest.raises(ValidationError, match="restitution"):
            kind(**needed, restitution=value)


@pytest.mark.parametrize(
    "build",
    [
        lambda value: plane((0.0, 0.0), (0.0, 1.0), restitution=value),
        lambda value: floor(3, restitution=value),
        lambda value: slope(3, 0.1, restitution=value),
        lambda value: ball((0.0, 0.0), 1.0, restitution=value),
        lambda value: HeightField.of(np.zeros((2, 2)), (0.0, 0.0), (1.0, 1.0), restitution=value),
        lambda value: Blocks.over_floor(np.ones((1, 1)), np.array([0.0, 1.0]), 0.0, 1.0, restitution=value),
    ],
    ids=["plane", "floor", "slope", "ball", "field", "blocks"],
)
def test_nor_do_obstacles_made_in_python(build):
    for value in TOO_LIVELY:
        with pytest.raises(ValueError, match="from 0 to 1"):
            build(value)
    assert float(build(1.0).restitution) == 1.0
    assert float(jax.jit(lambda value: build(value).restitution)(0.5)) == 0.5


@pytest.mark.parametrize(
    "described",
    [
        lambda value: Material(restitution=value),
        lambda value: Object(name="a", shape=Box(size=(1.0, 1.0)), position=(0.0, 0.0), restitution=value),
    ],
    ids=["material", "object"],
)
def test_nor_do_materials_and_objects(described):
    assert described(1.0).restitution == 1.0
    for value in TOO_LIVELY:
        with pytest.raises(ValidationError, match="restitution"):
            described(value)


@pytest.mark.slow
def test_grounds_that_are_none_of_ours_can_be_stood_on():
    """A kind of ground needs its own answers only: placing, leaving, seeing and contact ask for them."""

    class Slope(AnyTerrain):
        friction = restitution = jnp.float32(0.5)

        def height_and_normal(self, position):
            length = np.hypot(1, 0.5)
            return 0.5 * position[0], (-0.5 / length + 0 * position[0], 1 / length + 0 * position[0])

        def left_end(self):
            return jnp.float32(2.0)

        def lowest(self):
            return jnp.float32(-10.0)

        def highest(self, low, high):
            return 0.5 * high[0]

    ground, model = Slope(), assemble_body(Body(shape=("aa",)))
    low, high = engine_of(model).bounding_box(model, place(model, ground, Placement(clearance=0.25)))
    assert float(low[0]) == pytest.approx(3.0)
    assert float(low[1]) == pytest.approx(0.5 * float(high[0]) + 0.25, abs=1e-5)
    assert bool(has_left(ground, jnp.array([0.0, -20.0]), jnp.float32(3.0)))
    assert bool(ground.is_inside(jnp.array([4.0, 1.9])))
    assert float(ground.height_over(jnp.array([4.0, 5.0]))) == 3
    assert float(ground.distance_along(jnp.array([0.0, 4.0]), jnp.array([0.0, -1.0]), 8.0)) == pytest.approx(
        4, abs=1e-3
    )
    seen = next(surfaces(Environment(terrain=ground), (jnp.array([4.0]), jnp.array([2.0]))))
    assert float(seen.height[0]) == pytest.approx(0, abs=1e-6)
    assert ground.floor is ground
    assert ground.line is ground.blocks is ground.corners() is None
