"""3-D robots from end to end: ground of any height, bodies from genes, sensors, evolution, drawings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr.drawing.faces import outer_faces
from vsr.drawing.recording import recording_of
from vsr.environment import Environment
from vsr.episode import Trajectory
from vsr.experiments.config import load_scene
from vsr.experiments.encodings.bodies import GaussianMixture, largest_component
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.runs import read_run
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.points.advance import advance_through
from vsr.physics.points.geometry import rest_state
from vsr.robot import Body
from vsr.scene import simulate
from vsr.terrain import Bumpy, HeightField, Heights, field_surface
from vsr.world.placement import Placement, place

pytestmark = pytest.mark.usefixtures("quickly_compiled")
QUADRUPED = [["aaaa", "aaaa", "aaaa"], ["a..a", "....", "a..a"]]


@pytest.mark.slow
def test_fields_are_bilinear_between_their_points():
    random = np.random.default_rng(0)
    heights = random.normal(size=(4, 5))
    field = HeightField.of(heights, (1.0, -2.0), (0.5, 2.0))
    x, y = 1.0 + 0.5 * np.arange(5), -2.0 + 2.0 * np.arange(4)
    at_points, _ = field_surface(field, *(jnp.asarray(part) for part in np.meshgrid(x, y)))
    np.testing.assert_allclose(at_points, heights, atol=1e-6)
    middle, _ = field_surface(field, jnp.asarray(x[:-1] + 0.25), jnp.full(4, -1.0))
    np.testing.assert_allclose(
        middle, (heights[0, :-1] + heights[0, 1:] + heights[1, :-1] + heights[1, 1:]) / 4, atol=1e-6
    )


def test_normals_stand_on_the_surface():
    field = Bumpy(height=1.0, width=3.0).build()
    random = np.random.default_rng(1)
    x, y = (jnp.asarray(random.uniform(*span, 200), jnp.float32) for span in ((20, 380), (-90, 90)))
    step = 1e-2
    _, normal = field_surface(field, x, y)
    slopes = [
        (field_surface(field, x + dx, y + dy)[0] - field_surface(field, x - dx, y - dy)[0]) / (2 * step)
        for dx, dy in ((step, 0.0), (0.0, step))
    ]
    steep = jnp.sqrt(1 + slopes[0] ** 2 + slopes[1] ** 2)
    # Differences across a fold between two cells lie between both slopes; few points are that near to one.
    close = np.abs(np.stack([normal[0] + slopes[0] / steep, normal[1] + slopes[1] / steep])).max(0) < 5e-3
    assert close.mean() > 0.95
    np.testing.assert_allclose(sum(part**2 for part in normal), 1, atol=1e-5)


def test_beyond_its_borders_a_field_goes_on_level():
    field = HeightField.of(np.array([[0.0, 1.0], [2.0, 4.0]]), (0.0, 0.0), (1.0, 1.0))
    height, normal = field_surface(field, jnp.array([5.0, -3.0, 0.5]), jnp.array([9.0, -1.0, 7.0]))
    np.testing.assert_allclose(height, [4.0, 0.0, 3.0], atol=1e-6)
    np.testing.assert_allclose(normal[2][:2], 1.0, atol=1e-6)
    assert float(normal[0][2]) < -0.5
    assert float(normal[1][2]) == 0
    nowhere, _ = field_surface(field, jnp.array([jnp.nan]), jnp.array([jnp.nan]))
    assert np.isfinite(np.asarray(nowhere)).all()


def test_the_highest_ground_below_a_robot_is_found():
    field = HeightField.of(np.array([[0.0, 1.0, 7.0], [2.0, 4.0, 0.0]]), (0.0, 0.0), (1.0, 1.0))
    assert float(field.highest(jnp.array([0.2, 0.2]), jnp.array([0.7, 0.8]))) == 4.0
    assert float(field.highest(jnp.array([0.2, 0.2]), jnp.array([1.7, 0.8]))) == 7.0
    # Beyond a border the ground is as high as the border.
    assert float(field.highest(jnp.array([5.0, 9.0]), jnp.array([6.0, 9.5]))) == 0.0
    assert float(field.highest(jnp.array([-6.0, -9.0]), jnp.array([-5.0, 9.5]))) == 2.0


@pytest.mark.slow
def test_a_quadruped_lands_on_bumpy_ground_and_stays_above_it():
    model = assemble_body(Body(shape=QUADRUPED))
    ground = Environment(gravity=jnp.float32(9.8), terrain=Bumpy(height=0.6, width=2.0, seed=3).build())
    start = place(model, ground.terrain, Placement(clearance=0.2))
    controls = jnp.zeros((1, *model.present.shape))

    def height(state):
        above, _ = field_surface(ground.terrain, state.position[..., 0], state.position[..., 1])
        return float((state.position[..., 2] - above)[np.asarray(model.node_mass) > 0].min())

    assert height(start) >= 0.2 - 1e-5
    landed, seen = advance_through(model, ground, start, controls, substep=1 / 420, count=1200)
    assert not bool((seen.failure > 0).any())
    assert -5e-3 < height(landed) < 1e-3


@pytest.mark.slow
def test_robots_may_stand_on_different_fields():
    model = assemble_body(Body(shape=[["aa"]]))
    fields = [Bumpy(height=1.0, width=4.0, length=60.0, breadth=20.0, seed=seed).build() for seed in (1, 2)]

    def land(field):
        ground = Environment(gravity=jnp.float32(9.8), terrain=field)
        start = place(model, field, Placement(clearance=0.1))
        controls = jnp.zeros((1, *model.present.shape))
        return advance_through(model, ground, start, controls, substep=1 / 420, count=100)[0].position

    together = jax.vmap(land)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *fields))
    np.testing.assert_allclose(together, jnp.stack([land(field) for field in fields]), atol=1e-4)
    assert float(jnp.abs(together[0] - together[1]).max()) > 0.01


def test_walls_of_bumpy_ground_are_as_wide_as_told():
    for width, wall_width, wall in ((5.0, 5.0, 5.0), (5.0, 21.0, 20.0), (2.0, 0.1, 2.0)):
        ground = Bumpy(width=width, wall_width=wall_width, wall_height=50.0, height=0.1)
        _, height = ground.points()
        assert (np.flatnonzero(height < 1)[[0, -1]] * width).tolist() == [wall, ground.length - wall]
        np.testing.assert_allclose(-np.diff(height[: round(wall / width) + 1]), 50 * width / wall, atol=1e-6)
        assert float(ground.build().begin) == wall


def test_given_heights_are_the_ground():
    heights = [[0.0, 1.0, 3.0], [2.0, 4.0, 0.0], [1.0, 1.0, 1.0], [5.0, 0.0, 0.0]]
    ground = Heights(heights=heights, spacing=(2.0, 0.5), start=(10.0, -0.25), friction=0.7)
    field = ground.build()
    x, y = np.meshgrid(10 + 2.0 * np.arange(3), -0.25 + 0.5 * np.arange(4))
    np.testing.assert_allclose(field_surface(field, jnp.asarray(x), jnp.asarray(y))[0], heights, atol=1e-6)
    assert float(field.friction) == pytest.approx(0.7)
    along, line = ground.points()  # at y = 0, halfway between the first two rows
    np.testing.assert_allclose(along, [10, 12, 14])
    np.testing.assert_allclose(line, [1, 2.5, 1.5])
    centered = Heights(heights=heights, spacing=3)
    np.testing.assert_allclose(centered.build().start, [0.0, -4.5])
    far = Heights(heights=heights, start=(0.0, 40.0))
    np.testing.assert_allclose(far.points()[1], heights[0])  # y = 0 lies beyond its border


@pytest.mark.slow
def test_robots_stand_on_given_heights_and_beyond_them():
    ground = Heights(heights=[[0.0, 0.0, 2.0], [0.0, 0.0, 2.0]], spacing=4.0)
    model = assemble_body(Body(shape=[["aa"]]))
    for left, height in ((None, 2.0), (30.0, 2.0), (-9.0, 0.0)):
        low, _ = engine_of(model).bounding_box(model, place(model, ground.build(), Placement(left=left)))
        np.testing.assert_allclose(low[jnp.array([0, 2])], [1.0 if left is None else left, height + 1], atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"heights": [[0, 1], [0, 1, 2]]}, "row 2 has 3 heights, row 1 has 2"),
        ({"heights": [[0, 1]]}, "1 x 2 heights are no surface"),
        ({"heights": [[], []]}, "2 x 0 heights are no surface"),
        ({"heights": []}, "0 x 0 heights are no surface"),
        ({"heights": [[0, 1], [0, float("nan")]]}, "finite"),
        ({"heights": [[0, 1], [0, 1]], "spacing": 0}, "greater than 0"),
        ({"heights": [[0, 1], [0, 1]], "spacing": [1, -1]}, "greater than 0"),
        ({}, "heights"),
    ],
)
def test_heights_that_are_no_ground_are_refused(wrong, reported):
    with pytest.raises(ValueError, match=reported):
        Heights.model_validate(wrong)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"width": 50.0, "length": 41.0}, "leaves no ground between walls"),
        ({"width": 0.5, "length": 5000.0, "breadth": 5000.0}, "too many"),
    ],
)
def test_fields_that_cannot_be_are_refused(wrong, reported):
    with pytest.raises(ValueError, match=reported):
        Bumpy(**wrong)


@pytest.mark.slow
def test_3d_robots_are_placed_aside_and_turned():
    model = assemble_body(Body(shape=[["aaa", "a.."]]))
    straight, quarter, back = (
        place(model, None, Placement(left=5.0, y=7.0, yaw=yaw, velocity=(1.0, 0.0))) for yaw in (0.0, 90.0, 180.0)
    )
    there = np.asarray(model.node_mass) > 0
    for state, sides in ((straight, (9, 6, 3)), (quarter, (6, 9, 3)), (back, (9, 6, 3))):
        low, high = engine_of(model).bounding_box(model, state)
        np.testing.assert_allclose(high - low, sides, atol=1e-5)
        np.testing.assert_allclose([low[0], (low + high)[1] / 2, low[2]], [5, 7, 1], atol=1e-5)
        np.testing.assert_allclose(state.velocity[there], [[1.0, 0.0, 0.0]] * there.sum(), atol=1e-6)
    # From x towards y: what is further along x is now further along y, and what is further along y less far along x.
    moved = np.asarray(straight.position)[there]
    turned = np.asarray(quarter.position)[there]
    offset = turned - np.stack([-moved[:, 1], moved[:, 0], moved[:, 2]], -1)
    np.testing.assert_allclose(offset, offset[:1].repeat(len(offset), 0), atol=1e-5)


def test_a_robot_aside_stands_on_the_ground_there():
    ground = Heights(heights=[[0.0, 0.0], [0.0, 0.0], [5.0, 5.0]], spacing=20.0, start=(0.0, -20.0))
    model = assemble_body(Body(shape=[["a"]]))
    for y, height in ((-10.0, 0.0), (20.0, 5.0), (90.0, 5.0)):
        low, _ = engine_of(model).bounding_box(model, place(model, ground.build(), Placement(y=y)))
        assert float(low[2]) == pytest.approx(height + 1, abs=1e-5)
        np.testing.assert_allclose(ground.line_at(y)[1], height)


@pytest.mark.parametrize("field", ["y", "yaw"])
def test_places_that_the_plane_does_not_have_are_refused_there(field, tmp_path):
    path = tmp_path / "aside.yaml"
    path.write_text(f"robot: {{body: {{shape: aa}}}}\ntask:\n  placement:\n    {field}: 3\n")
    result = CliRunner().invoke(cli.main, ["check", str(path)])
    assert result.exit_code == 2
    assert f"aside.yaml:4: task.placement.{field}: it is for 3-D robots" in result.output


def test_bumpy_ground_needs_a_robot_in_space():
    wrong = {"robot": {"body": {"shape": "aa"}, "controller": "sine"}, "world": {"terrain": "bumpy"}}
    with pytest.raises(ValueError, match="a 2-D robot needs a line of ground"):
        Experiment.model_validate(wrong)


def test_components_hang_together_by_faces():
    cells = np.zeros((3, 3, 3), bool)
    cells[0, 0, :2] = cells[1, 0, 1] = True  # three in a row round a corner
    cells[2, 1, 1] = cells[2, 2, 2] = True  # each only touches what is there
    wanted = np.zeros_like(cells)
    wanted[0, 0, :2] = wanted[1, 0, 1] = True
    np.testing.assert_array_equal(largest_component(jnp.asarray(cells)), wanted)


def test_mixtures_fill_balls_in_space():
    body = GaussianMixture(grid=(5, 5, 4), gaussians=1, materials={"a": {}})
    assert body.gene_count == 5
    assert body.engine == "points"
    assert body.layers == 4
    cells = np.asarray(jax.jit(body.decode)(jnp.array([0.4, 0.6, 0.25, 0.2, 1.0])))
    assert cells.shape == (4, 5, 5)
    z, y, x = np.indices(cells.shape)
    squared = (x / 5 - 0.4) ** 2 + (y / 5 - 0.6) ** 2 + (z / 4 - 0.25) ** 2
    strength = np.exp(-squared / (2 * 0.2**2)) / (0.2 * np.sqrt(2 * np.pi))
    np.testing.assert_array_equal(cells >= 0, strength > 1)


def test_senses_that_the_plane_does_not_have_are_refused_there():
    robot = {"body": {"shape": "aa"}, "controller": {"type": "mlp", "sensors": [{"quantity": "velocity_z"}]}}
    with pytest.raises(ValueError, match="velocity_z is only felt in 3-D"):
        Experiment.model_validate({"robot": robot})
    in_3d = Experiment.model_validate({"robot": {**robot, "body": {"shape": QUADRUPED}}})
    assert in_3d.robot.gene_count == (16 + 2) * 16


@pytest.mark.parametrize(
    ("physics", "reported"),
    [
        ({"implementation": "fused", "integrator": "rk4"}, "'fused' cannot move this body.*rk4 was asked for"),
        ({"substeps": 1}, "substep of 16.67 ms would blow up"),
    ],
)
def test_physics_that_points_do_not_have_is_refused(physics, reported):
    with pytest.raises(ValueError, match=reported):
        Experiment.model_validate({"robot": {"body": {"shape": [["aa"]]}, "controller": "sine"}, "physics": physics})


def test_squares_know_one_integrator():
    robot = {"body": {"shape": "aa"}, "controller": "sine"}
    with pytest.raises(ValueError, match="'verlet' needs point masses"):
        Experiment.model_validate({"robot": robot, "physics": {"integrator": "verlet"}})


@pytest.mark.slow
def test_bodies_evolve_in_space_and_their_files_live_the_same_life(tmp_path):
    """Genes to robot to fitness, to a file, to a robot, to the same fitness; sensors and all."""
    config = tmp_path / "space.yaml"
    config.write_text("""
robot:
  body: {type: gaussian_mixture, grid: [2, 2, 2], gaussians: 2, threshold: 0.4, materials: {a: {}, h: {}}}
  controller:
    type: mlp
    sensors: [{quantity: volume_ratio}, {quantity: velocity_z, reading: mean, window: 2}]
    passive: [h]
task: {duration: 0.5}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 4, tournament_size: 2}
generations: 2
""")
    run = tmp_path / "run"
    result = CliRunner().invoke(cli.main, ["evolve", str(config), "--out", str(run), "--no-report"])
    assert result.exit_code == 0, result.output
    best = read_run(run).best[0, -1]
    assert np.isfinite(best)
    scene = load_scene(run / "best" / "seed-0.yaml")
    assert scene.robot.body.dimension == 3
    assert simulate(scene).measures["relative_velocity"] == pytest.approx(best, abs=1e-5)


@pytest.mark.slow
def test_outer_faces_are_drawn():
    for shape, faces in (([["a"]], 6), ([["aa"]], 10), (QUADRUPED, 2 * 12 + 14 + 4 * 4)):
        model = assemble_body(Body(shape=shape))
        state = rest_state(model)
        life = Trajectory(
            jnp.zeros(1), jax.tree.map(lambda leaf: leaf[None], state), jnp.zeros((1, *model.present.shape))
        )
        recording = recording_of(model, life, Environment(gravity=9.8), np.asarray(Body(shape=shape).cells))
        voxel, corner, _ = outer_faces(recording)
        assert corner.shape == (faces, 4)
        assert (recording.ratio == 1).all()
        seen = recording.corners[0][voxel[:, None], corner].reshape(-1, 3)
        low, high = engine_of(model).bounding_box(model, state)
        np.testing.assert_allclose([seen.min(0), seen.max(0)], [low, high], rtol=1e-5, atol=1e-5)
