"""Sand as it is shown: grains in recordings, pictures and pages, at the copies around the robot."""

import itertools
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from browser import open_browser
from moving import moving_robot
from PIL import Image

from vsr.drawing.colors import GRAINS, LIGHTNESS, SCALES, rgb
from vsr.drawing.grains import RecordedGrains, grain_scale, grains_of
from vsr.drawing.legend import legend
from vsr.drawing.notebook import outcome_png
from vsr.drawing.painter import Look, Painter
from vsr.drawing.pens import faces_behind
from vsr.experiments.config import parse_scene
from vsr.experiments.play.film import Film, write_gif
from vsr.experiments.play.page import ASSETS, GRAIN_FORCES, GRAIN_SPEED, GRAIN_STEPS, page, unpack
from vsr.experiments.play.recordings import robot_from_trajectory
from vsr.experiments.storage.files import write_text
from vsr.scene import simulate

pytestmark = pytest.mark.usefixtures("quickly_compiled")

SAND = """
robot: {body: {shape: [aa]}, controller: sine}
world: {terrain: {type: sand, radius: 0.6, depth: 1.5, period: 24, settle: 0.5}}
task: {duration: 1, placement: {clearance: 0.0}}
physics: {time_step: 1/30}
"""
PERIOD = 24.0


@pytest.fixture(scope="module")
def outcome():
    return simulate(parse_scene(SAND), keep_trajectory=True)


@pytest.fixture(scope="module")
def robot(outcome):
    return robot_from_trajectory("walker", outcome.scene, outcome.model, outcome.trajectory)


def bed_of(dimension=2, moments=121, speed=0.0, period=PERIOD):
    """A level layer of grains one meter apart around the origin, which moves along x [m/s] and is never simulated."""
    side = np.arange(-period / 2, period / 2) + 0.5
    axes = np.meshgrid(*[side] * (dimension - 1), [-0.5], indexing="ij")
    place = np.stack([axis.ravel() for axis in axes], -1)
    position = np.broadcast_to(place, (moments, *place.shape)).copy()
    position[..., 0] += speed * np.arange(moments)[:, None] / 30
    return RecordedGrains(
        position=position,
        speed=np.full(position.shape[:2], abs(speed)),
        force=np.full(position.shape[:2], 3.0),
        radius=np.full(len(place), 0.5),
        period=np.array([period] * (dimension - 1) + [0.0]),
    )


def on_sand(dimension=2, **bed):
    """The robot of `moving_robot` on such a layer: it is at 50 m, two periods away."""
    robot = moving_robot(dimension=dimension)
    scene = robot.scene.model_copy(update={"world": parse_scene(SAND).world})
    recording = replace(robot.recording, grains=bed_of(dimension, len(robot.recording.time), **bed))
    return replace(robot, scene=scene, recording=recording)


def embedded(text):
    return json.loads(re.search(r'<script type="application/json" id="robots">(.*?)</script>', text, re.S).group(1))


def count_of(image, color):
    """Pixels that have it, nearly."""
    return int((np.abs(np.asarray(image).astype(int) - color).max(-1) < 12).sum())


# What is recorded


@pytest.mark.slow
def test_a_recording_has_the_grains_of_the_simulation(outcome, robot):
    seen, sand = outcome.trajectory.systems["sand"], outcome.scene.systems()["sand"]
    grains = robot.recording.grains
    apart = grains.position - np.asarray(seen.position)
    np.testing.assert_allclose(apart[..., 1], 0, atol=1e-6)
    np.testing.assert_allclose(apart[..., 0] / PERIOD, np.rint(apart[..., 0] / PERIOD), atol=1e-6)
    np.testing.assert_allclose(grains.speed, np.linalg.norm(seen.velocity, axis=-1), atol=1e-6)
    np.testing.assert_allclose(grains.radius, sand.radius)
    assert grains.period.tolist() == [PERIOD, 0]
    assert grains.speed.max() > 0.05
    weight = 9.8 * float(np.sum(np.broadcast_to(sand.mass, grains.radius.shape)))
    assert 0.5 * weight < grains.force[0].sum() < 30 * weight  # each push counts on both sides, in every layer


@pytest.mark.slow
def test_grains_do_not_jump_where_the_bed_begins_again(outcome):
    """One grain goes over the end of the box and back in at its beginning."""
    trajectory, sand = outcome.trajectory, outcome.scene.systems()["sand"]
    low = sand.box.low[0]
    seen = trajectory.systems["sand"]
    position = np.array(seen.position)
    walk = np.linspace(-1.0, 1.0, len(position))
    position[:, 0, 0] = low + walk % PERIOD
    found = grains_of(trajectory._replace(systems={"sand": seen._replace(position=position)}), {"sand": sand})
    np.testing.assert_allclose(np.diff(found.position[:, 0, 0]), np.diff(walk), atol=1e-5)
    assert grains_of(trajectory, {}) is None


@pytest.mark.slow
def test_grains_between_moments_lie_between(robot):
    recording = robot.recording
    middle = recording.at(np.array([0.5 * (recording.time[3] + recording.time[4])])).grains
    np.testing.assert_allclose(middle.position[0], recording.grains.position[3:5].mean(0))
    np.testing.assert_allclose(middle.speed[0], recording.grains.speed[3:5].mean(0))


@pytest.mark.slow
def test_a_recording_ends_where_grains_are_lost(outcome):
    seen = outcome.trajectory.systems["sand"]
    lost = seen._replace(position=np.asarray(seen.position).copy())
    lost.position[6, 2] = np.nan
    trajectory = outcome.trajectory._replace(systems={"sand": lost})
    recording = robot_from_trajectory("walker", outcome.scene, outcome.model, trajectory).recording
    assert recording.failed
    assert len(recording.time) == len(recording.grains.position) == 6


@pytest.mark.parametrize("dimension", [2, 3])
def test_copies_fill_the_view_wherever_it_is(dimension):
    bed = bed_of(dimension)
    low, high = (100.25, -3.0), (160.25, 4.0)  # two periods and a half
    grain, place = bed.copies(0, low, high)
    assert ((place[:, 0] >= low[0]) & (place[:, 0] <= high[0])).all()
    assert len(place) == 60 * (1 if dimension == 2 else 7)
    assert len(np.unique(place.round(6), axis=0)) == len(place)
    away = (place - bed.position[0, grain])[:, :-1] / PERIOD
    np.testing.assert_allclose(away, np.rint(away), atol=1e-9)


# Pictures


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("quantity", ["height", "speed", "force"])
def test_grains_are_painted_below_the_robot(dimension, quantity):
    robot = on_sand(dimension, speed=1.0)
    bare = replace(robot.recording, grains=None)
    look = Look(grains_by=quantity)
    painter = Painter(robot.recording, None, look, title="", size=(320, 240))
    with_grains = np.asarray(painter.paint(30)).astype(int)
    color = painter.grain_colors.colors(painter.recording.grains.values(quantity, 30))[0]
    without = np.asarray(Painter(bare, None, look, title="", size=(320, 240)).paint(30))
    assert count_of(with_grains, color) > 300 > count_of(without, color) + 250
    rows, columns = np.nonzero(np.abs(with_grains - color).max(-1) < 12)
    assert rows.min() > 100  # the lower half
    assert np.ptp(columns) > 200  # from side to side


def test_discs_touch_and_are_as_large_as_grains():
    """Level discs of 1 m diameter next to each other leave gaps only where circles do."""
    painter = Painter(on_sand().recording, None, Look(), title="", size=(640, 420))
    image = np.asarray(painter.paint(0)).astype(int)
    row = next(index for index in range(300, 400) if (image[index, 60:600] != 255).any(-1).mean() > 0.95)
    assert row > 300


def test_walls_stand_where_copies_would_be():
    recording = on_sand().recording
    painter = Painter(
        recording, (np.array([0.0, 52.0, 52.1, 200.0]), np.array([9.0, 9.0, -1.0, -1.0])), Look(), title=""
    )
    place, *_ = painter._grains(painter.camera[0] - [10, 5], 0)
    assert place[:, 0].min() > 52.0
    assert len(place) > 5


def test_faces_cover_grains_behind_them_and_no_others():
    """A cube with a grain behind it, one at its right, one on top and one in front."""
    corners = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], float)
    faces = corners[[[2, 3, 7, 6], [1, 3, 7, 5], [4, 5, 7, 6], [0, 1, 5, 4]]]  # back, right, top, front
    place = np.array([[0.5, 2.0, 0.3], [1.3, 0.5, 0.3], [0.5, 0.5, 1.25], [0.5, -0.5, 0.3]])
    found = faces_behind(faces, np.full((4, 3), 0.5), place, np.full(4, 0.2))
    assert found[0] == 0
    assert found[1] >= 2
    assert found[2] == 3
    assert found[3] == 4


def test_beds_side_by_side_share_one_scale():
    low = bed_of()
    high = replace(low, position=low.position + np.array([0.0, 2.0]))
    scale = grain_scale([low, None, high], "height")
    assert scale.ends == pytest.approx((-0.5, 1.5))
    assert grain_scale([None], "height") is None
    assert grain_scale([low], "speed") == GRAINS["speed"]


def test_lightness_alone_shows_values_of_grains():
    for scale in GRAINS.values():
        light = scale.colors(np.linspace(*scale.ends, 50)) @ LIGHTNESS
        assert (np.diff(light) > 0).all()
        assert light[-1] - light[0] > 100


def test_what_colors_of_grains_mean_is_said_below():
    plain = legend(Look(), 320, ("a",))
    more = legend(Look(), 320, ("a",), grains=GRAINS["height"])
    assert more.height > plain.height
    assert count_of(more, rgb(GRAINS["height"].stops)[0]) > 20 > count_of(plain, rgb(GRAINS["height"].stops)[0])


@pytest.mark.slow
def test_voxels_keep_their_colors_beside_sand_in_films(robot, tmp_path):
    """A GIF has 256 colors, and sand needs many."""
    shrunk = replace(robot.recording, ratio=np.full_like(robot.recording.ratio, 0.75))
    film = Film([replace(robot, recording=shrunk)], Look(), 20)
    write_gif(film, tmp_path / "film.gif", lambda: None)
    with Image.open(tmp_path / "film.gif") as image:
        image.seek(5)
        assert count_of(image.convert("RGB"), rgb(SCALES["original"]["area"].stops)[0]) > 2000


@pytest.mark.slow
def test_notebooks_show_sand(outcome, tmp_path):
    (tmp_path / "moments.png").write_bytes(outcome_png(outcome))
    with Image.open(tmp_path / "moments.png") as image:
        assert count_of(image.convert("RGB"), rgb(GRAINS["height"].stops)[0]) > 100


# Pages


@pytest.mark.slow
def test_a_page_holds_the_grains(robot):
    data = embedded(page([robot], Look(grains_by="speed")))
    shown, grains = data["robots"][0], robot.recording.grains
    assert data["look"]["grainsBy"] == "speed"
    assert set(data["grainScales"]) == {"height", "speed", "force"}
    assert shown["grains"]["period"] == [PERIOD, 0]
    np.testing.assert_allclose(shown["grains"]["radius"], grains.radius, atol=1e-4)
    found, moments = unpack(shown["packed"]), len(grains.position)
    quantum = grains.radius.min() / GRAIN_STEPS
    np.testing.assert_allclose(found["grains"].reshape(moments, -1, 2), grains.position, rtol=0, atol=0.51 * quantum)
    np.testing.assert_allclose(found["grainSpeed"], grains.speed, rtol=0, atol=0.51 * GRAIN_SPEED)
    most = np.quantile(grains.force, 0.98)
    force = np.minimum(grains.force, 2 * most)
    np.testing.assert_allclose(found["grainForce"], force, rtol=0, atol=0.51 * most / GRAIN_FORCES)
    assert data["grainScales"]["force"]["ends"][1] == pytest.approx(most, rel=0.06)


def test_pages_without_sand_hold_none():
    data = embedded(page([moving_robot()], Look()))
    assert data["grainScales"] is None
    assert data["robots"][0]["grains"] is None


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_page_shows_the_copies_that_python_does(dimension, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page's geometry cannot be run")
    robot = on_sand(dimension, speed=0.7)
    (tmp_path / "page.json").write_text(json.dumps(embedded(page([robot], Look()))))
    low, high = (40.0, -5.0), (70.0, 6.0)
    write_text(
        tmp_path / "run.js",
        f"""
        const {{ unpack }} = require({json.dumps(str(ASSETS / "decode.js"))});
        const {{ RecordedRobot }} = require({json.dumps(str(ASSETS / "motion.js"))});
        const data = require("./page.json").robots[0];
        unpack(data.packed).then((streams) => {{
          const robot = new RecordedRobot(data, streams), found = [];
          const pose = robot.pose(7.5 / 30), see = (grain, place) => found.push([grain, ...place]);
          robot.eachGrain(pose, {list(low)}, {list(high)}, see);
          console.log(JSON.stringify(found));
        }});
        """,
    )
    output = subprocess.run([node, tmp_path / "run.js"], capture_output=True, text=True, check=True).stdout
    found = np.array(json.loads(output))
    here = robot.recording.at(np.array([7.5 / 30])).grains
    grain, place = here.copies(0, low, high)
    expected = np.concatenate([grain[:, None], place], 1)
    assert found.shape == expected.shape
    order = [rows[np.lexsort(rows[:, ::-1].T.round(2))] for rows in (found, expected)]
    np.testing.assert_allclose(order[0], order[1], atol=0.006)


@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.full)])
def test_a_browser_draws_grains_and_switches_their_colors(dimension, tmp_path):
    write_text(tmp_path / "sand.html", page([on_sand(dimension, speed=0.5)], Look()))
    with open_browser(tmp_path) as browser:
        window = browser.open((tmp_path / "sand.html").as_uri(), width=640, height=620)
        window.wait_for("window.player !== undefined")
        window.run("player.playing = false; player.time = 1; player.dirty = true; 0")
        seen = {}
        for quantity in ("height", "force", "speed"):
            window.choose("#grains", quantity)
            window.wait_for("player.dirty === false")
            seen[quantity] = window.picture().astype(int)[:380]
        for one, other in itertools.combinations(seen.values(), 2):
            assert (np.abs(one - other).max(-1) > 20).sum() > 3000
        assert window.run("document.getElementById('sandMeaning').textContent") == GRAINS["speed"].name
        if dimension == 3:
            assert window.run("player.space.worlds.get(player.robots[0]).grains.count") == 24 * 24
        window.check()
