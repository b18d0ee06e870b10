"""What searches report themselves: read from statistics, plotted, compared, and in reports with their archives."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from growing import begin_run, header_in, of_rows, put_statistics

from vsr.cli import main
from vsr.experiments.config.problems import UserError
from vsr.experiments.plot.archives import regions
from vsr.experiments.plot.curves import in_words, metrics_named
from vsr.experiments.report.findings import find_out
from vsr.experiments.report.page import _parts
from vsr.experiments.report.searches import searches
from vsr.experiments.storage.files import write_arrays
from vsr.experiments.storage.runs import read_run

ELITES = """
robot: {body: {type: material_grid, grid: [2, 2]}, controller: sine}
evaluation: {trials: 1, refine: null}
optimizer:
  type: map_elites
  population_size: 6
  archives:
    body:
      axes: [{measure: elongation, range: [0, 1], cells: 3}, {measure: voxels, range: [0, 4], cells: 2}]
      type: grid
    brain: {type: cvt, cells: 4, axes: [{measure: gene_mean, range: [-1, 1]}, {measure: gene_deviation, range: [0, 3]}]}
generations: 3
seeds: 2
"""
FRONT = """
robot: {body: {shape: aa}, controller: sine}
evaluation: {trials: 1, refine: null}
optimizer: {type: nsga2, population_size: 6, objectives: [{measure: average_height}], reference: [-1.0, 10.0]}
generations: 3
seeds: 2
"""


def row(generation, seed, metrics):
    best = 0.1 * (generation + 1) + seed
    known = {"generation": generation, "seed": seed, "best": best, "median": best / 2, "failed": 0, "failures": {}}
    more = {"evaluations": 6, "best_id": 0, "spread": 1.0, "bodies": 2, "seconds": 0.5}
    return {**known, **more, **({"metrics": metrics} if metrics else {})}


def make_run(folder, text, metrics, offset=0.0):
    """A finished run whose search tells figures, each growing by a tenth in a generation, and by seeds."""
    begin_run(folder, text)
    reported = [
        row(generation, seed, {name: 0.1 * (generation + seed) + offset for name in metrics})
        for generation in range(3)
        for seed in range(2)
    ]
    put_statistics(folder, reported)
    return folder


@pytest.fixture
def elites(tmp_path):
    names = [f"{archive}.{kind}" for archive in ("body", "brain") for kind in ("coverage", "qd_score", "mean")]
    folder = make_run(tmp_path / "elites", ELITES, names)
    settings, random, arrays = read_run(folder).experiment.optimizer, np.random.default_rng(0), {}
    for name, cells in (("body", 6), ("brain", 4)):
        fitness = random.normal(size=(2, cells)).astype(np.float32)
        fitness[:, 0] = -np.inf
        arrays |= {
            f"{name}.members.fitness": fitness,
            f"{name}.descriptors": random.uniform(0, 1, (2, cells, 2)),
            f"{name}.centers": np.stack([settings.archives[name].centers()] * 2),
            f"{name}.members.id": np.arange(2 * cells).reshape(2, cells),
            f"{name}.members.genes.body": random.normal(size=(2, cells, 16)),
            f"{name}.members.genes.controller": random.normal(size=(2, cells, 4)),
        }
    write_arrays(folder / "archive.npz", arrays)
    return folder


@pytest.fixture
def front(tmp_path):
    folder = make_run(tmp_path / "front", FRONT, ["front", "hypervolume"])
    random = np.random.default_rng(0)
    arrays = {
        "objectives": random.normal(size=(2, 6, 2)),
        "front": np.array([[0, 0, 1, 1, 2, 2]] * 2),
        "population.genes.body": np.zeros((2, 6, 0)),
        "population.genes.controller": random.normal(size=(2, 6, 2)),
        "population.id": np.arange(12).reshape(2, 6),
    }
    write_arrays(folder / "archive.npz", arrays)
    return folder


def vsr(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


# Reading


def test_figures_are_read_with_the_rest(elites):
    found = read_run(elites).metrics
    assert len(found) == 6
    np.testing.assert_allclose(found["body.coverage"], [[0.0, 0.1, 0.2], [0.1, 0.2, 0.3]])


def test_archives_of_a_run_are_read(elites, front):
    run = read_run(elites)
    body, brain = run.archives(1)
    assert (body.name, brain.name) == ("body", "brain")
    assert list(brain.filled) == [1, 2, 3]
    assert run.archives()[0].fitness[1] != body.fitness[1]
    assert read_run(front).archives() == []


def test_figures_that_come_later_are_not_a_number_before(front):
    """As where statistics were rebuilt from lineage, which has no figures."""
    before = of_rows(header_in(front), [row(0, 0, None), row(0, 1, None)])
    after = before.with_header(header_in(front, ["a.b"]))
    np.testing.assert_array_equal(after.column("metrics.a.b"), [[np.nan], [np.nan]])
    np.testing.assert_array_equal(after.column("best"), before.column("best"))


# Plots and comparisons


def test_names_of_figures_are_whole_or_of_all_archives(elites, front):
    runs = [read_run(elites)]
    assert metrics_named(runs, "coverage") == ["body.coverage", "brain.coverage"]
    assert metrics_named(runs, "brain.mean") == ["brain.mean"]
    assert in_words("body.qd_score") == "body: QD score"
    with pytest.raises(UserError, match="'coverge'; did you mean 'coverage'"):
        metrics_named(runs, "coverge")
    with pytest.raises(UserError, match="'coverage'; choose from front, hypervolume"):
        metrics_named([*runs, read_run(front)], "coverage")


def test_figures_are_plotted_and_compared(elites, tmp_path):
    other = make_run(tmp_path / "other", ELITES, list(read_run(elites).metrics), offset=0.5)
    result = vsr("plot", elites, other, "--metric", "coverage", "--out", tmp_path / "figure.svg")
    assert result.exit_code == 0, result.output
    drawn = (tmp_path / "figure.svg").read_text()
    assert len(re.findall('<g id="axes_', drawn)) == 2
    result = vsr("compare", elites, other, "--metric", "body.coverage", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["measure"] == "body.coverage"
    assert [one["final"] for one in found["rows"]] == pytest.approx([0.25, 0.75])
    assert found["pairs"][0]["effect"] == 0.0  # none of the first is better
    shown = vsr("compare", elites, other, "--metric", "body.coverage").output
    assert "body.coverage, median over seeds" in shown
    assert "best body" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "elites", "--metric", "coverage"], "several archives have it; give one of body.coverage, brain"),
        (["plot", "elites", "--metric", "coverage", "--archive"], "--metric, --archive and --csv: give one of them"),
        (["plot", "elites", "--metric", "volume"], "'volume'"),
    ],
)
def test_wrong_words_are_helped(elites, monkeypatch, arguments, message):
    monkeypatch.chdir(elites.parent)
    result = vsr(*arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_regions_of_a_cvt_fill_the_box_and_hold_what_is_nearest():
    random, box = np.random.default_rng(0), np.array([[-1.0, 0.0], [3.0, 0.5]])
    centers = random.uniform(*box, (12, 2))
    found = regions(centers, box)
    side = box[1] - box[0]
    areas = [
        0.5 * abs((one[:, 0] * np.roll(one[:, 1], -1) - one[:, 1] * np.roll(one[:, 0], -1)).sum()) for one in found
    ]
    assert sum(areas) == pytest.approx(side.prod())
    for place, corners in enumerate(found):  # corners are as near to their center as to any other
        apart = np.linalg.norm((corners[:, None] - centers) / side, axis=-1)
        np.testing.assert_allclose(apart[:, place], apart.min(1), atol=1e-9)


@pytest.mark.full
def test_pyribs_draws_what_is_stored(elites, tmp_path):
    """As docs/reference/searches.md has it; colors of the map are the fitness of the elites."""
    ribs = pytest.importorskip("ribs.archives", reason="pyribs is not installed")
    drawing = pytest.importorskip("ribs.visualize")
    from matplotlib.figure import Figure

    stored = np.load(elites / "archive.npz")
    fitness, where = stored["body.members.fitness"][0], stored["body.centers"][0]
    there = np.isfinite(fitness)
    archive = ribs.GridArchive(solution_dim=1, dims=[3, 2], ranges=[(0, 1), (0, 4)])
    archive.add(np.flatnonzero(there)[:, None], fitness[there], where[there])
    axes = Figure().subplots()
    drawing.grid_archive_heatmap(archive, ax=axes)
    drawn = np.ma.filled(axes.collections[0].get_array(), np.nan)
    np.testing.assert_allclose(np.sort(drawn[np.isfinite(drawn)]), np.sort(fitness[there]))


# Reports


@pytest.mark.slow
def test_a_report_has_archives_and_how_they_grew(elites):
    found = find_out(read_run(elites), "elites")
    text = str(searches(found, "c"))
    assert text.count('class="chart"') == 5  # coverage, QD score and mean; two maps
    assert "Coverage: filled cells over all; median over seeds." in text
    assert "Archive body of seed 1: the fittest of every cell" in text
    assert "map of archive brain: 3 elites in 4 cells" in text
    assert "data:image/png" in text  # voxels are a picture
    assert len(text) < 200_000
    assert "Search" in dict(_parts(found, "c"))


def test_a_report_has_the_front(front):
    text = str(searches(find_out(read_run(front), "front"), "c"))
    assert text.count('class="chart"') == 3
    assert "Best Pareto front of seed 1: relative velocity against average height." in text
    (front / "archive.npz").unlink()
    assert "The archive is left out." in str(searches(find_out(read_run(front), "front"), "c"))


def test_other_searches_have_no_such_part(tmp_path):
    text = "robot: {body: {shape: aa}, controller: sine}\noptimizer: {population_size: 6}\ngenerations: 3\nseeds: 2\n"
    found = find_out(read_run(make_run(tmp_path / "plain", text, [])), "plain")
    assert searches(found, "c") is None
    assert "Search" not in dict(_parts(found, "c"))
