"""What `vsr play` shows: recorded robots, packed for pages, painted for films; and what it refuses."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from growing import put_meta, put_statistics
from PIL import Image, ImageDraw

import vsr.cli as cli
from vsr.drawing.colors import PALETTES, SCALES, rgb
from vsr.drawing.legend import legend
from vsr.drawing.overlays import (
    CONTACT,
    GROWING,
    OVERLAYS,
    PAPER,
    SENSOR_COLORS,
    SHRINKING,
    VELOCITY,
    VoxelPen,
    sensor_marks,
)
from vsr.drawing.painter import Look, Painter, SpringLines, round_step
from vsr.drawing.recording import Felt, Recording, recording_of
from vsr.experiments.config import parse_scene
from vsr.experiments.play.page import ASSETS, Stream, pack, page, streams_of, unpack
from vsr.experiments.play.recordings import Source, read_sources, record_robot
from vsr.experiments.storage.files import write_arrays, write_text
from vsr.physics.engine import ENGINES, engine_of
from vsr.physics.points.springs import of_classes, spring_corners, voxel_tensions
from vsr.physics.squares.geometry import mass_corners, mass_motion, voxel_corners
from vsr.scene import simulate

pytestmark = pytest.mark.usefixtures("quickly_compiled")

SQUARES = """
robot:
  body: {shape: ["aa", "b."], materials: {a: {}, b: {scaffolding: [side_external, central_cross]}}}
  controller: sine
task: {placement: {clearance: 0.0}}
"""
POINTS = """
robot:
  body: {shape: [aa], engine: points}
  controller:
    type: mlp
    sensors: [{quantity: area_ratio}, {quantity: velocity_y, reading: mean, window: 3, voxels: [[0, 0]]}]
    weights: [0.4, -0.3, 0.2, 0.6, -0.5, 0.1, 1.2, -0.9, 0.1, 0.2]
task: {placement: {clearance: 0.0}}
"""
SPACE = """
robot: {body: {shape: [[aa]]}, controller: sine}
world: {terrain: {type: bumpy, height: 0.2}}
task: {placement: {clearance: 0.0}}
"""
SECONDS = 0.8


@pytest.fixture(scope="module")
def recorded():
    texts = {"squares": SQUARES, "points": POINTS, "space": SPACE}
    return {name: record_robot(Source(name, parse_scene(text)), SECONDS) for name, text in texts.items()}


@pytest.fixture
def vsr(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.main, ["play", *map(str, arguments)])


@pytest.fixture
def robot(tmp_path):
    (tmp_path / "robot.yaml").write_text(SQUARES)
    return tmp_path / "robot.yaml"


def embedded(text):
    return json.loads(re.search(r'<script type="application/json" id="robots">(.*?)</script>', text, re.S).group(1))


def still(moments=2, voxels=6, seconds=1.0):
    """A row of voxels of point masses that does nothing, without any simulation."""
    x = np.arange(voxels + 1) * 3.0
    position = np.broadcast_to(
        np.stack([np.tile(x, 2), np.repeat([0.0, 3.0], voxels + 1)], -1), (moments, 2 * voxels + 2, 2)
    )
    part = np.array([[i, i + 1, i + voxels + 1, i + voxels + 2] for i in range(voxels)])
    return Recording(
        time=np.linspace(0, seconds, moments),
        position=position,
        angle=None,
        ratio=np.ones((moments, voxels)),
        control=np.zeros((moments, voxels)),
        contact=np.zeros((moments, voxels), bool),
        velocity=np.zeros((moments, voxels, 2)),
        part=part,
        offset=np.zeros((voxels, 4, 2)),
        half_side=np.zeros(voxels),
        springs=np.ones((voxels, 2), bool),
        spring_ends=tuple(ENGINES["points"].spring_ends(2)),
        material=np.arange(voxels) % 2,
        place=np.stack([np.arange(voxels), np.zeros(voxels, int)], -1),
        voxel_side=3.0,
        failed=False,
    )


# What is recorded


@pytest.mark.slow
def test_a_recording_has_what_the_controller_read(recorded):
    """The readings of every moment make the control values of the next interval."""
    robot = recorded["points"]
    recording = robot.recording
    controller = robot.scene.robot.controller.build(robot.scene.robot.body)
    assert [sensor.label for sensor in recording.felt] == ["area ratio", "velocity y, mean of 3 calls"]
    assert [sensor.unit for sensor in recording.felt] == ["", "m/s"]
    assert [sensor.has.tolist() for sensor in recording.felt] == [[True, True], [True, False]]
    values = np.stack([sensor.value for sensor in recording.felt], 1)[:, :, None]
    decide = jax.vmap(controller.control)
    made = decide(jnp.asarray(recording.time[1:-1]), jnp.asarray(values[1:-1], jnp.float32))
    np.testing.assert_allclose(made[:, 0], recording.control[2:], atol=1e-5)
    assert recording.felt[1].reach > 0.1
    later = recording.at(recording.time[3:4] + 0.9 * recording.time[1])
    assert (later.felt[0].value == recording.felt[0].value[3]).all()  # the latest reading, not one to come


@pytest.mark.slow
def test_controllers_without_senses_read_nothing(recorded):
    assert recorded["squares"].recording.felt == ()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), [("squares", SQUARES), ("points", POINTS)], ids=["squares", "points"])
def test_a_recording_is_where_the_physics_says(recorded, name, text):
    scene = parse_scene(text)
    scene = scene.model_copy(update={"task": scene.task.model_copy(update={"duration": SECONDS})})
    outcome = simulate(scene, keep_trajectory=True)
    assert outcome.scene == scene
    assert outcome.model is not None
    assert outcome.trajectory is not None
    model, recording = outcome.model, recorded[name].recording

    def telemetry(state):
        seen = engine_of(model).voxel_motion(model, scene.world.build(), state)
        if recording.angle is None:
            return seen.corner[jnp.array([0, 1, 3, 2])], seen.size_ratio, seen.corner
        motion = mass_motion(model, state)
        return voxel_corners(model, motion), seen.size_ratio, mass_corners(model, motion)

    present = np.asarray(model.present) > 0
    corner, ratio, masses = map(np.asarray, jax.jit(jax.vmap(telemetry))(outcome.trajectory.state))
    around = recording.corners[:, :, [0, 1, 3, 2]]
    np.testing.assert_allclose(around, np.moveaxis(corner[:, :, present], 1, 2), atol=1e-4)
    np.testing.assert_allclose(recording.ratio, ratio[:, present], atol=1e-5)
    if recording.angle is not None:
        theirs = np.moveaxis(masses[:, :, :, present], 1, 3).reshape(len(ratio), -1, 4, 2).mean(2)
        ours = recording.mass_corners.reshape(len(ratio), -1, 4, 2).mean(2)
        np.testing.assert_allclose(np.sort(ours, axis=1), np.sort(theirs, axis=1), atol=1e-4)


@pytest.mark.slow
def test_touching_and_strain_are_seen(recorded):
    for robot in recorded.values():
        recording = robot.recording
        assert recording.contact.any()
        assert recording.strain[0].max() < 1e-4
        assert recording.strain.max() > 0.01


@pytest.mark.slow
def test_moments_between_lie_between(recorded):
    recording = recorded["squares"].recording
    middle = 0.5 * (recording.time[3] + recording.time[4])
    found = recording.at(np.array([recording.time[3], middle, 1e6]))
    np.testing.assert_allclose(found.position[0], recording.position[3])
    np.testing.assert_allclose(found.position[1], 0.5 * (recording.position[3] + recording.position[4]))
    np.testing.assert_allclose(found.control[1], recording.control[4])  # in force until then
    np.testing.assert_allclose(found.position[2], recording.position[-1])


@pytest.mark.slow
def test_a_recording_that_diverges_ends_there():
    scene = parse_scene(SQUARES)
    scene = scene.model_copy(update={"task": scene.task.model_copy(update={"duration": SECONDS})})
    outcome = simulate(scene, keep_trajectory=True)
    trajectory, model = outcome.trajectory, outcome.model
    assert trajectory is not None
    assert model is not None
    state = replace(trajectory.state, position=trajectory.state.position.at[5:].set(np.nan))
    found = recording_of(model, trajectory._replace(state=state), scene.world.build(), scene.robot.body.cells)
    assert found.failed
    assert len(found.time) == 5
    assert np.isfinite(found.corners).all()


# Packing


@pytest.mark.parametrize("seed", range(3))
def test_packed_values_come_back_to_within_half_a_quantum(seed):
    random = np.random.default_rng(seed)
    sizes = 10.0 ** random.integers(-3, 6, 7)
    streams = [
        Stream("walk", 0.001, (random.normal(size=(40, 7)) * sizes).cumsum(0)),
        Stream("none", 1.0, np.zeros((40, 3))),
        Stream("flags", 1.0, random.integers(0, 2, (40, 2)).astype(float)),
    ]
    found = unpack(json.loads(json.dumps(pack(streams))))
    for stream in streams:
        np.testing.assert_allclose(found[stream.name], stream.values, rtol=0, atol=0.5 * stream.quantum * (1 + 1e-6))


@pytest.mark.parametrize("moments", [1, 2])
def test_shortest_recordings_are_packed(moments):
    values = np.array([[3.0, -300.0]] * moments)
    np.testing.assert_array_equal(unpack(pack([Stream("a", 1.0, values)]))["a"], values)


@pytest.mark.slow
def test_the_page_unpacks_as_python_does(recorded, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page's decoder cannot be run")
    packed = pack(streams_of(recorded["squares"].recording))
    (tmp_path / "packed.json").write_text(json.dumps(packed))
    decoder, data = json.dumps(str(ASSETS / "decode.js")), json.dumps(str(tmp_path / "packed.json"))
    code = (
        f"require({decoder}).unpack(require({data})).then((found) => console.log(JSON.stringify("
        "Object.fromEntries(Object.entries(found).map(([name, values]) => [name, [...values]])))))"
    )
    found = json.loads(subprocess.run([node, "-e", code], capture_output=True, text=True, check=True).stdout)
    for name, values in unpack(packed).items():
        np.testing.assert_allclose(np.array(found[name]).reshape(values.shape[1], -1).T, values, atol=1e-9)


@pytest.mark.slow
def test_the_page_finds_everything_where_python_does(recorded, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page's geometry cannot be run")
    for name in ("squares", "points", "space"):
        recording = recorded[name].recording
        (tmp_path / "page.json").write_text(json.dumps(embedded(page([recorded[name]], Look()))))
        write_text(
            tmp_path / "run.js",
            f"""
            const {{ unpack }} = require({json.dumps(str(ASSETS / "decode.js"))});
            const {{ RecordedRobot, colorOf }} = require({json.dumps(str(ASSETS / "motion.js"))});
            const shared = require("./page.json");
            unpack(shared.robots[0].packed).then((streams) => {{
              const robot = new RecordedRobot(shared.robots[0], streams), pose = robot.pose(7.5 * robot.interval);
              const strain = pose.corners.map((_, voxel) => robot.quantity("strain", pose, voxel));
              const feltBy = (sense) => pose.corners.map((_, voxel) => robot.feltAt(pose, voxel, sense));
              const felt = robot.felt.map((_, sense) => feltBy(sense));
              const red = colorOf(shared, {{ colorBy: "area", palette: "original" }}, 0.7);
              console.log(JSON.stringify({{ corners: pose.corners, center: pose.center, strain, felt, red }}));
            }});
            """,
        )
        seen = json.loads(
            subprocess.run([node, tmp_path / "run.js"], capture_output=True, text=True, check=True).stdout
        )
        here = recording.at(np.array([0.5 * (recording.time[7] + recording.time[8])]))
        np.testing.assert_allclose(seen["corners"], here.corners[0], atol=3e-3)
        np.testing.assert_allclose(seen["center"], here.center[0], atol=2e-3)
        np.testing.assert_allclose(seen["strain"], here.strain[0], atol=2e-3)
        for values, sensor in zip(seen["felt"], here.felt, strict=True):
            assert [value is not None for value in values] == sensor.has.tolist()
            found = np.array([value for value in values if value is not None])
            np.testing.assert_allclose(found, sensor.value[0, sensor.has], atol=0.02 * sensor.reach)
        assert seen["red"] == SCALES["original"]["area"].colors(np.array(0.7)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squares", "points"])
def test_the_page_draws_overlays_only_when_asked_for(recorded, tmp_path, name):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page cannot be drawn")
    (tmp_path / "page.json").write_text(json.dumps(embedded(page([recorded[name]], Look()))))
    names = ("decode", "motion", "overlays", "chambers", "plane")
    scripts = json.dumps([str(ASSETS / f"{name}.js") for name in names])
    write_text(
        tmp_path / "run.js",
        """
        const fs = require("fs"), vm = require("vm"), shared = require("./page.json");
        for (const file of SCRIPTS) vm.runInThisContext(fs.readFileSync(file, "utf8"));
        const draw = vm.runInThisContext("(streams, shared, look, g) => {"
          + "const robot = new RecordedRobot(shared.robots[0], streams);"
          + "const time = robot.end / 2; const rect = { left: 0, top: 0, width: 400, height: 300 };"
          + "drawPlane(g, rect, robot, robot.pose(time), shared, look, { ink: 'ink' }, time); }");
        vm.runInThisContext("unpack")(shared.robots[0].packed).then((streams) => {
          const found = {};
          const numbers = (values) => values.every((value) => typeof value !== "number" || Number.isFinite(value));
          for (const overlay of ["none", "masses", "springs", "control", "contact", "velocity", "sensors", "path"]) {
            const calls = [];
            const g = new Proxy({ measureText: () => ({ width: 10 }) }, {
              get: (known, key) => known[key] ?? ((...values) => calls.push([key, values])),
              set: (known, key, value) => (calls.push([key, [value]]), true),
            });
            draw(streams, shared, { colorBy: "area", palette: "original", zoom: 1, follow: true, [overlay]: true }, g);
            found[overlay] = { calls: calls.length, sound: calls.every(([, values]) => numbers(values)) };
          }
          console.log(JSON.stringify(found));
        });
        """.replace("SCRIPTS", scripts),
    )
    found = json.loads(subprocess.run([node, tmp_path / "run.js"], capture_output=True, text=True, check=True).stdout)
    assert all(drawn["sound"] for drawn in found.values())
    plain = found.pop("none")["calls"]
    shown = {overlay for overlay, drawn in found.items() if drawn["calls"] > plain}
    middle = recorded[name].recording.at(np.array([0.5 * recorded[name].recording.time[-1]]))
    absent = (set() if middle.contact.any() else {"contact"}) | (set() if middle.felt else {"sensors"})
    assert shown == set(found) - absent


@pytest.mark.parametrize("script", sorted(ASSETS.parents[1].glob("*/assets/*.js")), ids=lambda path: path.name)
def test_scripts_are_sound(script):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so scripts cannot be checked")
    assert subprocess.run([node, "--check", script]).returncode == 0


# Pages


@pytest.mark.slow
def test_a_page_holds_the_recording_and_loads_nothing(recorded):
    for name, robot in recorded.items():
        text = page([robot], Look(overlays=frozenset({"path"})))
        data = embedded(text)
        assert [robot["name"] for robot in data["robots"]] == [name]
        assert data["look"]["path"] is True
        assert data["look"]["velocity"] is False
        moved = unpack(data["robots"][0]["packed"])["position"]
        np.testing.assert_allclose(moved, robot.recording.position.reshape(len(moved), -1), atol=0.51 * 3 / 2000)
        assert "default-src 'none'" in text  # the browser itself refuses to load anything
        code = re.sub(r"<script>\s*/\*\s*three\.js.*?</script>", "", text, flags=re.S)
        assert not re.findall(r"https?://", code)
        assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
        assert ("three.js authors" in text) == (name == "space")


@pytest.mark.slow
def test_masses_and_springs_are_drawn_in_2d(recorded):
    look = {name: embedded(page([recorded[name]], Look()))["look"] for name in ("squares", "space")}
    assert [look[name]["masses"] for name in look] == [True, False]
    mixed = embedded(page([recorded["squares"], recorded["space"]], Look()))["look"]
    assert (mixed["masses"], mixed["springs"]) == ("2d", "2d")
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page cannot be asked")
    asked = f"console.log(JSON.stringify([2, 3].map((dimension) => lookOf({{ dimension }}, {json.dumps(mixed)}))))"
    script = (ASSETS / "motion.js").read_text(encoding="utf-8") + asked
    found = json.loads(subprocess.run([node, "-e", script], capture_output=True, text=True, check=True).stdout)
    assert found == [mixed | {"masses": True, "springs": True}, mixed | {"masses": False, "springs": False}]


@pytest.mark.slow
def test_names_cannot_break_a_page(recorded):
    robot = replace(recorded["points"], name="</script><b>@@DATA@@")
    text = page([robot], Look())
    assert embedded(text)["robots"][0]["name"] == robot.name
    assert "<b>" not in text


@pytest.mark.slow
def test_a_minute_of_a_biped_is_small(recorded):
    """As many numbers as a biped of square masses has, none of them easy to guess."""
    random, moments = np.random.default_rng(0), 60 * 30 + 1
    time = np.linspace(0, 60, moments)[:, None]
    gait = np.sin(2 * np.pi * time + random.uniform(0, 6, 14 * 3)) + random.normal(size=(moments, 14 * 3)) * 0.02
    few = streams_of(recorded["squares"].recording)
    streams = [
        Stream("position", few[0].quantum, gait[:, :28] + 0.5 * time),
        Stream("angle", few[1].quantum, 0.3 * gait[:, 28:]),
        Stream("ratio", few[2].quantum, 1 + 0.2 * gait[:, :6]),
        Stream("control", few[3].quantum, np.sin(2 * np.pi * time + random.uniform(0, 6, 6))),
        Stream("contact", 1.0, random.integers(0, 2, (moments, 6)).astype(float)),
    ]
    assert len(pack(streams)["data"]) + len(page([recorded["squares"]], Look())) < 400_000  # and so far below 2 MB


@pytest.mark.slow
def test_ground_in_view_is_all_there(recorded):
    for robot in recorded.values():
        ground = embedded(page([robot], Look()))["robots"][0]["ground"]
        seen = robot.recording.corners[..., 0]
        assert ground["x"][0] <= max(seen.min() - 50, 0)
        assert ground["x"][-1] >= seen.max() + 50
        assert ("field" in ground) == (robot.name == "space")


# Pictures


def painted(recording, moment=-1, **look):
    ground = np.array([0.0, 100.0]), np.array([-0.5, -0.5])
    painter = Painter(recording, ground, Look(**look), title="robot", size=(320, 240))
    return np.asarray(painter.paint(moment % len(recording.time))).astype(int)


def has(image, color):
    target = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return (np.abs(image - target).max(-1) < 12).sum()


def test_fill_shows_the_area():
    """The middle of a voxel of each area has the color of the scale."""
    row = still()
    for palette in PALETTES:
        scale = SCALES[palette]["area"]
        for ratio, stop in ((0.5, 0), (1.0, 1), (1.5, 2)):
            image = painted(replace(row, ratio=np.full_like(row.ratio, ratio)), palette=palette)
            assert has(image, scale.stops[stop]) > 500
            assert all(has(image, other) < 100 for other in scale.stops if other != scale.stops[stop])


def test_lightness_alone_shows_values_of_the_safe_palette():
    for scale in SCALES["safe"].values():
        light = scale.colors(np.linspace(*scale.ends, 50)) @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(light) > 0).all()
        assert light[-1] - light[0] > 100


def test_overlays_appear_only_when_asked_for():
    row = still()
    plain = painted(row)
    assert (painted(row) == plain).all()
    busy = replace(
        row,
        contact=np.ones_like(row.contact),
        velocity=np.full_like(row.velocity, 8.0),
        control=np.full_like(row.control, 0.9),
        position=row.position + np.linspace(0, 5, len(row.time))[:, None, None] * [1.0, 0.0],
        felt=(Felt("speed", "m/s", 0.0, np.tile([0.0, 1.0, 2.0, -2.0, 2.0, 0.0], (2, 1)), np.arange(6) < 5),),
    )
    without = painted(busy)
    assert has(without, CONTACT) == has(without, VELOCITY) == 0
    assert has(painted(busy, overlays=frozenset({"contact"})), CONTACT) > 20
    assert has(painted(busy, overlays=frozenset({"velocity"})), VELOCITY) > 20
    assert has(painted(busy, overlays=frozenset({"control"})), "#d55e00") > 50
    assert has(painted(busy, overlays=frozenset({"sensors"})), SENSOR_COLORS[0]) > 20
    for overlay in OVERLAYS:
        assert (painted(busy, overlays=frozenset({overlay})) != without).any()


def test_bars_of_sensor_values_are_as_high_as_the_values():
    """Up from the middle of the panel in one voxel, half as far down in the next, and none in the last."""
    row = still(voxels=3)
    value = np.broadcast_to([4.0, -2.0, 4.0], row.control.shape)
    image = painted(
        replace(row, felt=(Felt("speed", "m/s", 0.0, value, np.array([True, True, False])),)),
        overlays=frozenset({"sensors"}),
    )
    blue = (np.abs(image - [0x00, 0x72, 0xB2]).max(-1) < 12).sum(0)
    columns = np.flatnonzero(blue)
    left, right = np.split(blue[columns], [np.argmax(np.diff(columns)) + 1])
    assert left.max() == pytest.approx(2 * right.max(), abs=2)


@pytest.mark.parametrize(("order", "color"), [((0, 1), GROWING), ((1, 0), SHRINKING)])
def test_of_overlays_at_one_place_the_nearest_is_seen(order, color):
    row = replace(still(voxels=2), control=np.array([[1.0, -1.0], [1.0, -1.0]]))
    image = Image.new("RGB", (60, 60), PAPER)
    draw = ImageDraw.Draw(image)
    VoxelPen(draw, row, 0, middle=np.full((2, 2), 30.0), order=np.array(order), side=60, line=1).paint_control()
    seen = np.asarray(image).astype(int)
    assert [has(seen, one) > 20 for one in (GROWING, SHRINKING)] == [one == color for one in (GROWING, SHRINKING)]


def test_bars_of_robots_side_by_side_are_comparable():
    row = still()
    small, large = (
        replace(row, felt=(Felt("speed", "m/s", 0.0, np.full_like(row.control, value), np.ones(6, bool)),))
        for value in (1.0, 5.0)
    )
    other = replace(row, felt=(Felt("area ratio", "", 1.0, np.full_like(row.control, 1.25), np.ones(6, bool)),))
    marks = sensor_marks([small, large, other, row])
    assert [mark.words for mark in marks] == ["speed: ±5 m/s", "area ratio: 1 ± 0.25"]
    assert len({mark.color for mark in marks}) == 2


def test_scales_of_sensor_values_are_plain_numbers_and_no_noise():
    felt = [
        Felt(name, "", 0.0, np.full((2, 6), value), np.ones(6, bool))
        for name, value in (("fast", 1437.0), ("still", 3e-7))
    ]
    marks = sensor_marks([replace(still(), felt=tuple(felt))])
    assert [mark.words for mark in marks] == ["fast: ±1400", "still: ±1"]


def test_panels_are_as_wide_as_the_bars_in_them():
    """With one sensor little of the voxel is covered, with four more."""
    row = still(voxels=1)
    felt = [Felt(str(index), "", 0.0, np.zeros_like(row.control), np.ones(1, bool)) for index in range(4)]
    none, one, four = (
        has(painted(replace(row, felt=tuple(felt[:count])), overlays=frozenset({"sensors"})), PAPER)
        for count in (0, 1, 4)
    )
    assert 2 * (one - none) < four - none


# How colors look to eyes without one kind of cones, from linear red, green and blue (Machado et al. 2009, severity 1).
WITHOUT = {
    "red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("cones", WITHOUT)
def test_bars_of_senses_can_be_distinguished_by_color_blind_eyes(cones):
    """By their distance in CIE L*a*b*, of which about 2 can just be seen side by side, and bars are thin."""
    share = rgb(SENSOR_COLORS) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = (linear @ np.array(WITHOUT[cones]).T).clip(0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = seen @ to_xyz.T / [0.9505, 1.0, 1.089]
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    lab = np.stack([116 * root[:, 1], 500 * (root[:, 0] - root[:, 1]), 200 * (root[:, 1] - root[:, 2])], -1)
    apart = np.linalg.norm(lab[:, None] - lab, axis=-1) + 100 * np.eye(len(lab))
    assert apart.min() > 20


def test_what_overlays_mean_is_said_below():
    marks = sensor_marks([replace(still(), felt=(Felt("speed", "m/s", 0.0, np.ones((2, 6)), np.ones(6, bool)),))])
    plain, some = (legend(Look(overlays=frozenset(chosen)), 320, ("a",)) for chosen in ((), ("contact", "velocity")))
    every = legend(Look(overlays=frozenset(OVERLAYS)), 320, ("a",), marks=marks)
    assert plain.height < some.height < every.height  # rows are added as they are needed
    assert has(np.asarray(plain).astype(int), CONTACT) == 0
    assert has(np.asarray(some).astype(int), CONTACT) > 20
    assert has(np.asarray(every).astype(int), SENSOR_COLORS[0]) > 20


def test_springs_can_be_seen_on_dark_voxels():
    """The first material of the safe palette is dark blue, the second yellow."""
    row = replace(still(), springs=np.ones((6, 2), bool))
    bare = replace(row, springs=np.zeros((6, 2), bool))
    look = {"color_by": "material", "palette": "safe"}
    for material, lighter in ((0, True), (1, False)):
        alike = np.full(6, material)
        difference = painted(replace(row, material=alike), **look) - painted(replace(bare, material=alike), **look)
        assert (difference.max() > 40) == lighter
        assert (difference.min() < -40) != lighter


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, 3])
def test_springs_are_counted_as_those_that_break(dimension):
    """The force of a spring whose rest length is 0 is as large as its corners are apart."""
    corner = np.random.default_rng(0).normal(size=(dimension, *(2,) * dimension, *(1,) * dimension))
    tension = voxel_tensions(
        jnp.ones((dimension, *(1,) * dimension)), jnp.zeros((1,) * dimension), tuple(jnp.asarray(corner))
    )
    points = corner.reshape(dimension, -1)
    apart = [np.linalg.norm(points[:, b] - points[:, a]) for _, a, b in spring_corners(dimension)]
    np.testing.assert_allclose(of_classes(tension, dimension).ravel(), apart, rtol=1e-5)


def test_broken_springs_are_not_drawn(tmp_path):
    """An edge of the first voxel breaks between the two moments."""
    row = still(voxels=2)
    broken = np.zeros((2, 2, len(spring_corners(2))), bool)
    broken[1, 0, 3] = True
    torn = replace(row, broken=broken)
    lines = SpringLines(torn)
    whole, fewer = lines.at(0)[1], lines.at(1)[1]
    assert (len(whole), len(fewer)) == (12, 11)
    _, first, second = spring_corners(2)[3]
    gone = torn.masses[1, 0, [first, second]]
    assert any((line == gone).all() for line in whole)
    assert not any((line == gone).all() for line in fewer)
    assert SpringLines(torn.at(np.array([0.5]))).at(0)[1].shape == (12, 2, 2)
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page cannot be asked")
    packed = json.dumps({"packed": pack(streams_of(torn)), "part": torn.part.tolist(), "dimension": 2, "interval": 1.0})
    code = f"""
        const {{ unpack }} = require({json.dumps(str(ASSETS / "decode.js"))});
        const {{ RecordedRobot }} = require({json.dumps(str(ASSETS / "motion.js"))});
        const data = {{ ...{packed}, springs: {torn.springs.astype(int).tolist()},
          springOf: {json.dumps(torn.spring_ends)} }};
        unpack(data.packed).then((streams) => {{
          const robot = new RecordedRobot(data, streams), gone = ([a, b]) => a[0] === b[0] && a[1] === b[1];
          const found = [0, 0.5, 1].map((time) => robot.springEnds(robot.pose(time)).map(gone).indexOf(true));
          console.log(JSON.stringify(found));
        }});
    """
    write_text(tmp_path / "run.js", code)
    found = subprocess.run([node, tmp_path / "run.js"], capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == [-1, -1, 3]


@pytest.mark.parametrize("color", ["control", "strain", "material"])
def test_every_quantity_colors_voxels(color):
    row = still()
    stretched = replace(row, control=np.linspace(-1, 1, 6) * np.ones((2, 1)), position=row.position * [1.3, 1.0])
    assert len(np.unique(painted(stretched, color_by=color).reshape(-1, 3), axis=0)) > 10
    assert (painted(stretched, color_by=color) != painted(stretched)).any()


def test_ticks_are_round():
    assert [round_step(x) for x in (0.011, 1.0, 1.1, 3, 6, 70)] == pytest.approx([0.02, 1, 2, 5, 10, 100])


# The command


def test_sensor_values_of_robots_without_senses_are_refused(vsr, robot, tmp_path):
    result = vsr(robot, "--seconds", SECONDS, "--show", "sensors", "--out", tmp_path / "film.gif")
    assert result.exit_code == 2
    assert "--show sensors: this robot's controller reads none" in result.output
    assert not (tmp_path / "film.gif").exists()


@pytest.mark.parametrize("suffix", ["gif", "png", "html"])
def test_play_writes_one_file(vsr, robot, tmp_path, suffix):
    target = tmp_path / f"motion.{suffix}"
    result = vsr(robot, robot, "--seconds", SECONDS, "--out", target)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["robot.yaml", target.name])
    if suffix == "html":
        assert len(embedded(target.read_text())["robots"]) == 2
        return
    with Image.open(target) as image:
        if suffix == "gif":
            assert getattr(image, "n_frames", 1) > 8
            frames = []
            for moment in (0, 8):
                image.seek(moment)
                frames.append(np.asarray(image.convert("RGB")).astype(int))
        else:
            sheet = np.asarray(image.convert("RGB")).astype(int)
            frames = [sheet[:230, :300], sheet[:230, 300:600]]
            assert (sheet[230:460, :300] == sheet[:230, :300]).all()  # the same robot below
        assert (frames[0] != frames[1]).any(-1).mean() > 0.002


def test_without_out_a_page_is_named_after_the_robot(vsr, robot, tmp_path):
    assert vsr(robot, "--seconds", SECONDS).exit_code == 0
    assert (tmp_path / "robot.html").stat().st_size > 10_000


def test_mp4_needs_ffmpeg_and_says_how_to_get_it(vsr, robot, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    result = vsr(robot, "--out", "film.mp4")
    assert result.exit_code == 2
    assert "pip install 'voxel-soft-robots[video]'" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["robot.yaml"]


def test_mp4(vsr, robot, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    assert vsr(robot, "--seconds", SECONDS, "--out", "film.mp4").exit_code == 0
    assert (tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"


def make_run(folder, best="0.5", robot=SQUARES):
    """A finished run as `vsr evolve` leaves it, without having evolved; two seeds, the second the better."""
    for name in ("best", "lineage"):
        (folder / name).mkdir(parents=True)
    (folder / "config.yaml").write_text(TINY)
    put_meta(folder)
    rows = [
        {"generation": g, "seed": s, "best": None if best is None else s + 0.1 * g, "median": None, "failed": 0}
        for g in range(2)
        for s in range(2)
    ]
    put_statistics(folder, rows)
    genes = np.arange(8.0).reshape(2, 2, 2)
    arrays = {"best_genes.body": genes[..., :0], "best_genes.controller": genes}
    write_arrays(folder / "lineage" / "00000000.npz", arrays, {"first": 0, "count": 2})
    for seed in (0, 1) if best is not None else ():
        (folder / "best" / f"seed-{seed}.yaml").write_text(robot)
    return folder


def test_the_best_of_a_run_and_of_its_generations(tmp_path):
    run = make_run(tmp_path / "walk")
    (tmp_path / "other.yaml").write_text(SQUARES)
    assert [source.name for source in read_sources([str(run)])] == ["walk, seed 1"]
    assert [source.name for source in read_sources([str(run)], seed=0)] == ["walk, seed 0"]
    given = [str(run), str(tmp_path / "other.yaml")]
    early, late, other = read_sources(given, seed=1, generations=(0, 1, 0))
    assert (late.name, other.name) == ("walk, seed 1, generation 1", "other")
    assert late.scene.robot.controller.to_plain()["phase"] == [[6.0, 7.0]]
    assert early.name == "walk, seed 1, generation 0"
    assert early.scene.robot.controller.to_plain()["phase"] == [[4.0, 5.0]]


def test_of_a_run_the_best_that_is_kept_is_shown(tmp_path):
    """As its report does, though a seed of which nothing is kept was better."""
    run = make_run(tmp_path / "walk")
    assert read_sources([str(run)])[0].name == "walk, seed 1"
    (run / "best" / "seed-1.yaml").unlink()
    second = read_sources([str(run)])[0]
    assert second.name == "walk, seed 0"
    assert "of seed 1, which was better, that robot is not kept; seed 0 is shown" in second.warnings[0]


def test_robots_of_the_same_name_are_distinguished_by_their_folders(tmp_path):
    given = [
        make_run(tmp_path / "old" / "walk"),
        make_run(tmp_path / "new" / "walk"),
        make_run(tmp_path / "new" / "run"),
    ]
    names = [source.name for source in read_sources(list(map(str, [*given, given[0]])))]
    assert names == ["old/walk, seed 1", "new/walk, seed 1", "run, seed 1", "old/walk, seed 1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("robot.yaml", "--out", "motion.avi"), "the name should end in .html or .mp4 or .gif or .png"),
        (("robot.yaml", "--out", "nowhere/motion.gif"), "there is no folder nowhere"),
        (("absent.yaml",), "absent.yaml"),
        (("empty",), "not a run folder"),
        (("failed",), "has no best robot"),
        (("lost", "--seed", "1"), "looks for it in lineage/"),
        (("walk", "--seed", "7"), "there is no seed 7"),
        (("walk", "--generation", "9"), "there is no generation 9"),
        (("walk", "--generation", "0", "--generation", "9"), "there is no generation 9"),
        (("robot.yaml", "--seed", "0"), "this is no run folder"),
        (("robot.yaml", "robot.yaml", "--generation", "0"), "this is no run folder"),
        (("evolving.yaml",), "still to evolve"),
    ],
)
def test_errors_are_reported_in_a_line_and_leave_nothing(vsr, robot, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "evolving.yaml").write_text(TINY)
    make_run(tmp_path / "walk")
    make_run(tmp_path / "failed", best=None)
    for file in (make_run(tmp_path / "lost") / "best").iterdir():
        file.unlink()
    before = sorted(tmp_path.rglob("*"))
    result = vsr(*arguments, "--seconds", SECONDS)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_painter_that_breaks_leaves_nothing(vsr, robot, tmp_path, monkeypatch):
    def break_down(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", break_down)
    result = vsr(robot, "--seconds", SECONDS, "--out", "motion.png")
    assert result.exit_code == 2
    assert "motion.png: cannot be written: No space left on device" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["robot.yaml"]
