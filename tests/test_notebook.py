"""What notebooks show of robots, scenes, outcomes and runs; and that nothing there can break one."""

import html
import io
import sys
import types
import webbrowser
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from growing import add_generation, begin_run, put_best
from moving import moving_robot
from PIL import Image

import vsr
from vsr.drawing.colors import MATERIALS
from vsr.drawing.recording import at_rest, recording_of
from vsr.episode import Trajectory, reset
from vsr.experiments import notebook
from vsr.experiments.config import parse_scene
from vsr.experiments.evolve.display import Progress
from vsr.experiments.play import recordings
from vsr.experiments.plot.curves import curve_figure
from vsr.experiments.storage.runs import read_run
from vsr.physics.failure import Failure
from vsr.scene import Outcome

pytestmark = pytest.mark.usefixtures("quickly_compiled")

PLANE = """
robot: {body: {shape: ["ab", "a."], materials: {a: {}, b: {scaffolding: [side_external]}}}, controller: sine}
task: {duration: 0.4, placement: {clearance: 0.0}}
"""
SPACE = "robot: {body: {shape: [[ab], [a.]], materials: {a: {}, b: {}}}, controller: sine}\n"


@pytest.fixture(scope="module")
def outcome():
    """As `simulate` makes it, of a robot that slides a meter; compiling a real episode takes long."""
    scene = parse_scene(PLANE)
    scenario, _ = scene.build()
    model, state = scenario.model, reset(jax.random.key(0), scenario).world.robots[0]
    later = replace(state, position=state.position + jnp.array([1.0, 0.0]))
    states = jax.tree.map(lambda *moments: jnp.stack(moments), state, later)
    trajectory = Trajectory(jnp.array([0.0, 0.4]), states, jnp.zeros((2, *model.present.shape)))
    return Outcome({"travel_velocity": 2.5}, Failure.none, scene.schedule(), trajectory, model, scene)


def picture(data):
    image = Image.open(io.BytesIO(data))
    assert image.format == "PNG"
    return np.asarray(image.convert("RGB")).astype(int)


def pixels(image, color):
    target = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return (np.abs(image - target).max(-1) < 8).sum()


@pytest.mark.parametrize("text", [PLANE, SPACE], ids=["plane", "space"])
def test_robots_are_drawn_in_the_colors_of_their_materials(text):
    scene = parse_scene(text)
    image = picture(scene.robot.body._repr_png_())
    assert all(pixels(image, color) > 100 for color in MATERIALS["original"][:2])
    assert pixels(image, MATERIALS["original"][2]) == 0
    assert scene.robot._repr_png_() == scene._repr_png_() == scene.robot.body._repr_png_()
    assert "<th" in scene.robot._repr_html_()
    assert "controller" not in scene.robot.body._repr_html_()
    for shown in (scene.robot.body, scene):
        assert "data:image/png;base64," in shown._repr_html_()
        assert "a, b" in shown._repr_html_()
    assert "sine" in scene._repr_html_()
    assert "flat" in scene._repr_html_()


def test_a_body_at_rest_is_where_its_episode_begins(outcome):
    """Up to where it is put, and without any simulation."""
    scene = outcome.scene
    begun = recording_of(outcome.model, outcome.trajectory, scene.world.build(), scene.robot.body.cells)
    rest = at_rest(scene.robot.body)
    np.testing.assert_allclose(
        rest.corners[0] - rest.corners[0].min((0, 1)), begun.corners[0] - begun.corners[0].min((0, 1)), atol=1e-4
    )
    assert (rest.springs == begun.springs).all()
    assert (rest.place == begun.place).all()
    assert (rest.material == begun.material).all()
    np.testing.assert_allclose(rest.half_side, begun.half_side, rtol=1e-6)


def test_outcomes_show_moments_if_they_were_kept(outcome):
    image = picture(outcome._repr_png_())
    first, last = image[:200, :260], image[:200, -260:]
    assert (first != last).any(-1).mean() > 0.005
    text = outcome._repr_html_()
    assert "data:image/png;base64," in text
    assert "travel_velocity" in text
    assert "[m/s]" in text


def test_outcomes_without_a_trajectory_show_numbers(outcome):
    bare = replace(outcome, trajectory=None, model=None, failure=Failure.exploded)
    assert bare._repr_png_() is None
    text = bare._repr_html_()
    assert "data:image" not in text
    assert ">2.5<" in text
    assert "exploded" in text


def test_runs_show_their_curve(tmp_path):
    path = begin_run(tmp_path / "walk & <run>")
    for generation in range(3):
        add_generation(path, generation)
    run = read_run(path)
    image = picture(run._repr_png_())
    assert len(np.unique(image @ [65536, 256, 1])) > 20
    text = run._repr_html_()
    assert "3 of 5" in text
    assert "1.3 (seed 1)" in text
    assert "best relative velocity [1/s]" in text
    assert "walk &amp; &lt;run&gt;" in text
    assert (np.mod(curve_figure([run]).axes[0].get_xticks(), 1) == 0).all()  # generations are whole


def test_what_cannot_be_drawn_leaves_the_text(outcome, tmp_path):
    path = begin_run(tmp_path / "walk")
    add_generation(path, 0, best=[None, None], failed=6)
    assert "none (seed 0)" in read_run(path)._repr_html_()  # a run whose robots all failed
    broken = replace(outcome, model="no model")
    assert broken._repr_png_() is None
    assert "travel_velocity" in broken._repr_html_()
    assert replace(outcome, measures=None)._repr_html_() is None
    unsound = vsr.Body.model_construct(shape=None)
    assert unsound._repr_png_() is unsound._repr_html_() is None


# Players and live panels


class Output:
    """A place in a notebook."""

    def __init__(self):
        self.shown = []

    def update(self, something):
        self.shown.append(something._repr_html_())


@pytest.fixture
def kernel(monkeypatch):
    """As in a notebook."""
    fake = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=None))
    monkeypatch.setitem(sys.modules, "IPython", fake)


def test_an_outcome_is_played_inline(outcome, kernel, tmp_path):
    player = outcome.show()
    page = player.save(tmp_path / "robot.html").read_text()
    assert page == player.html
    assert 'id="robots"' in page
    inline = player._repr_html_()
    assert inline.startswith("<iframe srcdoc=")
    assert html.unescape(inline.split('"')[1]) == page


def test_without_a_notebook_a_player_opens_in_a_browser(outcome, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    player = outcome.show()
    (address,) = opened
    assert Path(address.removeprefix("file://")).read_text() == player.html


def test_robots_scenes_and_runs_are_shown_by_simulating_them(monkeypatch, kernel, tmp_path):
    played = []

    def record(source, seconds):
        played.append((source.name, source.scene.robot, seconds))
        return moving_robot(source.name, squares=True, seconds=1.0)

    monkeypatch.setattr(recordings, "record_robot", record)
    scene = parse_scene(PLANE)
    scene.show()
    scene.show(seconds=2)
    scene.robot.show()
    assert played == [("robot", scene.robot, 0.4), ("robot", scene.robot, 2), ("robot", scene.robot, 10.0)]
    run = begin_run(tmp_path / "walk")
    add_generation(run, 0)
    put_best(run, 1, 4)
    read_run(run).show(seconds=3)
    assert played[-1][0] == "walk, the best"
    assert played[-1][2] == 3


def test_a_live_panel_shows_progress_the_curve_and_the_best_robot(monkeypatch, tmp_path):
    monkeypatch.setattr(notebook, "play_scene", lambda scene, seconds, name: notebook.Player(name, f"moving {name}"))
    run = begin_run(tmp_path / "walk")
    add_generation(run, 0)
    experiment = read_run(run).experiment
    panel, robot = Output(), Output()
    live = notebook.LivePanel(experiment, run, (panel, robot))
    live.say("compiling <fast>")
    assert "compiling &lt;fast&gt;" in panel.shown[-1]
    for generation in range(2):
        live.show(Progress(generation, np.array([0.1, 0.2 + generation]), np.array([0.0, 0.1]), 0, 0.5))
    assert "<polyline" in panel.shown[-1]
    assert "0.2 to 1.2" in panel.shown[-1]
    assert "2 of 5" in panel.shown[-1]
    assert not robot.shown  # best/ has none yet
    put_best(run, 1, 4)
    live.close()
    put_best(run, 0, 4)  # of the seed that is behind
    live.close()
    assert len(robot.shown) == 1  # and not again
    assert "moving seed-1" in robot.shown[0]
