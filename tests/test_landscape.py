"""Landscapes: bodies counted against brute force, parts that go on after a kill, tables that are asked."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from conftest import ROOT

from vsr.arrays import read_arrays
from vsr.cli import main
from vsr.evo import Evaluation
from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.evolve.fitness import FRESH
from vsr.experiments.landscape import table as table_module
from vsr.experiments.landscape.plot import shares
from vsr.experiments.landscape.spec import (
    Landscape,
    cells_of,
    code_of,
    every_body,
    is_connected,
    load_landscape,
    number_of,
    read_code,
)
from vsr.experiments.landscape.table import BodyResults, Folder, read_table
from vsr.experiments.perturbation import EvaluationOptions, perturbations_of
from vsr.experiments.storage.files import write_arrays

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SHIPPED = ROOT / "vsr" / "configs" / "landscape"
SMALL = """
kind: landscape
robot:
  body:
    type: voxel_kinds
    grid: [2, 2]
    materials: {s: {spring_frequency: 5}, a: {}}
  controller: {type: sine, passive: [s], frequencies: [0.5, 2.0]}
tries: 3
rounds: 2
least_active: 2
bodies_at_once: 4
trials: 3
task: {duration: 0.6, placement: {clearance: 0.0}}
"""


def vsr(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def file(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path / "small.yaml"


@pytest.fixture
def table(tmp_path, file):
    """A folder with half of its bodies, as if they had been tried: the more voxels the faster, one failed."""
    landscape = load_landscape(file)
    folder = Folder(tmp_path / "made", landscape)
    folder.begin()
    numbers, genes = landscape.bodies(), landscape.robot.controller.gene_count(landscape.robot.body)
    for part in range(2):
        own = numbers[4 * part : 4 * part + 4]
        fitness = (cells_of(own, (2, 2), 2) >= 0).sum((1, 2)) + own / 1000
        found = BodyResults(fitness, fitness / 2, np.tile(own[:, None], genes) / 10, np.zeros(4, int))
        folder.write(part, own, found)
    folder.write_table()
    return tmp_path / "made"


# Bodies


def bodies_by_hand(shape, active, least_active):
    """Pictures of all fillings, moved to the corner, that hang together."""
    found = set()
    for filling in itertools.product(range(-1, len(active)), repeat=shape[0] * shape[1]):
        cells = np.array(filling).reshape(shape)
        if not is_connected(cells >= 0) or sum(kind >= 0 and active[kind] for kind in filling) < least_active:
            continue
        while (cells[0] < 0).all():
            cells = np.roll(cells, -1, 0)
        while (cells[:, 0] < 0).all():
            cells = np.roll(cells, -1, 1)
        found.add(cells.tobytes())
    return found


@pytest.mark.parametrize(("shape", "active", "least"), [((2, 2), (False, True), 2), ((2, 3), (True, False), 1)])
def test_bodies_are_all_there_are_each_once(shape, active, least):
    numbers = every_body(shape, active, least)
    cells = cells_of(numbers, shape, len(active))
    assert (np.diff(numbers) > 0).all()
    assert {one.astype(int).tobytes() for one in cells} == bodies_by_hand(shape, active, least)
    assert [number_of(one, len(active)) for one in cells] == list(numbers)


def test_connected_means_by_sides():
    assert is_connected(np.array([[1, 1], [0, 1]], bool))
    assert not is_connected(np.array([[1, 0], [0, 1]], bool))
    assert not is_connected(np.zeros((2, 2), bool))


@pytest.mark.parametrize(("name", "count"), [("small_bodies", 86_472), ("small_bodies_evogym", 1_292_672)])
def test_shipped_landscapes_have_as_many_bodies_as_the_docs_say(name, count):
    numbers = load_landscape(SHIPPED / f"{name}.yaml").bodies()
    assert len(numbers) == len(np.unique(numbers)) == count
    assert f"{count:,}" in (ROOT / "docs" / "do" / "landscape.md").read_text()


def test_any_part_of_the_order_is_a_fair_sample(file):
    numbers = load_landscape(file).bodies()
    assert (numbers == load_landscape(file).bodies()).all()
    assert (numbers != np.sort(numbers)).any()
    other = load_landscape(file, ["seed=1"]).bodies()
    assert sorted(other) == sorted(numbers)
    assert (other != numbers).any()


def test_codes_are_read_wherever_a_body_lies():
    cells = read_code(".a./aaa/a.s", (3, 3), ["s", "a"])
    assert code_of(cells, ["s", "a"]) == ".a./aaa/a.s"
    assert number_of(read_code("a./aa", (3, 3), "sa"), 2) == number_of(read_code(".../.a./.aa", (3, 3), "sa"), 2)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("aaaa", "at most 3 rows of 3 cells"),
        ("aa/a/a/a", "at most 3 rows of 3 cells"),
        ("ax", "there is no material 'x'; the materials are s, a, and . is empty"),
        ("a.a", "'a.a'"),
        ("...", "'...'"),
    ],
)
def test_what_is_no_body_is_refused(code, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read_code(code, (3, 3), ["s", "a"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("robot.body.type=material_grid", "a voxel_kinds body of two axes is needed"),
        ("robot.body.grid=[2, 2, 2]", "a voxel_kinds body of two axes is needed"),
        ("robot.body.grid=[5, 5]", "ways to fill it; at most 3e+07: take fewer cells or materials"),
        ("robot.controller={type: sine_by_material, drives: {a: {}}}", "it has no genes: there is nothing to try"),
        ("robot.controller.passive=[s, a]", "none of them is driven"),
        ("least_active=5", "5 given; the grid has 4 cells"),
        ("fitness=speed", "unknown measure 'speed'"),
        ("trys=5", "unknown key; did you mean 'tries'?"),
    ],
)
def test_what_is_no_landscape_is_reported(file, setting, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_landscape(file, [setting])


# Tables


def test_a_table_is_asked(table, tmp_path):
    best = read_table(table).order[0]
    code = read_table(table).code(best)
    for given in (table, table / "table.npz"):
        result = vsr("landscape", given, "--query", code, "--json", "-", "--robot", tmp_path / "robot.yaml")
        assert result.exit_code == 0, result.output
        (found,) = json.loads(result.stdout)
        assert (found["code"], found["rank"], found["tries"], found["of"]) == (code, 1, 6, 8)
        scene = yaml.safe_load((tmp_path / "robot.yaml").read_text())
        assert "/".join(scene["robot"]["body"]["shape"]) == code
    plain = np.load(table / "table.npz")  # for others, without this package
    place = list(plain["code"]).index(code)
    assert plain["best"][place] == pytest.approx(found["best"])
    assert plain["controller"].shape == (8, 5)
    shown = vsr("landscape", table, "--best", 3, "--plot", tmp_path / "map.svg").output
    assert f"8 of {len(load_landscape(table / 'landscape.yaml').bodies())} bodies" in shown
    assert shown.count("of 6") == 3
    assert "best bodies" in (tmp_path / "map.svg").read_text()


def test_a_folder_is_passed_on_without_its_parts(table, tmp_path):
    for name in ("landscape.yaml", "table.npz"):
        (tmp_path / name).write_bytes((table / name).read_bytes())
    np.testing.assert_array_equal(read_table(tmp_path).best, read_table(table).best)


def test_a_table_of_another_version_is_refused(table, tmp_path):
    stored = read_arrays(table / "table.npz")
    label = {**stored.label, "landscape": stored.label["landscape"] | {"trys": 3}}
    write_arrays(tmp_path / "old.npz", stored.arrays, label)
    result = vsr("landscape", tmp_path / "old.npz")
    assert (result.exit_code, "made by another version: its settings have trys" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["made", "--query", "aaa"], "at most 2 rows of 2 cells"),
        (["made", "--query", "as"], "1 driven voxels; all here have at least 2"),
        (["made", "--limit", "3"], "give the file that describes it, with --out made"),
        (["made", "--robot", "one.yaml"], "--robot goes with one --query"),
        (["small.yaml", "--query", "aa"], "--query: give the folder or the table of a landscape that is made"),
        (["small.yaml", "--out", "made", "--set", "tries=4"], "it was begun with other settings"),
        (["small.yaml", "--out", "other"], "this is no landscape's folder; give another --out"),
        (["gone.npz"], "there is no such file"),
        (["small_bodis"], "did you mean 'small_bodies', which is shipped?"),
        (["first_walker"], "first_walker is for vsr evolve"),
    ],
)
def test_wrong_words_are_helped(table, monkeypatch, arguments, message):
    monkeypatch.chdir(table.parent)
    (table.parent / "other").mkdir()
    (table.parent / "other" / "thing").touch()
    result = vsr("landscape", *arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_bodies_that_were_not_tried_are_told(table):
    known = read_table(table)
    untried = set(known.landscape.bodies()) - set(known.number)
    code = code_of(cells_of(np.array([min(untried)]), (2, 2), 2)[0], known.landscape.symbols)
    with pytest.raises(UserError, match=f"not among the 8 of {known.total} bodies that were tried"):
        known.place(code)


def test_a_damaged_part_is_left_out_and_made_again(table):
    folder = Folder(table, load_landscape(table / "landscape.yaml"))
    data = bytearray(folder.file(0).read_bytes())
    data[60] ^= 1
    folder.file(0).write_bytes(data)
    assert [folder.has(0), folder.has(1), folder.has(2)] == [False, True, False]
    assert read_table(table).size == 4


def test_shares_are_put_into_equal_intervals():
    share, values = np.array([0.0, 0.1, 0.5, 1.0]), np.array([1.0, 3.0, 5.0, 7.0])
    middles, quartiles = shares(share, values, least=1)
    np.testing.assert_allclose(middles, [0.05, 0.5, 1.0])
    np.testing.assert_allclose(quartiles[:, 1], [2, 5, 7])
    assert shares(share, values, least=2)[1].tolist() == [[1.5, 2, 2.5]]


# The search


@pytest.mark.full
def test_a_landscape_is_made_in_parts(file, tmp_path, monkeypatch):
    """Half of it, then the whole; a whole one elsewhere has the same bits, and its winners do what the table says."""
    monkeypatch.chdir(tmp_path)
    total = len(load_landscape(file).bodies())
    half = vsr("landscape", file, "--limit", 7, "--out", "one")
    assert half.exit_code == 0, half.output
    assert f"2 of {-(-total // 4)} parts, 2 of them left to do" in half.output
    assert read_table("one").size == 8
    before = (tmp_path / "one" / "parts" / "000001.npz").read_bytes()
    rest = vsr("landscape", file, "--out", "one")
    assert rest.exit_code == 0, rest.output
    assert (tmp_path / "one" / "parts" / "000001.npz").read_bytes() == before
    assert read_table("one").size == total
    (tmp_path / "one" / "parts" / "000001.npz").unlink()
    assert vsr("landscape", file, "--out", "one").exit_code == 0
    assert (tmp_path / "one" / "parts" / "000001.npz").read_bytes() == before
    found = read_table("one")
    assert (found.failed <= 6).all()
    assert (tmp_path / "one" / "map.png").stat().st_size > 10_000
    best = found.order[0]
    assert vsr("landscape", "one", "--query", found.code(best), "--robot", "best.yaml").exit_code == 0
    again = json.loads(vsr("simulate", "best.yaml", "--json", "-").stdout)
    assert again["measures"]["relative_velocity"] == pytest.approx(float(found.best[best]), rel=0.3)


@pytest.mark.full
def test_a_killed_landscape_goes_on_bit_for_bit(file, tmp_path):
    command = [sys.executable, "-m", "vsr", "landscape", str(file), "--set", "rounds=20"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    killed = subprocess.Popen([*command, "--out", str(tmp_path / "killed")], env=environment, cwd=tmp_path)
    while not (tmp_path / "killed" / "parts" / "000001.npz").exists():
        assert killed.poll() is None
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    for name in ("killed", "whole"):
        subprocess.run([*command, "--out", str(tmp_path / name)], env=environment, cwd=tmp_path, check=True)
    files = sorted(path.name for path in (tmp_path / "whole" / "parts").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "killed" / "parts").iterdir())
    for part in files:
        assert (tmp_path / "whole" / "parts" / part).read_bytes() == (tmp_path / "killed" / "parts" / part).read_bytes()


@pytest.fixture
def hill(monkeypatch):
    """Instead of a simulation: the nearer the genes to a point that depends on the body the better; some fail."""

    def evaluation_of(experiment, factor=1):
        def evaluation(genes, start=None):
            fitness = -((genes["controller"] - genes["body"].sum() / 4) ** 2).sum()
            fitness += 0 if start is None else 1e3 * start.higher + factor
            failed = genes["controller"][0] > 2
            return Evaluation(fitness=jnp.where(failed, 1.0, fitness), failed=failed)

        return evaluation

    monkeypatch.setattr(table_module, "evaluation_of", evaluation_of)


def test_more_rounds_never_worsen_what_was_found(file, hill):
    """The first round of a longer search is that of a shorter one, and a body is tried alone as among others."""
    short, long = (load_landscape(file, [f"rounds={rounds}"]) for rounds in (1, 4))
    numbers = short.bodies()[:4]
    one_round = table_module.rounds_of(short)
    first, last = (table_module.search(each, numbers, one_round) for each in (short, long))
    np.testing.assert_array_equal(first.typical, last.typical)
    assert (last.fitness >= first.fitness).all()
    assert (last.fitness > first.fitness).any()
    alone = table_module.search(short, numbers[2:3], one_round)
    np.testing.assert_array_equal(alone.genes[0], first.genes[2])


def test_a_best_controller_counts_with_its_median_in_fresh_trials(file, hill):
    """With time steps 4 times smaller, from other heights than that of the search, the same for all bodies."""
    landscape = load_landscape(file, ["trials=5"])
    numbers = landscape.bodies()[:3]
    found = table_module.search(landscape, numbers, table_module.rounds_of(landscape))
    confirmed = table_module.confirm(landscape, numbers, found, table_module.held_out_of(landscape))
    fresh = perturbations_of(EvaluationOptions().fresh_jitter, 5, after=FRESH).higher
    assert (fresh > 0).all()
    np.testing.assert_allclose(confirmed.fitness, found.fitness + 1e3 * np.median(fresh) + 4, rtol=1e-5)
    np.testing.assert_array_equal(confirmed.genes, found.genes)
    searched = load_landscape(file, ["trials=0"])
    assert table_module.confirm(searched, numbers, found, table_module.held_out_of(searched)) is found


def test_the_best_of_all_tries_is_kept(file, hill):
    landscape = load_landscape(file, ["tries=25", "rounds=1"])
    numbers = landscape.bodies()[:4]
    found = table_module.search(landscape, numbers, table_module.rounds_of(landscape))
    assert found.failed.sum() > 0
    for place, number in enumerate(numbers):
        key = jax.random.fold_in(jax.random.key(0), int(number))
        key = jax.random.fold_in(jax.random.fold_in(key, 0), 0)
        tried = np.asarray(landscape.robot.controller.sample(key, 25, landscape.robot.body))
        middle = (cells_of(numbers, (2, 2), 2)[place] + 1).sum() / 4
        fitness = np.where(tried[:, 0] > 2, -np.inf, -((tried - middle) ** 2).sum(1))
        np.testing.assert_allclose(found.genes[place], tried[fitness.argmax()], atol=1e-6)  # of two programs
        assert found.fitness[place] == pytest.approx(fitness.max(), rel=1e-5)
        assert found.typical[place] == pytest.approx(np.median(fitness), rel=1e-5)
        assert found.failed[place] == (tried[:, 0] > 2).sum()


def test_what_it_would_cost_is_told_before(file):
    result = vsr("check", file)
    assert result.exit_code == 0, result.output
    assert re.search(r"cost of the whole +about .+ on \d+ cpu devices?, after compiling", result.output)
    assert "6 for each, sine" in result.output
    assert json.loads(vsr("schema", "landscape").stdout)["else"]["required"] == ["robot", "tries"]


def test_descriptions_come_back_from_what_is_stored(file):
    landscape = load_landscape(file)
    assert Landscape.model_validate(landscape.to_plain()) == landscape
