"""Figures in the README and on pages of users are those of the stored data that they name."""

import csv
import importlib
import json
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT
from scipy.stats import mannwhitneyu

from vsr.cli import main

DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
TWO_CORES, AFTER, BEFORE, EVOGYM = (
    RESULTS / "bench" / f"{name}.json"
    for name in ("neoverse-n1-2026-11-18", "h200-2026-11-19", "h200-2026-11-18-before", "h200-evogym-2026-11-19")
)
HERE, THEIRS = (RESULTS / "bench" / f"{name}.json" for name in ("epyc-2026-11-18", "evogym-epyc-2026-11-18"))
ORIGINAL = ROOT / "vsr/evidence/validate/data/2d-vsr-sim/population_ccd_none/biped_phases.json"


def read(path):
    return json.loads(path.read_text())


def scene(file, suite, name, robots=None):
    """What a benchmark measured; None if it has no such scene."""
    found = [row for row in read(file).get(suite, []) if row["scene"] == name and robots in (None, row["robots"])]
    return found[0] if found else None


def said(page, pattern):
    """Numbers of the one place of a page where this is written."""
    text = " ".join(page.read_text().split())
    (found,) = re.findall(pattern, text)
    return [float(one.replace(",", "")) for one in ([found] if isinstance(found, str) else found)]


def rows_of(page, head):
    """Rows of the table whose first column has this title, as texts."""
    lines = page.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


README = ROOT / "README.md"


def test_speed_in_the_readme():
    assert said(README, r"(\d+) steps per CPU-second; EvoGym 2.0.0 (\d+)") == [
        round(scene(HERE, "environments", "walker-evogym")["steps_per_cpu_s"]),
        round(read(THEIRS)["median"]),
    ]
    walkers = scene(EVOGYM, "environments", "walker-evogym", 4096)
    assert said(README, r"([\d.]+) M steps per second") == [round(walkers["steps_per_s"] / 1e6, 1)]
    bipeds = scene(TWO_CORES, "2d", "biped-mlp", 250)
    minute = 2 * bipeds["median_s"] * 60 / bipeds["simulated_s"]
    theirs = read(ORIGINAL)["total_cpu_s_nominal_runs"]
    assert said(README, r"(\d+) core-seconds; 2D-VSR-Sim (\d+)") == [round(minute), round(theirs)]
    boxes = scene(AFTER, "2d", "box-10x10", 4096)
    assert said(README, r"([\d.]+) G voxel steps per second") == [round(boxes["svsps"] / 1e9, 1)]


def test_findings_in_the_readme(monkeypatch):
    rows = csv.DictReader((RESULTS / "control" / "table.csv").read_text().splitlines())
    best = {row["experiment"]: row for row in rows}
    pace, sensing = best["biped_frequency"], best["biped_sensing"]
    assert said(README, r"\((\d+) genes\) beats a sensing network \((\d+) genes\): \[([\d.]+) against ([\d.]+)\]") == [
        *(float(one["genes"]) for one in (pace, sensing)),
        *(round(float(one["final_best"]), 3) for one in (pace, sensing)),
    ]
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    winners = importlib.import_module("winners").main(results=str(RESULTS))
    above = said(README, r"Of (\d+) winners, [^|]*?, (\d+) had a fitness more than 3 % above [^|]*?, (\d+) more than a")
    assert above == [winners[one] for one in ("winners", "more than 3 % above", "more than 10 % above")]
    assert winners["more than 3 % below"] == 0
    table = dict(rows_of(DOCS / "understand" / "fitness.md", "of 120 winners"))
    assert table == {
        "within 3 %": str(winners["within 3 %"]),
        "more than 3 % above": str(winners["more than 3 % above"]),
        "more than 10 % above": str(winners["more than 10 % above"]),
        "more than 3 % below": "none",
    }


def test_findings_on_evogyms_tasks_in_the_readme():
    rows = list(csv.DictReader((RESULTS / "evogym" / "transfer.csv").open()))
    abroad = [row for row in rows if row["replayed_in"] == "points"]
    assert said(
        README, r"Of (\d+) robots that evolved on EvoGym's tasks [^|]*?, (\d+) keep nine [^|]*?, (\d+) half"
    ) == [sum(int(row[name]) for row in abroad) for name in ("robots", "keep_nine_tenths", "keep_half")]
    below = [row for row in abroad if row["score_at_home"] and float(row["score_at_home"]) < 0]
    assert said(README, r"(\d+) of the 20 on tasks where it is below 0") == [
        sum(int(row["keep_nine_tenths"]) for row in below)
    ]
    reached = r"best published score[^|]*? in (\d+) of (\d+) tasks"
    assert said(README, reached) == said(RESULTS / "index.md", reached)


def test_the_trained_walker():
    page, folder = DOCS / "learn" / "policy.md", RESULTS / "walker"
    runs = read(folder / "run.json")["runs"]
    for run, curve in zip(runs, ("curve.json", "curve_seed_1.json", "curve_seed_2.json"), strict=True):
        assert read(folder / curve)[-1]["best"][0] == pytest.approx(run["score"], abs=2e-3)
    assert said(page, r"The score was ([\d.]+), with `--seed 1` and `--seed 2` ([\d.]+) and ([\d.]+);") == [
        round(run["score"], 2) for run in runs
    ]
    assert said(page, r"took (\d+) min (\d+) s, or (\d+) s of CPU time") == [
        *divmod(round(runs[0]["wall_s"]), 60),
        round(runs[0]["cpu_s"]),
    ]


def test_speed_on_a_gpu():
    page = DOCS / "understand" / "speed.md"
    for name, robots, rate, time, compiling, times in rows_of(page, "scene"):
        key, count = re.match(r"`([\w-]+)`", name)[1], int(robots)
        suite = "2d" if scene(AFTER, "2d", key, count) else "3d"
        now, before = scene(AFTER, suite, key, count), scene(BEFORE, suite, key, count)
        assert float(rate.split()[0]) == float(f"{now['svsps'] / 1e9:.3g}"), name
        shown = re.fullmatch(r"([\d.]+) ms for ([\d.]+) s", time)
        assert float(shown[1]) == float(f"{1e3 * now['median_s']:.3g}"), name
        assert float(shown[2]) == now["simulated_s"], name
        assert compiling == f"{now['compile_s']:.1f} s", name
        if times:
            assert float(times) == pytest.approx(before["median_s"] / now["median_s"], abs=0.006), name
    names = {
        "square masses": ("walker-squares", "walker-squares-16k"),
        "point masses": ("walker-points",),
    }
    for physics, robots, rate in rows_of(page, "physics"):
        (now,) = [row for name in names[physics] if (row := scene(AFTER, "environments", name, int(robots)))]
        assert float(rate.split()[0]) == round(now["steps_per_s"] / 1e6, 1), physics
    for task, _, rate in rows_of(page, "task"):
        now = scene(EVOGYM, "environments", f"{task.removesuffix('-v0').lower()}-evogym", 4096)
        assert float(rate.split()[0]) == round(now["steps_per_s"] / 1e6, 1), task


def test_scores_on_evogyms_tasks():
    """As many tasks as the index says, counted from the scores of winners in fresh trials."""
    rows = list(csv.DictReader((RESULTS / "evogym" / "published.csv").open()))
    own = [row for row in rows if row["method"] == "open loop" and row["counts"] == "True"]
    reached = sum(float(row["median"]) >= float(row["best_published"]) for row in own)
    selected = sum(float(row["selected"]) >= float(row["best_published"]) for row in own)
    numbers = r"best published score in (\d+) of (\d+) tasks[^|]*?, as published, in (\d+)"
    assert said(RESULTS / "index.md", numbers) == [reached, len(own), selected]
    assert len(own) == 31


@pytest.mark.parametrize(
    ("row", "name"), [("square masses, 2-D", "contact-squares"), ("point masses, 2-D", "contact-points")]
)
def test_cost_of_contact(row, name):
    worlds = scene(AFTER, "contact", name)["worlds"]
    page = DOCS / "understand" / "speed.md"
    assert said(page, rf"\| {row} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|") == [
        round(worlds[world]["times"], 1) for world in ("box", "self", "both")
    ]


def test_winners_at_smaller_steps():
    stored = read(RESULTS / "contact" / "refined_control.json")
    finest = stored["factors"].index(16)
    known = {
        robot["name"]: (robot["file"], tried) for robot, tried in zip(stored["robots"], stored["refined"], strict=True)
    }
    rows = rows_of(DOCS / "understand" / "fitness.md", "winner")
    assert len(rows) == len(known)
    for name, *shown in rows:
        file, tried = known[name.strip("`")]
        assert [float(one) for one in shown] == [
            round(float(value), 3) for value in (file, np.median(tried[0]), np.median(tried[finest]))
        ], name


STUDIES = {"body": "paper", "devo": "paper", "sensing": "paper", "control": "paper", "sand": "full"}


PAGES = {**STUDIES, "evogym": "full"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_pages_of_studies_are_made_from_stored_data(name, tmp_path):
    """The page, its tables and its verdicts, from curves, settings and repeats."""
    shutil.copytree(RESULTS / name, tmp_path / name)
    shutil.copyfile(RESULTS / f"{name}.yaml", tmp_path / f"{name}.yaml")
    made = ["report.md", "table.csv", "pairs.csv"]
    for file in made:
        (tmp_path / name / file).unlink()
    command = ["reproduce", str(tmp_path / f"{name}.yaml"), "--scale", PAGES[name], "--report-only"]
    result = CliRunner().invoke(main, [*command, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for file in made:
        assert (tmp_path / name / file).read_text() == (RESULTS / name / file).read_text(), file


def test_verdicts_in_the_index_of_results():
    words = ("supported", "not significant", "contradicted")
    for study, verdict, state in rows_of(RESULTS / "index.md", "study")[: len(STUDIES)]:
        page = RESULTS / re.search(r"\((\w+/report\.md)\)", study)[1]
        counts = {word: page.read_text().count(f"| **{word}** |") for word in words}
        assert verdict == ", ".join(f"{count} {word}" for word, count in counts.items() if count), study
        assert page.read_text().splitlines()[2].startswith("> **To be rerun.**") == (state == "to be rerun"), study
    rows = [row for file in STUDIES for row in (RESULTS / file / "report.md").read_text().splitlines()]
    assert sum("| **" in row for row in rows) == 25


def test_doubts_about_the_study_of_sand():
    page, folder = RESULTS / "sand" / "report.md", RESULTS / "sand"
    rows = list(csv.DictReader((folder / "exchange.csv").open()))
    home = [row for row in rows if row["experiment"] == row["world"]]

    def speeds(experiment):
        """At home [m/s]: relative velocity times the longer side, of voxels of 3 m."""
        own = [row for row in home if row["experiment"] == experiment]
        return [3 * float(row["counted"]) * max(float(row["width"]), float(row["height"])) for row in own]

    hard, sand = speeds("hard"), speeds("sand")
    p = mannwhitneyu(hard, sand).pvalue
    pattern = r"not significant \(([\d.]+) against ([\d.]+), p = ([\d.]+)\)"
    assert said(page, pattern) == [round(np.median(hard), 2), round(np.median(sand), 2), round(p, 2)]
    near = [abs(float(row["x4"]) / float(row["x1"]) - 1) <= 0.1 for row in home]
    assert said(page, r"smaller (\d+) of (\d+) robots keep") == [sum(near), len(near)]
    beds = list(csv.DictReader((folder / "other_beds.csv").open()))
    columns = {row["seed"] for row in home if row["experiment"] == "slippery" and float(row["width"]) == 1}
    assert len(columns) == 7
    own = [float(row["x1"]) for row in home if row["experiment"] == "slippery" and row["seed"] in columns]
    tried = [
        np.median([float(row["relative_velocity"]) for row in beds
                   if row["experiment"] == row["world"] == "slippery" and row["bed"] == bed and row["seed"] in columns])
        for bed in ("3", "4")
    ]  # fmt: skip
    assert said(page, r"Their median is (-?[\d.]+) on the bed they evolved on, (-?[\d.]+) and (-?[\d.]+)") == [
        round(value, 3) for value in (np.median(own), *tried)
    ]


def test_the_fast_drive_is_tuned_to_its_springs():
    medians = []
    for name in ("biped_frequency", "biped_sensing"):
        stored = read(RESULTS / "control" / "best" / f"{name}.json")["robustness"]
        changed = np.array(stored["changed"])[:, stored["changes"].index("frequency +1 %")]
        default = np.array(stored["refined"])[:, stored["factors"].index(1)]
        medians += [round(float(np.median(np.median(tried, -1))), 3) for tried in (default, changed)]
    page = RESULTS / "control" / "report.md"
    assert said(page, r"from ([\d.]+) to ([\d.]+), that of the network from ([\d.]+) to ([\d.]+)") == medians


def test_beside_reality():
    page, stored = RESULTS / "reality" / "report.md", read(RESULTS / "reality" / "reality.json")
    swimmer, plates = stored["series"]["swimmer"], stored["series"]["plates"]
    for case, (_, steepness, efficiency) in zip(swimmer["cases"], rows_of(page, "case"), strict=True):
        for shown, key in ((steepness, "steepness"), (efficiency, "cases")):
            assert [float(one) for one in shown.split(", ")] == [round(one, 3) for one in swimmer[key][case]], case
    assert said(page, r"poppy seeds \| (\d+) \|") == [round(plates["scale"])]
    measured = {row["name"]: row["measured"] for row in stored["rows"]}
    powers = [round(value, 2) for name, value in measured.items() if name.startswith("exponent")]
    assert said(page, r"([\d.]+) pressed down, ([\d.]+) dragged") == powers
    shape = [measured["correlation with the published shape"], measured["root mean square difference of the shape"]]
    assert said(page, r"correlation ([\d.]+), root mean square difference ([\d.]+)") == [round(one, 2) for one in shape]
    efficiency = [measured["wave efficiency"], measured["its standard deviation over packings"]]
    assert said(page, r"\| ([\d.]+) ± ([\d.]+); 0\.380 with half") == [round(one, 3) for one in efficiency]
    heights = [row["measured"] / row["expected"] - 1 for row in stored["rows"] if row["section"] == "membranes"]
    assert said(page, r"(\d+) % less to (\d+) % more") == [round(-100 * min(heights)), round(100 * max(heights))]
    plate = {(45, 90): "flat", (90, 90): "upright, pressed down", (0, 0): "lift", (0, -90): "pulled up"}
    up = {
        name: (round(theirs[1], 2), round(ours[1], 2) + 0.0)
        for move, ours, theirs in zip(plates["moves"], plates["here"], plates["published"], strict=True)
        if (name := plate.get(tuple(move)))
    }
    table = {row[0]: tuple(float(cell) for cell in row[1:3]) for row in rows_of(page, "plate")}
    assert list(table.values()) == [up["upright, pressed down"], up["lift"], up["pulled up"]]
    assert said(page, r"\(([\d.]+) for ([\d.]+), 0\.75 for 0\.57\)") == [*reversed(up["flat"])]


@pytest.mark.parametrize("name", ["first_walker", "neural_controller"])
def test_confirmed_numbers_in_further_trials(name):
    found = read(RESULTS / "confirmed" / f"{name}.json")
    again = np.array(found["refined"])[:, found["factors"].index(4)]
    quartiles, middle = np.quantile(again, [0.25, 0.75], axis=1), np.median(again, 1)
    ratio = middle / [robot["file"] for robot in found["robots"]]
    mean, within, least, most, apart = said(
        DOCS / "understand/fitness.md",
        rf"`{name}`[^|]*\| ([\d.]+) \| (\d+) of 10 \| ([\d.]+) to ([\d.]+) \| ([\d.]+) % \|",
    )
    assert again.shape == (10, 16)
    assert [round(one, 2) for one in (ratio.mean(), ratio.min(), ratio.max())] == [mean, least, most]
    assert within == (abs(ratio - 1) <= 0.03).sum()
    assert apart == pytest.approx(100 * np.median(np.diff(quartiles, axis=0) / middle), rel=0.02)


def test_best_robots_with_other_rules_of_sticking():
    slower, kept = [], []
    for name in ("body", "devo", "control"):
        stored = read(RESULTS / "contact" / f"refined_{name}.json")
        other = stored["variants"].index("sticking: approaching")
        for robot, tried, varied in zip(stored["robots"], stored["refined"], stored["varied"], strict=True):
            if name == "control" and robot["name"] != "biped_phases":
                slower.append(round(100 * (1 - np.median(varied[other]) / np.median(tried[0]))))
            if robot["name"] != "together":
                kept.append(np.median(tried[0]) / robot["file"])
    assert said(RESULTS / "control" / "report.md", r"are (\d+) to (\d+) % slower") == [min(slower), max(slower)]
    assert len(kept) == 8
    assert abs(np.array(kept) - 1).max() < 0.01 * said(RESULTS / "index.md", r"keep their speed within (\d+) %")[0]
