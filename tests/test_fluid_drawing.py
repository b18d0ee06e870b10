"""What is shown of chambers: recordings, colors, pictures, pages, reports and the words of `vsr simulate`."""

from dataclasses import replace
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from browser import changed, open_browser
from moving import moving_robot

from vsr.drawing.chambers import RecordedChambers, chambers_at_rest, pressure_scale
from vsr.drawing.colors import LIGHTNESS, QUANTITIES, rgb
from vsr.drawing.legend import legend
from vsr.drawing.painter import LEFT, SMALLER_STEPS, TOP, Look, Painter, SpringLines
from vsr.drawing.recording import at_rest
from vsr.experiments.config import parse_scene
from vsr.experiments.play.page import _data_of, page, unpack
from vsr.experiments.play.recordings import robot_from_trajectory
from vsr.experiments.report.charts import chambers_chart
from vsr.experiments.report.page import _chambers
from vsr.experiments.simulate import as_plain
from vsr.experiments.storage.files import write_text
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.points.springs import spring_corners
from vsr.robot import Body, Material
from vsr.robot.fluid import Fluid
from vsr.scene import simulate

LOWEST, HIGHEST = -500.0, 2000.0
SCENE = f"""
robot:
  body:
    shape: [aaaaaa, avvvwa, avvvaa, aaaaaa]
    engine: points
    voxel_side: 0.03
    materials:
      a: {{young_modulus: 2.0e+5, density: 1000}}
      w: {{young_modulus: 2.0e+5, density: 1000, fluid: {{pressure: [{LOWEST}, {HIGHEST}]}}}}
      v: {{young_modulus: 2.0e+5, density: 1000, fluid: {{pressure: [{LOWEST}, {HIGHEST}]}}}}
  controller: {{type: sine, frequency: 2.0}}
task: {{placement: {{clearance: 0.002}}, duration: 0.6}}
"""


@cache
def simulated():
    scene = parse_scene(SCENE)
    return scene, simulate(scene, keep_trajectory=True)


@cache
def robot():
    scene, outcome = simulated()
    return robot_from_trajectory("fluid", scene, outcome.model, outcome.trajectory)


def cube():
    """A body of 3 x 3 x 3 voxels around a chamber, at rest."""
    around, across = ("aaa",) * 3, ("aaa", "awa", "aaa")
    return Body(shape=(around, across, around), materials={"a": Material(), "w": Material(fluid=Fluid())})


def some(*pressures):
    """Chambers with these pressures at one moment."""
    many = len(pressures)
    return RecordedChambers(np.array([pressures]), np.ones((1, many)), np.ones(many), np.arange(many))


@pytest.mark.slow
def test_a_recording_knows_its_chambers():
    recording = robot().recording
    chambers = recording.chambers
    symbols = [robot().symbols[material] for material in recording.material]
    assert [symbols[voxel] for voxel in np.flatnonzero(chambers.chamber == 0)] == ["v"] * 6
    assert [symbols[voxel] for voxel in np.flatnonzero(chambers.chamber == 1)] == ["w"]
    assert chambers.is_fluid.sum() == 7
    assert chambers.rest_volume == pytest.approx([6 * 0.03**2, 0.03**2], rel=1e-5)
    control = recording.control[:, 0]
    driven = np.where(control < 0, -control * HIGHEST, control * LOWEST)
    np.testing.assert_allclose(chambers.pressure, np.stack([driven] * 2, 1), atol=0.5)
    inside = [recording.ratio[:, chambers.chamber == chamber].mean(1) for chamber in range(2)]
    np.testing.assert_allclose(chambers.volume, np.stack(inside, 1), rtol=2e-4)
    assert np.ptp(chambers.volume, axis=0).min() > 0.02


@pytest.mark.slow
def test_chambers_at_other_moments():
    recording = robot().recording
    between = recording.at((recording.time[:-1] + recording.time[1:]) / 2).chambers
    pressure, volume = recording.chambers.pressure, recording.chambers.volume
    np.testing.assert_allclose(between.pressure, (pressure[:-1] + pressure[1:]) / 2)
    np.testing.assert_allclose(between.volume, (volume[:-1] + volume[1:]) / 2)


def test_chambers_of_a_body_at_rest_are_those_of_its_recording():
    at_start = chambers_at_rest(simulated()[0].robot.body)
    np.testing.assert_array_equal(at_start.chamber, robot().recording.chambers.chamber)
    np.testing.assert_allclose(at_start.rest_volume, robot().recording.chambers.rest_volume, rtol=1e-5)
    assert chambers_at_rest(Body(shape=("aa",))) is None


def test_robots_without_fluid_have_none():
    model = assemble_body(Body(shape=("aa",)))
    engine = engine_of(model)
    assert engine.chambers(model, engine.rest_state(model), jnp.zeros((1, 2))) is None
    assert pressure_scale([None]) is None


def test_springs_of_fluid_are_only_in_membranes():
    recording = robot().recording
    drawn = SpringLines(recording).voxel
    assert sorted(drawn[recording.chambers.is_fluid[drawn]]) == [15, 16]  # one side each, between the two chambers
    materials = {"a": Material(), "w": Material(fluid=Fluid())}
    open_side = assemble_body(Body(shape=("aa", "wa"), engine="points", materials=materials))
    parts = engine_of(open_side).rigid_parts(open_side)
    ends = [{first, second} for _, first, second in spring_corners(2)]
    kept = [pair for pair, lacks in zip(ends, parts.lacking[0], strict=True) if not lacks]
    assert sorted(map(sorted, kept)) == [[0, 1], [0, 2]]  # below and at the left
    assert not parts.lacking[1:].any()


@pytest.mark.parametrize(
    ("pressures", "ends", "words"),
    [
        ((0.0, 812.0), (0.0, 820.0), "[Pa]"),
        ((0.0, -5.0, 3999.0), (0.0, 4000.0), "[kPa]"),
        ((-1500.0, 800.0), (-1500.0, 1500.0), "[kPa]"),
        ((0.0, 0.0), (0.0, 1.0), "[Pa]"),
    ],
)
def test_the_scale_of_pressures(pressures, ends, words):
    scale = pressure_scale([None, some(*pressures)])
    assert scale.ends == pytest.approx(ends)
    assert scale.name.endswith(words)
    light = scale.colors(np.linspace(*scale.ends, 200)) @ LIGHTNESS
    assert (np.diff(light) <= 0).all()
    assert light[0] - light[-1] > 100
    zero = scale.colors(np.zeros(1))[0]
    assert zero.tolist() == rgb(("#a9d2f3",))[0].tolist()


def test_chambers_are_filled_by_pressure_without_lines():
    recording = robot().recording
    wide = np.flatnonzero(recording.chambers.chamber == 0)
    scale = pressure_scale([recording.chambers])
    seen = set()
    for color_by in QUANTITIES:
        painter = Painter(recording, None, Look(color_by), title="", size=(640, 420))
        for moment in (4, 12, 15):
            image = np.asarray(painter.paint(moment)).astype(int)
            low = painter.camera[moment] - painter.view * [0.5, painter.below] / painter.pixels_per_meter
            middle = painter._pixels(recording.corners[moment][wide].mean(1), low) / SMALLER_STEPS + [LEFT, TOP]
            # across the sides that two voxels share
            ways = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (0, 4)]
            spots = np.concatenate([np.linspace(middle[one], middle[other], 50) for one, other in ways]).astype(int)
            inside = image[spots[:, 1], spots[:, 0]]
            if color_by == "material":
                expected = painter.colors[moment][wide[0]]
                assert expected.tolist() not in scale.colors(np.linspace(*scale.ends, 1000)).tolist()
            else:
                expected = scale.colors(recording.chambers.pressure[moment, :1])[0]
                seen.add(tuple(expected.tolist()))
            assert np.abs(inside - expected).max() <= 1
    assert len(seen) == 3


def test_chambers_are_seen_through_solid_faces():
    recording = at_rest(cube())
    full = replace(recording.chambers, pressure=np.full((1, 1), 900.0))
    painter = Painter(replace(recording, chambers=full), None, Look(), title="", size=(320, 240))
    fluid = painter.fluid_colors.colors(np.array([900.0]))[0]  # of its upper face, which is lit
    image = np.asarray(painter.paint(0)).astype(int)
    solid = np.asarray(Painter(replace(recording, chambers=None), None, Look(), title="", size=(320, 240)).paint(0))

    def pixels(picture):
        return int((np.abs(picture.astype(int) - fluid).max(-1) <= 2).sum())

    assert pixels(image) > 50
    assert pixels(solid) == 0
    at_rest_green = rgb(("#74c476",))[0]
    assert (np.abs(solid - at_rest_green).max(-1) <= 2).sum() > 500
    assert (np.abs(image - at_rest_green).max(-1) <= 2).sum() == 0  # paper shines through


def test_a_legend_has_a_row_for_fluid():
    plain, scale = legend(Look(), 320, ("a",)), pressure_scale([some(10.0)])
    assert legend(Look(), 320, ("a",), fluid=scale).height == 2 * plain.height
    assert legend(Look("material"), 320, ("a",), fluid=scale).height == plain.height


def test_pages_carry_pressures():
    data, chambers = _data_of(robot()), robot().recording.chambers
    streams = unpack(data["packed"])
    np.testing.assert_allclose(streams["pressure"][0], chambers.pressure[0], atol=2)
    assert np.abs(streams["pressure"]).max() == pytest.approx(HIGHEST, rel=0.02)
    assert data["chambers"]["count"] == 2
    assert len(data["chambers"]["walls"]) == 10 + 4
    amid = robot().recording.position[0, data["chambers"]["amid"]]
    assert amid.shape == (2, 2)  # in the middle of 3 x 2 voxels
    assert _data_of(moving_robot())["chambers"] is None


@pytest.mark.browser
@pytest.mark.full
def test_a_page_shows_pressures(tmp_path):
    file = tmp_path / "fluid.html"
    space = moving_robot("3-D", dimension=3, seconds=0.6)
    wet = replace(
        space.recording,
        chambers=RecordedChambers(
            pressure=np.linspace(0, 50, len(space.recording.time))[:, None],
            volume=np.ones((len(space.recording.time), 1)),
            rest_volume=np.ones(1),
            chamber=np.array([-1, 0, -1]),
        ),
    )
    write_text(file, page([robot(), replace(space, recording=wet)], Look()))
    with open_browser(tmp_path) as browser:
        shown = browser.open(file.as_uri(), width=1000, height=640)
        shown.wait_for("window.player && player.time > 0")
        shown.run("player.jump(10)")
        drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        shown.run(drawn)
        before = shown.picture()
        words = "chamberWords(player.robots[1], player.robots[1].pose(9), 0, player.shared.pressureScale)"
        assert shown.run(words) == "chamber 1: 0.05 kPa, volume 100 %"
        assert shown.run("document.getElementById('fluidMeaning').textContent") == "pressure of fluid [kPa]"
        assert shown.run("document.getElementById('fluidWords').textContent") == "-202"
        shown.click("[data-look=pressure]")
        shown.run(drawn)
        assert changed(before, shown.picture()) > 0.005
        shown.choose("#color", "material")
        assert shown.run("document.getElementById('fluidLegend').hidden")
        shown.check()


def test_reports_have_a_chart_of_chambers():
    chart = str(chambers_chart(robot().recording.time, robot().recording.chambers, "c"))
    for words in ("pressure [kPa]", "that at rest", "time [s]", "chamber 2"):
        assert words in chart
    assert "5.4 l, 900 cm³" in str(_chambers(robot(), 0))
    assert _chambers(moving_robot(), 0) is None


def test_simulate_tells_of_chambers():
    reported = as_plain(*simulated())["chambers"]
    assert [one["rest_volume_m3"] for one in reported] == pytest.approx([5.4e-3, 9e-4], rel=1e-4)
    for one in reported:
        assert one["pressure_pa"] == pytest.approx([LOWEST, HIGHEST], rel=0.02)
        assert one["volume_ratio"][0] < 1 < one["volume_ratio"][1]
