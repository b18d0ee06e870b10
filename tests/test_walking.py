"""3-D robots walk: those of configs/robots, all in one grid, so that one program serves them."""

import pytest
from conftest import ROOT

from vsr.experiments.config import load_scene
from vsr.scene import Scene, simulate

pytestmark = pytest.mark.slow  # test_motion_reference watches a second of their motion


def padded(levels, nothing):
    """Filled up to three levels of four rows of six."""
    rows = [[[*row, *[nothing] * (6 - len(row))] for row in level] for level in levels]
    rows = [[*level, *[[nothing] * 6] * (4 - len(level))] for level in rows]
    return [*[[[nothing] * 6] * 4] * (3 - len(rows)), *rows]


def walk(name, **controller):
    """Travel velocity [m/s] of a shipped robot, far from walls."""
    data = load_scene(ROOT / "vsr" / "configs" / "robots" / f"{name}.yaml").to_plain()
    shape = padded(data["robot"]["body"]["shape"], ".")
    data["robot"]["body"]["shape"] = [["".join(row) for row in level] for level in shape]
    data["robot"]["controller"]["phase"] = padded(data["robot"]["controller"]["phase"], None)
    data["robot"]["controller"].update(controller)
    data["task"].update(duration=4.0, placement={"left": 100.0, "clearance": 0.0})
    return simulate(Scene.model_validate(data)).measures["travel_velocity"]


@pytest.mark.parametrize("name", ["walking_worm", "walking_quadruped", "walking_box"])
def test_3d_robots_walk(name):
    """Half a meter a second or more, there or back with the wave; a robot that swells as one goes nowhere."""
    assert walk(name) > 0.25
    assert walk(name, frequency=-1.0) < -0.25
    assert abs(walk(name, phase=0.0)) < 0.02
