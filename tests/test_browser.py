"""Pages in a real browser: they play, obey, show something that changes, report no error and ask for nothing."""

import itertools
import threading
import time

import numpy as np
import pytest
from browser import changed, colors, open_browser
from growing import add_generation, begin_run, put_best
from moving import moving_robot
from test_report import make_run

from vsr.drawing.painter import Look
from vsr.experiments.design.command import FIRST
from vsr.experiments.design.documents import read
from vsr.experiments.design.server import DesignServer
from vsr.experiments.play.page import page as viewer
from vsr.experiments.report import page as reports
from vsr.experiments.report.command import write_report
from vsr.experiments.storage.files import write_text
from vsr.experiments.storage.runs import read_run
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait
from vsr.experiments.watch.server import open_server

pytestmark = pytest.mark.browser

SECONDS = 30.0
"""Long enough that no episode ends while a slow computer takes pictures of it."""
SPACE_BAR, END, HOME, LEFT, UP, RIGHT, DOWN = 32, 35, 36, 37, 38, 39, 40


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pages as `vsr play` writes them, by what they show."""
    folder = tmp_path_factory.mktemp("pages")
    plane = moving_robot("2-D", squares=True, seconds=SECONDS)
    space = moving_robot("3-D", dimension=3, seconds=SECONDS)
    points = moving_robot("points", seconds=2.0)
    for name, robots in {"plane": [plane], "space": [space], "many": [plane, space, points] * 2}.items():
        write_text(folder / f"{name}.html", viewer(robots, Look()))
    return folder


@pytest.fixture
def show(browser, files):
    """Open a page by its name, wait until it plays; at the end, hold it against what pages may do."""
    opened = []

    def work(name, **window):
        page = browser.open((files / f"{name}.html").as_uri(), **window)
        opened.append(page)
        page.wait_for("window.player && player.time > 0")
        return page

    yield work
    for page in opened:
        page.check()
        page.close()


def materialize(page):
    """Wait until what was asked for is drawn."""
    page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def look(page):
    materialize(page)
    return page.picture()


def stage_of(page):
    """The rows of pixels that robots are drawn in."""
    return slice(0, int(page.run("document.getElementById('stage').clientHeight")))


def pause(page):
    page.click("#play")
    page.wait_for("!player.playing")
    materialize(page)


@pytest.mark.parametrize(
    "name", [pytest.param("plane", marks=pytest.mark.full), "space", pytest.param("many", marks=pytest.mark.full)]
)
def test_a_page_plays_and_pauses(show, name):
    page = show(name)
    first, began = look(page), page.run("player.time")
    page.wait_for(f"player.time > {began} + 0.1")
    second = look(page)
    assert min(colors(first), colors(second)) > 50
    assert changed(first, second) > 0.002
    pause(page)
    assert page.run("document.getElementById('play').textContent") == "Play"
    still = look(page)
    time.sleep(0.15)  # frames go by, and none may differ
    assert changed(still, look(page)) == 0
    page.click("#play")
    page.wait_for(f"player.playing && player.time > {began}")


@pytest.mark.parametrize("name", ["plane", pytest.param("space", marks=pytest.mark.full)])
def test_time_is_scrubbed_and_stepped(show, name):
    page = show(name)
    pause(page)
    start = look(page)
    page.drag("#scrub", (120, 0))
    there = page.run("player.time")
    assert there > 2.0
    assert page.run("document.getElementById('time').textContent").startswith(f"{there:.2f} of {SECONDS:.2f} s")
    assert changed(start, look(page)) > 0.002
    before = look(page)
    page.press("ArrowRight", code=RIGHT)
    assert page.run("player.time") == pytest.approx(there + 1 / 30, abs=1e-6)
    assert changed(before, look(page)) > 0
    page.press("ArrowLeft", code=LEFT, shift=True)
    assert page.run("player.time") == pytest.approx(there + 1 / 30 - 1, abs=1e-6)
    page.press("End", code=END)
    assert page.run("player.time") == pytest.approx(SECONDS)
    page.press("Home", code=HOME)
    assert page.run("player.time") == 0
    page.press("ArrowUp", code=UP)
    assert page.run("[player.speed, document.getElementById('speed').value]") == [2, "2"]
    page.press("ArrowDown", code=DOWN)
    page.press(" ", code=SPACE_BAR)
    page.wait_for("player.playing && player.time > 0")


@pytest.mark.parametrize("name", ["plane", pytest.param("space", marks=pytest.mark.full)])
def test_overlays_are_switched(show, name):
    page = show(name)
    page.press("End", code=END)
    page.run("document.getElementById('marks').style.display = 'none'")  # which would take room from the robots
    before, stage = look(page), stage_of(page)
    for overlay in ("masses", "springs", "control", "contact", "velocity", "sensors", "path"):
        page.click(f"[data-look={overlay}]")
        assert changed(before[stage], look(page)[stage]) > 0.0002, overlay
        page.click(f"[data-look={overlay}]")
        assert changed(before[stage], look(page)[stage]) == 0, overlay


def test_overlays_are_switched_by_keys_alone(show):
    """The space bar is for playing, but not where somebody has come to a box by keys."""
    page = show("plane")
    pause(page)
    for part in ("[data-look=path]", "label:has([data-look=velocity])"):
        page.click(part)
        page.wait_for("document.activeElement === document.body")
        page.press(" ", code=SPACE_BAR)
        page.wait_for("player.playing && player.look.path")
        pause(page)
    page.run("document.querySelector('[data-look=path]').focus()")
    page.press(" ", code=SPACE_BAR)
    assert page.run("[player.playing, player.look.path]") == [False, False]


def test_overlays_are_explained(show):
    page = show("plane")
    shown = "document.getElementById('marks').textContent"
    assert page.run(shown) == ""
    page.click("[data-look=contact]")
    assert page.run(shown) == "● touches the ground"
    page.click("[data-look=sensors]")
    assert page.run(shown).endswith("▮ area ratio: 1 ± 0.2▮ velocity x: ±1 m/s")


@pytest.mark.full
def test_masses_of_2d_robots_alone_can_be_had_again(show):
    """On a page with robots of both kinds: those of 2-D robots, all, none, and those of 2-D robots again."""
    page = show("many")
    box = "(({ checked, indeterminate }) => [checked, indeterminate])(document.querySelector('[data-look=masses]'))"
    seen = [(page.run("player.look.masses"), page.run(box))]
    for _ in range(3):
        page.click("[data-look=masses]")
        seen.append((page.run("player.look.masses"), page.run(box)))
    half = ("2d", [False, True])
    assert seen == [half, (True, [True, False]), (False, [False, False]), half]


@pytest.mark.parametrize("name", ["plane", pytest.param("space", marks=pytest.mark.full)])
def test_colors_are_chosen(show, name):
    page = show(name)
    page.press("End", code=END)
    seen = [look(page)]
    for selector, value in [
        ("#color", "control"),
        ("#color", "strain"),
        ("#color", "material"),
        ("#palette", "safe"),
    ]:
        page.choose(selector, value)
        seen.append(look(page))
    stage = stage_of(page)
    for before, after in itertools.pairwise(seen):
        assert changed(before[stage], after[stage]) > 0.002
    assert page.run("document.getElementById('words').textContent") == "ab"


def test_3d_robots_are_turned_and_come_near(show):
    page = show("space")
    page.press("Home", code=HOME)
    first, azimuth = look(page), page.run("player.look.orbit.azimuth")
    page.drag("#stage", (120, 40))
    assert page.run("player.look.orbit.azimuth") == pytest.approx(azimuth - 120 * 0.008)
    turned = look(page)
    assert changed(first, turned) > 0.02
    page.wheel("#stage", -400)
    page.wait_for("player.look.zoom > 1.2")
    assert changed(turned, look(page)) > 0.02
    page.click("#stage", times=2)
    page.wait_for("player.look.zoom === 1")
    assert changed(first, look(page)) == 0


def test_2d_robots_come_near(show):
    page = show("plane")
    page.press("Home", code=HOME)
    first = look(page)
    page.wheel("#stage", 400)
    page.wait_for("player.look.zoom < 0.8")
    assert changed(first, look(page)) > 0.02


@pytest.mark.parametrize("name", ["plane", "space", pytest.param("many", marks=pytest.mark.full)])
def test_pages_fit_phones_and_follow_the_scheme(show, name):
    page = show(name, width=390, height=760)
    pause(page)
    light = look(page)
    assert page.run("document.documentElement.scrollWidth") <= 390
    rights = (
        "[...document.querySelectorAll('button, select, input, label')].map((e) => e.getBoundingClientRect().right)"
    )
    assert max(page.run(rights)) <= 390
    assert page.run("document.getElementById('scroll').clientHeight") > 300  # the robot has most of the room
    assert colors(light) > 50
    page.prefer("dark")
    dark = look(page)
    assert light[-1].min() > 200  # the panel of controls
    assert dark[-1].max() < 60
    assert np.mean(light) - np.mean(dark) > 40
    assert colors(dark) > 50


# Following a run


@pytest.fixture
def served(tmp_path):
    """A run that has begun, followed by a server."""
    follower = Follower(begin_run(tmp_path / "walk"))
    portrait = Portrait(follower, 1.0, simulate=lambda source, _: moving_robot(source.name, squares=True))
    with open_server(0, follower, portrait) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


TEXT = "document.getElementById('{}').textContent"
ROBOT_PLAYS = "(window[0]?.player?.time > 0) && document.querySelectorAll('iframe').length === 1"


@pytest.mark.slow
def test_the_watch_page_follows_a_run(browser, served):
    run = served.follower.path
    page = browser.open(served.address, width=1000, height=760)
    page.wait_for(f"{TEXT.format('state')} === 'waiting for the first generation'")
    empty = look(page)
    for generation in range(3):
        add_generation(run, generation)
    page.wait_for(f"{TEXT.format('generation')}.startsWith('3 of 5')")
    assert page.run(TEXT.format("best")).startswith("1.3 1/s")
    assert page.run(TEXT.format("speed")) == "2414.4 robot-seconds/s"  # of 24 evaluations, of 0.6 s each
    assert page.run(TEXT.format("left")) == "1 s0.5 s a generation"
    assert page.run(TEXT.format("fitness")) == "Fitness: relative velocity [1/s], more is better"
    curve = look(page)
    assert changed(empty, curve) > 0.01
    assert colors(curve) > 50
    put_best(run, 1, 4)
    assert served.portrait.look()
    page.wait_for(ROBOT_PLAYS)
    robot = page.run(
        "(() => { const b = document.getElementById('robot').getBoundingClientRect(); "
        "return [b.x, b.y, b.right, b.bottom].map(Math.round); })()"
    )
    left, top, right, bottom = robot
    first, began = look(page), page.run("window[0].player.time")
    page.wait_for(f"Math.abs(window[0].player.time - {began}) > 0.1")
    assert changed(first[top:bottom, left:right], look(page)[top:bottom, left:right]) > 0.002
    put_best(run, 1, 7, value=0.6)
    assert served.portrait.look()
    page.wait_for(f"{TEXT.format('caption')}.includes('individual 7')")
    page.wait_for(f"{ROBOT_PLAYS} && document.querySelector('iframe').src.endsWith('version=2')")
    add_generation(run, 3)
    add_generation(run, 4)
    page.wait_for(f"{TEXT.format('state')} === 'finished'")
    assert page.run(TEXT.format("speed-name")) == "evaluations per second were"
    assert page.run(TEXT.format("speed")) == "24on average; 14.4 robot-seconds/s"
    assert page.run(TEXT.format("left")) == "2.5 s0.5 s a generation on average"
    assert changed(curve[:, :left], look(page)[:, :left]) > 0.005
    page.check(lambda address: address.startswith(served.address))
    page.close()


def test_the_watch_page_fits_phones_and_says_when_it_is_alone(browser, served):
    for generation in range(3):
        add_generation(served.follower.path, generation)
    page = browser.open(served.address, width=390, height=760)
    page.wait_for("watch.curve.curves")
    light = look(page)
    assert page.run("document.documentElement.scrollWidth") <= 390
    page.click("#curve")
    assert page.run(TEXT.format("readout")).startswith("generation 1: best 0.7 1/s (0.2 to 1.2), ")
    page.prefer("dark")
    dark = look(page)
    assert np.mean(light) > 200
    assert np.mean(dark) < 60
    page.check(lambda address: address.startswith(served.address))
    served.shutdown()
    served.server_close()
    page.wait_for(f"{TEXT.format('state')} === 'no connection'")
    assert "cannot read" in page.run(TEXT.format("note"))
    page.close()


# Reports


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 2], ids=["one run", "two runs"])
def test_reports_are_read_wide_and_narrow_in_light_and_dark(browser, tmp_path, monkeypatch, runs):
    monkeypatch.setattr(
        reports, "record_robot", lambda source, _: moving_robot(source.name, squares=True, seconds=SECONDS)
    )
    folders = [make_run(tmp_path / f"walk-{number}") for number in range(runs)]
    write_report([read_run(folder) for folder in folders], tmp_path / "report.html")
    page = browser.open((tmp_path / "report.html").as_uri(), width=1000, height=700)
    light = look(page)
    assert colors(light) > 50
    assert page.run("document.documentElement.scrollWidth") <= 1000
    page.run("document.querySelector('iframe').scrollIntoView({ block: 'center' })")
    page.wait_for("window[0]?.player?.time > 0")
    first, began = look(page), page.run("window[0].player.time")
    page.wait_for(f"window[0].player.time > {began} + 0.1")
    assert changed(first, look(page)) > 0.001
    box = page.run(
        "(() => { const b = document.querySelector('iframe').getBoundingClientRect(); return [b.x, b.y]; })()"
    )
    button = page.run("(() => { const b = window[0].play.getBoundingClientRect(); return [b.x + 9, b.y + 9]; })()")
    page.click_at(box[0] + button[0], box[1] + button[1])
    page.wait_for("!window[0].player.playing")
    materialize(page)
    still = look(page)
    assert changed(still, look(page)) == 0
    page.resize(390, 760)
    page.run("scrollTo(0, 0)")
    narrow = look(page)
    assert page.run("document.documentElement.scrollWidth") <= 390
    wide = "[...document.querySelectorAll('.wide, pre')].filter((e) => e.scrollWidth > e.clientWidth)"
    assert page.run(f"{wide}.map((e) => e.textContent)") == []  # no table or command is cut off
    page.prefer("dark")
    dark = look(page)
    assert np.mean(narrow) > 200
    assert np.mean(dark) < 80
    assert colors(dark) > 50
    page.check()
    page.close()


# The checks themselves


def test_what_a_page_must_not_do_is_noticed(browser, tmp_path):
    fetching = "<img src='http://vsr.invalid/spy.png'>"
    write_text(tmp_path / "fetch.html", f"<title>x</title>{fetching}<script>console.error('no')</script>")
    page = browser.open((tmp_path / "fetch.html").as_uri())
    page.wait_for("document.images[0].complete")
    with pytest.raises(AssertionError, match="no"):
        page.check()
    page.errors.clear()
    with pytest.raises(AssertionError, match=r"spy\.png"):
        page.check()
    write_text(tmp_path / "frame.html", f'<iframe sandbox="allow-scripts" srcdoc="{fetching}"></iframe>')
    page = browser.open((tmp_path / "frame.html").as_uri())
    page.errors.clear()
    with pytest.raises(AssertionError, match=r"spy\.png|NOT_RESOLVED"):
        page.check()


# vsr design


@pytest.fixture
def board(browser):
    """The designer, with robots that were never simulated; at the end, hold it against what pages may do."""

    def simulate(source, seconds):
        played.append(source.scene.robot.body.shape)
        return moving_robot(source.name, squares=True, seconds=seconds)

    played = []
    with DesignServer(0, read(FIRST), simulate) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        page = browser.open(server.address, width=1200, height=900)
        page.wait_for("document.querySelectorAll('.cell.full').length === 7")
        yield page, played
        page.check()
        page.close()
        server.shutdown()


CELL = "[data-row='{}'][data-column='{}']"
SETTLED = (
    "!document.querySelector('#play').disabled && document.querySelector('#status').textContent.includes('simulated')"
)


def test_a_robot_is_drawn_played_refused_and_saved(board):
    page, played = board
    page.click(CELL.format(1, 2))  # with the mouse: a voxel where none was
    page.drag(CELL.format(0, 0), (66.0, 0.0))  # from a voxel of the chosen material: erased along the way
    page.press("ArrowDown", code=DOWN)
    page.press("r", code=82)  # with keys: a stiff voxel below
    page.click("#play")
    page.wait_for(SETTLED)
    assert played == [("..aaa", "r.a.a")]
    assert page.run("document.querySelector('#robot iframe').src").endswith("robot.html?1")
    page.wait_for(ROBOT_PLAYS)
    page.click("#save")
    page.wait_for("document.querySelector('#status').textContent.includes('vsr play robot.yaml')")
    page.click("#save-experiment")
    page.wait_for("document.querySelector('#status').textContent.includes('vsr evolve experiment.yaml')")
    page.click("#clear")
    page.click("#play")
    page.wait_for("!document.querySelector('#problems').hidden")
    assert "no voxel" in page.run("document.querySelector('#problems').textContent")
    page.click("#undo")
    assert page.run("document.querySelector('#problems').hidden")
    assert page.run("document.querySelectorAll('.cell.full').length") == 6
    assert len(played) == 1


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_designer_fits_and_follows_the_colors_of_the_system(board, width, scheme):
    page, _ = board
    page.resize(width, 900)
    page.prefer(scheme)
    page.choose("#dimension", "3")
    assert page.run("document.querySelector('#engine').value") == "points"
    assert page.run("document.querySelectorAll('#level option').length") == 2
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    paper = page.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in paper[4:-1].split(",")) > 384) == (scheme == "light")
