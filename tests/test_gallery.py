"""The gallery: its file, its page and the banner, with robots that were never simulated."""

import re

import pytest
from conftest import ROOT
from moving import moving_robot
from PIL import Image

from vsr.evidence import gallery
from vsr.experiments.config import load
from vsr.experiments.config.problems import UserError
from vsr.experiments.shipped import EXPERIMENT, find_config
from vsr.scene import Scene
from vsr.tasks import TASKS

FILE = ROOT / "docs" / "gallery" / "gallery.yaml"


@pytest.fixture
def moving(monkeypatch):
    """Robots that move without being simulated."""
    asked = []

    def record(source, seconds):
        asked.append((source.name, seconds))
        return moving_robot(source.name, squares=True, seconds=seconds)

    monkeypatch.setattr(gallery, "record_robot", record)
    return asked


def test_every_robot_of_the_gallery_is_there_and_its_experiment_too():
    described = gallery.read_gallery(FILE)
    for shown in (*described.banner.robots, *described.robots):
        assert isinstance(load(FILE.parent / shown.robot), Scene), shown.robot
    for tile in described.robots:
        command, name = re.fullmatch(r"vsr (evolve|train) (\S+)(?: --seed \d+)?", tile.command).groups()
        if command == "train":
            assert name in TASKS
        elif name.endswith(".yaml"):
            load(ROOT / name)
        else:
            find_config(name, EXPERIMENT)


def test_the_page_has_a_film_a_command_and_the_cost_of_each_robot(moving):
    whole = gallery.read_gallery(FILE)
    tiles = tuple(tile.model_copy(update={"seconds": 0.4}) for tile in whole.robots[:2])
    small = whole.model_copy(update={"robots": tiles, "panel": (120, 80)})
    page = gallery.page(small, FILE.parent)
    assert moving == [(tile.title, pytest.approx(tile.after + 0.4)) for tile in tiles]
    assert page.count("<article>") == 2
    assert page.count('src="data:image/webp;base64,UklGR') == 2  # RIFF, as WebP begins
    assert "http" not in page.replace("http-equiv", "")
    plain = page.replace("<wbr>", "")
    for tile in tiles:
        assert tile.command in plain
    assert "Relative velocity 0.1423 1/s; found by evaluation 1,392 of its run, 8 s each" in page
    assert "vsr play docs/gallery/first_walker.yaml" in plain


def test_every_tile_says_what_its_robot_cost():
    """A file of a run says it itself; of another robot the gallery must."""
    for tile in gallery.read_gallery(FILE).robots:
        assert tile.cost or "found by evaluation" in gallery.cost_of(FILE.parent / tile.robot), tile.title


def test_the_banner_shows_all_robots_side_by_side(moving, tmp_path):
    described = gallery.read_gallery(FILE)
    short = described.banner.model_copy(update={"seconds": 0.5})
    gallery.banner(described.model_copy(update={"banner": short}), FILE.parent, tmp_path / "banner.gif")
    drawn = Image.open(tmp_path / "banner.gif")
    width, height = described.banner.panel
    assert drawn.size == (len(described.banner.robots) * width, height)
    assert drawn.n_frames == 6


def test_an_experiment_is_no_robot(tmp_path):
    (tmp_path / "walk.yaml").write_text("kind: experiment\nrobot: {body: {shape: aa}, controller: sine}\n")
    with pytest.raises(UserError, match="still to evolve"):
        gallery.recorded(gallery.ShownRobot(robot="walk.yaml", title="walk"), tmp_path, 1.0)
