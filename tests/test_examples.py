"""Every example, small, keeps the promise that it makes."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import sys

import pytest
from conftest import ROOT

FOLDER = ROOT / "examples"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.stem != "command_line")


@pytest.fixture(autouse=True)
def _examples(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


def example(name: str):
    return importlib.import_module(name).main


@pytest.mark.full
def test_a_bouncing_lattice_gains_no_energy_and_comes_to_rest():
    bouncing = example("bouncing_lattice")
    free = bouncing(nodes=3, seconds=0.4, height=0.1, grid=False, samples=8)
    assert free["largest gain [J]"] < 1e-4 * free["energy at first [J]"]
    assert free["energy at last [J]"] < free["energy at first [J]"]
    calm = bouncing(nodes=5, seconds=0.6, height=0.05, grid=False, samples=4, damping_time=0.01)
    assert calm["kinetic energy at last [J]"] < 1e-4
    assert calm["lowest node [m]"] == pytest.approx(0, abs=1e-5)
    # So few nodes, and whole masses at the surface: 4 nodes a side are 63 % off, 5 are 30 %, 10 are 3 %.
    assert calm["shorter by, at last [mm]"] == pytest.approx(calm["a block at rest: by [mm]"], rel=0.35)


def test_the_worm_crawls_with_the_wave_but_not_without_friction():
    crawl = example("worm")
    speed = "speed after that [m/s]"
    assert crawl(length=8, width=2, seconds=2.0, grid=False)[speed] > 0.05
    assert abs(crawl(length=8, width=2, seconds=2.0, grid=False, friction=0.0)[speed]) < 1e-4
    # All at once: both ends are alike.
    assert abs(crawl(length=8, width=2, seconds=2.0, grid=False, wave_speed=1e9)[speed]) < 0.01


@pytest.mark.full
def test_worms_differ_in_one_call():
    numbers = example("hundred_worms")(worms=6, length=6, seconds=1.0)
    assert numbers["mean speed with friction [m/s]"] > 0.02
    assert numbers["largest speed without friction [m/s]"] < 1e-4


@pytest.mark.full
def test_the_swarm_moves_and_stays_together():
    numbers = example("swarm")(columns=3, rows=1, nodes=2, seconds=1.0)
    assert numbers["the slowest cube moved [m]"] > 0.02
    assert numbers["out of place [m]"] < 0.05


@pytest.mark.full
def test_slopes_are_those_of_finite_differences():
    numbers = example("gradients")(gaits=2, settle=0.5, windows="0.3")
    assert numbers["0.3 s: slope, median [m/rad]"] > 1e-3
    assert numbers["0.3 s: relative error, median"] < 1e-4


@pytest.mark.full
def test_the_cantilever_loses_more_material_than_stiffness():
    optimize = example("topology")
    careful, careless = (
        optimize(columns=9, rows=3, stages=4, share=0.06, chosen=how) for how in ("least stressed", "random")
    )
    assert careful["material saved"] > 0.15
    assert careful["stiffness lost"] < 0.5 * careful["material saved"]
    assert careful["stiffness lost"] < careless["stiffness lost"]
    assert careful["tip hangs by [m]"] == pytest.approx(careful["by statics, if little [m]"], rel=0.02)
    assert careful["edits refused"] == 0


@pytest.mark.full
def test_machines_work_and_are_drawn(tmp_path):
    work, picture = example("machines"), tmp_path / "dozer.png"
    dozer = work(machine="bulldozing", grains=60, seconds=2.0, out=str(picture))
    assert dozer["failure"] == 0
    assert dozer["moved on the mean [m]"] > 0.1
    assert dozer["strongest force on a body [N]"] > 10
    assert picture.exists()
    assert work(machine="gear_tower", grains=120, seconds=1.2)["went through"] > 5
    with pytest.raises(SystemExit, match="one of bulldozing"):
        work(machine="crane")


@pytest.mark.full
def test_one_policy_learns_to_walk_with_many_bodies(tmp_path):
    picture = tmp_path / "curve.png"
    numbers = example("train_walkers")(bodies=24, generations=8, steps=40, out=str(picture))
    assert numbers["best"] > numbers["first"]
    assert picture.stat().st_size > 1000


def test_winners_are_counted_and_drawn(tmp_path):
    picture = tmp_path / "winners.png"
    numbers = example("winners")(results=str(ROOT / "docs" / "results"), picture=str(picture))
    assert numbers["winners"] == 120
    assert numbers["more than 10 % above"] < numbers["more than 3 % above"] < numbers["winners"]
    assert picture.stat().st_size > 1000


def test_every_example_is_tested():
    assert {path.stem for path in SCRIPTS} == {
        "bouncing_lattice",
        "worm",
        "hundred_worms",
        "swarm",
        "topology",
        "machines",
        "train_walkers",
        "gradients",
        "winners",
    }


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_example_has_a_command_line_with_the_options_that_it_promises(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0
    offered = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    assert offered >= {f"--{name.replace('_', '-')}" for name in inspect.signature(example(path.stem)).parameters}
    promised = re.search(rf"python examples/{path.name}(.*)", inspect.getmodule(example(path.stem)).__doc__)
    assert promised is not None
    assert set(re.findall(r"--[a-z][a-z-]*", promised.group(1))) <= offered
