"""Studies as a user meets them: the paper's are as the paper says, runs can be taken in pieces, claims are judged."""

import csv
import dataclasses
import json
import lzma
import re
import sys

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from conftest import ROOT
from growing import put_meta, put_statistics, rows_of
from PIL import Image

import vsr.cli as cli
from vsr.evidence.reproduce import command as reproduce_module
from vsr.evidence.reproduce.command import longest_first
from vsr.evidence.reproduce.exploits import RULES, exploits_of
from vsr.evidence.reproduce.published import write_published
from vsr.evidence.reproduce.robots import read_repeats
from vsr.evidence.reproduce.statement import CLAIMS as CLAIMS_FILE
from vsr.evidence.reproduce.statement import state_claims
from vsr.evidence.reproduce.tables import curves
from vsr.evidence.reproduce.transfer import Checked, Elsewhere
from vsr.experiments.check import check_file
from vsr.experiments.claims import CLAIMS, Above, Gain, GainsMore, MetricAbove, Outcome, Result, Wider, judge
from vsr.experiments.config import load_experiment
from vsr.experiments.config.problems import UserError
from vsr.experiments.shipped import STUDY, shipped_files
from vsr.experiments.storage.files import write_checked_json
from vsr.experiments.storage.runs import read_run
from vsr.experiments.study import SHIPPED, find_studies, load_study
from vsr.sensors import Sensor

pytestmark = pytest.mark.usefixtures("quickly_compiled")
STUDIES = [file.path for file in shipped_files() if file.kind == STUDY]
GENES = {
    "5x5": 80, "10x10": 80, "evolution": 44, "development": 132,
    "worm_phases": 4, "biped_phases": 6, "tripod_phases": 8,
    "worm_sensing": 104, "biped_sensing": 228, "tripod_sensing": 400,
}  # fmt: skip


@pytest.fixture
def vsr():
    return lambda *arguments: CliRunner().invoke(cli.main, list(map(str, arguments)))


# the paper's studies


# Many experiments to trace, or three beds of sand.
SLOW = ("body", "devo", "control", "sensing", "grounds", "archives", "together", "evogym", "3d", "pumped")
assert {*SLOW} <= {path.stem for path in STUDIES}
OUR_OWN = ("grounds", "archives", "together", "control", "evogym", "3d", "pumped")
"""Of which no paper says how much to compute."""


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.full] * (path.stem in SLOW), id=path.stem) for path in STUDIES]
)
def test_every_shipped_study_is_sound(path):
    """Its experiments are traced as their files have them, and built on every scale."""
    checked = dict(check_file(str(path)))
    study = load_study(path).study
    assert {"smoke", "quick", "full" if path.stem in OUR_OWN else "paper"} == set(study.scales)
    assert all(name in checked for name in study.experiments)


def test_the_experiments_are_those_of_the_paper():
    found = {}
    for file in find_studies("all"):
        named = {file.file(name).resolve() for name in file.study.experiments}
        assert named == set((SHIPPED / file.name).glob("*.yaml"))
        assert not file.scale("paper").set, "files hold the paper's own settings"
        for name in file.study.experiments:
            experiment = found[name] = file.experiment(name)
            assert (experiment.optimizer.population_size, experiment.optimizer.tournament_size) == (250, 8)
            assert experiment.generations == 500
            assert experiment.seeds == tuple(range(1000, 1030 if file.name == "body" else 1010))
            schedule = experiment.schedule()
            assert schedule.duration == 60
            assert schedule.control_every * schedule.time_step == pytest.approx(1 / 15)
            assert experiment.fitness.measure == "relative_velocity"
            assert experiment.world.terrain.type == "flat"
    assert {name: experiment.robot.gene_count for name, experiment in found.items()} == GENES
    assert sum(len(e.seeds) * e.optimizer.population_size * e.generations for e in found.values()) == 17_500_000
    for name in ("worm", "biped", "tripod"):
        controller = found[f"{name}_sensing"].robot.controller
        assert set(controller.sensors) == {
            Sensor(quantity=quantity, reading=reading, window=5)
            for quantity in ("area_ratio", "rotated_velocity_x", "rotated_velocity_y")
            for reading in ("mean", "difference")
        }
        assert not controller.legacy_angle
        assert found[f"{name}_phases"].robot.body == found[f"{name}_sensing"].robot.body
    assert found["5x5"].schedule().substeps > found["evolution"].schedule().substeps


def test_the_study_in_3d_asks_the_papers_claims():
    (file,) = find_studies("3d")
    full = file.scale("full")
    found = {name: file.experiment(name, full.settings(name)) for name in file.study.experiments}
    genes = {name: one.robot.gene_count for name, one in found.items()}
    assert genes == {
        "3x3x3": 100, "5x5x5": 100, "evolution": 48, "development": 144, "worm_phases": 4, "worm_sensing": 104,
        "biped_phases": 6, "biped_sensing": 228, "quadruped_phases": 13, "quadruped_sensing": 1040,
    }  # fmt: skip
    assert all(one.robot.body.dimension == 3 and one.evaluation.confirmation for one in found.values())
    assert all(len(one.seeds) == (30 if "x" in name else 10) for name, one in found.items())
    kinds = [claim.type for paper in find_studies("all") for claim in paper.study.claims]
    assert [claim.type for claim in file.study.claims] == kinds


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "results" / "stated").glob("*.md")), ids=lambda path: path.stem
)
def test_claims_of_runs_to_come_are_stated_as_they_will_be_judged(path, tmp_path):
    (file,) = find_studies(path.stem)
    scale = "full" if path.stem in OUR_OWN else "paper"
    settings = file.scale(scale).settings
    experiments = {name: file.experiment(name, settings(name)) for name in file.study.experiments}
    state_claims(file, scale, experiments, tmp_path, begun=False)
    assert (tmp_path / CLAIMS_FILE).read_text() == path.read_text()
    assert min(seed for one in experiments.values() for seed in one.seeds) == 1000


@pytest.mark.full
def test_smoke_of_the_body_study(vsr, tmp_path):
    result = vsr("reproduce", "body", "--scale", "smoke", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    home = tmp_path / "body"
    written = {"figure8.png", "figure8.pdf", "curves.csv.xz", "table.csv", "pairs.csv", "report.md", "claims.md"}
    written |= {"provenance.md", "best"}
    assert written | {"5x5"} == {path.name for path in home.iterdir()}
    report = (home / "report.md").read_text()
    assert "![](figure8.png)" in report
    assert "10x10 missing |  |  | **not run**" in report
    assert "dots and `reported` the" in report
    with Image.open(home / "best" / "5x5.png") as strip:
        assert strip.width > 3 * strip.height
    repeats = json.loads((home / "best" / "5x5.json").read_text())["repeats"]
    # Each seed's best was believed only as far as smaller time steps confirmed it.
    np.testing.assert_allclose(np.array(repeats)[:, 0], read_run(home / "5x5").best[:, -1], rtol=0.05)


# a study of one's own


def rows_of_curves(folder):
    with lzma.open(folder / "curves.csv.xz", "rt") as file:
        return list(csv.DictReader(file))


OWN_EXPERIMENT = """
robot: {body: {shape: aa}, controller: sine}
task: {duration: 0.6, placement: {clearance: 0.0}}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 6, tournament_size: 2}
generations: 3
seeds: SEEDS
checkpoint_seconds: 0
"""
OWN = """
kind: study
title: Two draws of the same
experiments:
  one: {file: one.yaml, label: seeds 0 and 1}
  two: {file: two.yaml, label: seeds 2 and 3}
figure: {panels: [{curves: [one, two]}]}
scales:
  tiny: {repeats: 3}
claims:
  - {type: above, experiment: two, than: one, text: The second is better}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.yaml").write_text(OWN)
    for name, seeds in (("one", "[0, 1]"), ("two", "[2, 3]")):  # alike, so that they are compiled once
        (folder / f"{name}.yaml").write_text(OWN_EXPERIMENT.replace("SEEDS", seeds))
    return folder / "own.yaml"


@pytest.mark.full
def test_a_study_is_run_in_pieces(vsr, own, tmp_path, monkeypatch):
    """One experiment stopped after its first generation, then all of the rest; what is finished is not touched."""
    command = ["reproduce", own, "--scale", "tiny", "--out", tmp_path]
    first = vsr(*command, "--only", "one", "--set", "generations=1")
    assert first.exit_code == 0, first.output
    assert read_run(tmp_path / "own" / "one").generations == 1
    refused = vsr(*command)
    assert refused.exit_code == 2
    assert "add --resume" in refused.output
    rest = vsr(*command, "--resume")
    assert rest.exit_code == 0, rest.output
    assert "going on after generation 1" in rest.output
    for name in ("one", "two"):
        run = read_run(tmp_path / "own" / name)
        assert run.generations == 3
        assert run.experiment == load_experiment(own.parent / f"{name}.yaml").resolved()
    report = (tmp_path / "own" / "report.md").read_text()
    for words in ("The second is better", "of 3 repeats", "[two](best/two.yaml)", "sha256 `"):
        assert words in report
    made = (tmp_path / "own" / "provenance.md").read_text()
    for words in ("vsr evolve --resume", "cpu", "jax "):
        assert words in made
    assert "None" not in report + made
    assert "fresh trials" not in report  # no leader was checked
    assert "are not those of `claims.md`" in report  # which were stated for one generation
    rows = rows_of_curves(tmp_path / "own")
    assert len(rows) == 2 * 2 * 3
    two = read_run(tmp_path / "own" / "two").best
    assert float(rows[-1]["best"]) == pytest.approx(two[1, 2], rel=1e-6)

    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(reproduce_module, "evolve", None)  # cannot be called
    monkeypatch.setattr("vsr.evidence.reproduce.robots.simulate_again", None)
    assert "already finished" in vsr(*command, "--resume").output
    (tmp_path / "own" / "report.md").unlink()
    again = vsr(*command, "--report-only")
    assert again.exit_code == 0, again.output
    changed = [path.name for path, content in before.items() if path.read_bytes() != content]
    assert set(changed) <= {"figure.pdf"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bodie"], "bodie: there is no such file; did you mean 'body', which is shipped?"),
        (["body", "--scale", "papper"], "has no such scale; did you mean 'paper'?"),
        (["body", "--only", "5x6"], "--only 5x6: there is no such experiment; did you mean '5x5'?"),
        (["body", "--report-only", "--out", "nowhere"], "nowhere: there is no run in it"),
        (
            ["body", "--set", "optimizer.n_pup=3", "--out", "nowhere"],
            "optimizer.n_pup: unknown key; choose from population_size",
        ),
        (["nowhere.yaml"], "nowhere.yaml: there is no such file"),
    ],
)
def test_what_cannot_be_done_is_reported(vsr, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = vsr("reproduce", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_a_study_with_errors_reports_all_of_them(vsr, tmp_path):
    file = tmp_path / "own.yaml"
    wrong = OWN.replace("curves: [one, two]", "curves: [one, tow]").replace("than: one", "than: none")
    file.write_text(wrong + "  - {type: abov, text: x}\nclaim: []\n")
    output = vsr("check", file).output
    assert "claims.1.type: unknown type 'abov'; did you mean 'above'?" in output
    assert "claim: unknown key; did you mean 'claims'?" in output
    assert "there is no experiment 'tow'; there are one, two" in output


# claims


def test_claims_of_ones_own(vsr, own, tmp_path):
    (tmp_path / "my_claims.py").write_text(
        "from typing import Literal\n"
        "from vsr.experiments.claims import CLAIMS, Claim, Outcome\n"
        "class Modest(Claim):\n"
        '    """Nothing is promised."""\n'
        "    type: Literal['modest'] = 'modest'\n"
        "    @property\n"
        "    def needs(self):\n"
        "        return ('one',)\n"
        "    def test(self, results):\n"
        "        return Outcome(f'{len(results)} runs', 0.5, True)\n"
        "CLAIMS['modest'] = Modest\n"
    )
    file = tmp_path / "own.yaml"
    text = OWN.replace("file: ", f"file: {own.parent}/") + "  - {type: modest, text: It is so}\nplugins: [my_claims]\n"
    file.write_text(text)
    try:
        claim = load_study(file, run_plugins=True).study.claims[1]
        assert claim.test({}).evidence == "0 runs"
        assert "Nothing is promised." in vsr("list", "claims").output
    finally:
        CLAIMS.pop("modest", None)
        sys.modules.pop("my_claims", None)
    result = vsr("check", file.write_text(OWN + "  - {type: modest, text: x}\n") and file)
    assert "claims.1.type: unknown type 'modest'" in result.output


@pytest.fixture
def results(tmp_path):
    """Results with given final values; the first generation has half of them."""

    def make(**finals):
        made = {}
        for name, values in finals.items():
            path = tmp_path / name
            path.mkdir()
            experiment = yaml.safe_load(OWN_EXPERIMENT.replace("SEEDS", "1"))
            (path / "config.yaml").write_text(json.dumps(experiment | {"seeds": len(values), "generations": 2}))
            put_meta(path)
            rows = [
                {"generation": g, "seed": s, "best": None if v is None else v * (g + 1) / 2, "median": 0.0, "failed": 0}
                for g in range(2)
                for s, v in enumerate(values)
            ]
            put_statistics(path, rows)
            made[name] = Result(name, name, read_run(path))
        return made

    return make


def test_curves_name_only_reasons_that_occurred(results):
    made = results(good=[1, 2], bad=[3, 4])
    for name, rows in (("good", {}), ("bad", {"empty": 2})):
        path = made[name].run.path
        put_statistics(path, [row | {"failed": sum(rows.values()), "failures": rows} for row in rows_of(path)])
        made[name] = Result(name, name, read_run(path))
    default = ["experiment", "seed", "generation", "evaluations", "best", "population_median", "failed"]
    assert list(curves([made["good"]])[0]) == default
    rows = curves(list(made.values()))
    assert list(rows[0]) == list(rows[-1]) == [*default, "empty"]
    assert (rows[0]["empty"], rows[-1]["empty"]) == (0, 2)


def verdict(claim, made):
    (found,) = judge([claim], made)
    return found


def test_gains_are_judged_by_their_size(results):
    """Of a last best that is twice the first: exactly, nearly, and with a spread that leaves it open."""
    made = results(clear=[10, 11, 12, 13, 14, 15], few=[10], failed=[None, None, None])
    run = made["clear"].run
    wide = run.search_best * np.array([[1, 0.2], [1, 0.4], [1, 1], [1, 1], [1, 2.5], [1, 4]])
    made["open"] = Result("open", "open", dataclasses.replace(run, best=wide, search_best=wide))
    holds = {
        (name, about): verdict(Gain(text="", experiment=name, about=about), made).holds
        for name, about in (
            ("clear", 2.0),
            ("clear", 2.5),
            ("clear", 3.0),
            ("open", 2.0),
            ("few", 2.0),
            ("failed", 2.0),
        )
    }
    assert list(holds.values()) == [
        "supported", "supported", "contradicted", "not significant", "not run", "not run",
    ]  # fmt: skip
    found = verdict(Gain(text="", experiment="clear", about=2.0), made)
    assert "2 times [2, 2], 1.5 to 2.5 expected" in found.evidence
    assert found.tested.p == 1 / 2**6, "all six seeds lie above the lower end, and below the upper one"
    assert verdict(Gain(text="", experiment="clear", about=3.0), made).tested.p == 2 / 2**6


def test_differences_are_judged_by_an_exact_test(results):
    made = results(high=[6, 7, 8, 9, 10], low=[1, 2, 3, 4, 5], mixed=[0.5, 4.5, 5.5, 8.5, 11], half=[7, 9, None, None])

    def holds(experiment, than, **options):
        return verdict(Above(text="", experiment=experiment, than=than, **options), made).holds

    assert holds("high", "low") == "supported"
    assert holds("low", "high") == "contradicted"
    assert holds("mixed", "low") == "not significant"
    assert holds("high", "low", during=(0.0, 0.1)) == "supported"
    assert holds("half", "low") == "not significant"
    found = verdict(Above(text="", experiment="high", than="low"), made)
    assert (found.p, found.effect) == ("0.0079 (0.0079)", "1.00 [1.00, 1.00]")  # 2 / 252
    assert verdict(Wider(text="", experiment="mixed", than="low"), made).holds == "not significant"
    assert "σ 3.58 against 1.41" in verdict(Wider(text="", experiment="mixed", than="low"), made).evidence


def test_claims_of_a_family_are_corrected_together(results):
    made = results(high=[6, 7, 8, 9, 10], low=[1, 2, 3, 4, 5])
    one = Above(text="", experiment="high", than="low")
    alone = one.model_copy(update={"family": "another"})
    never_run = Above(text="", experiment="high", than="gone")
    found = judge([*[one] * 7, alone, never_run], made)
    assert [each.p_holm for each in found[:7]] == pytest.approx([7 * 2 / 252] * 7)
    assert [each.holds for each in found] == ["not significant"] * 7 + ["supported", "not run"]
    assert (found[-1].evidence, found[-1].p, found[-1].effect) == ("gone missing", "", "")
    assert isinstance(found[0].tested, Outcome)


def test_only_finished_runs_are_judged(results):
    made = results(high=[6, 7, 8, 9, 10], low=[1, 2, 3, 4, 5])
    run = made["low"].run
    asked = run.experiment.model_copy(update={"generations": 3})
    longer = dataclasses.replace(run, settings=dataclasses.replace(run.settings, experiment=asked))
    found = verdict(Above(text="", experiment="high", than="low"), made | {"low": Result("low", "low", longer)})
    assert (found.holds, found.evidence) == ("not run", "low not finished")


def test_what_searches_tell_is_compared(results):
    made = results(wide=[1, 2, 3, 4, 5], narrow=[1, 2, 3, 4, 5])
    reported = {"wide": [0.6, 0.7, 0.8, 0.9, 1.0], "narrow": [0.1, 0.2, 0.3, 0.4, np.nan]}
    for name, last in reported.items():
        metrics = {"body.coverage": np.stack([np.zeros(5), last], 1)}
        bodies = np.full((5, 2), 7.0)
        made[name] = Result(name, name, dataclasses.replace(made[name].run, metrics=metrics, bodies=bodies))

    def judged(experiment, than, metric):
        return verdict(MetricAbove(text="", experiment=experiment, than=than, metric=metric), made)

    assert judged("wide", "narrow", "body.coverage").holds == "supported"
    assert judged("wide", "narrow", "body.coverage").evidence == "0.8 against 0.2"
    assert judged("narrow", "wide", "body.coverage").holds == "contradicted"
    assert judged("wide", "narrow", "bodies").holds == "not significant"
    assert judged("wide", "narrow", "coverage").evidence == "wide reports no metric 'coverage'"


@pytest.mark.parametrize("name", ["archives", "together", "pumped"])
def test_studies_of_our_own_are_built_on_every_scale(name):
    (file,) = find_studies(name)
    for scale in file.study.scales.values():
        found = {one: file.experiment(one, scale.settings(one)) for one in file.study.experiments}
        assert (
            len({(e.optimizer.population_size, e.generations, e.seeds, e.task.duration) for e in found.values()}) == 1
        ), "not fair"
        reported = {
            one: {f"{name}.coverage" for name in getattr(e.optimizer, "archives", ())} for one, e in found.items()
        }
        for claim in file.study.claims:
            assert getattr(claim, "metric", "bodies") in {"bodies"} | set.intersection(
                *(reported[o] for o in claim.needs)
            )


def test_gains_are_compared_seed_by_seed(results):
    """Every seed doubles; with first generations four times worse it gains eight times as much."""
    made = results(slow=[1, 2, 3, 4, 5], steep=[1, 2, 3, 4, 5])
    run = made["steep"].run
    steep = run.best * np.array([0.25, 1])
    made["steep"] = Result("steep", "steep", dataclasses.replace(run, best=steep, search_best=steep))
    found = verdict(GainsMore(text="", experiment="steep", than="slow"), made)
    assert (found.holds, found.evidence) == ("supported", "8 times against 2 times")
    assert verdict(GainsMore(text="", experiment="slow", than="steep"), made).holds == "contradicted"
    assert verdict(GainsMore(text="", experiment="slow", than="slow"), made).holds == "not significant"


def test_the_reported_fitness_is_judged_and_not_that_of_the_search(results):
    made = results(lucky=[6, 7, 8, 9, 10], steady=[1, 2, 3, 4, 5])
    run = made["lucky"].run
    reported = run.best.copy()
    reported[:, -1] = 0.5
    made["lucky"] = Result("lucky", "lucky", dataclasses.replace(run, best=reported), np.full((5, 3), 0.4))
    made["steady"] = Result("steady", "steady", made["steady"].run, np.full((5, 3), 3.0))
    found = verdict(Above(text="", experiment="lucky", than="steady"), made)
    assert found.holds == "contradicted"
    assert found.evidence == "0.5 against 3; in the median of further repeats 0.4 against 3"
    during = Above(text="", experiment="lucky", than="steady", during=(0.9, 1.0))
    assert verdict(during, made).holds == "supported"


def test_repeats_are_those_of_this_very_run(results, tmp_path):
    run = results(walk=[3, 4])["walk"].run
    stored = {"generations": 2, "final": [3.0, 4.0], "repeats": [[3.0, 2.5], [4.0, None]]}
    write_checked_json(tmp_path / "walk.json", stored)
    np.testing.assert_array_equal(read_repeats(run, tmp_path, "walk"), [[3.0, 2.5], [4.0, np.nan]])
    write_checked_json(tmp_path / "walk.json", stored | {"final": [3.0, 5.0]})  # of another run
    assert read_repeats(run, tmp_path, "walk") is None


PUBLISHED = """
kind: study
format: 1
title: Walking
experiments:
  walk: {file: walk.yaml, label: walk, row: Walk, set: [seeds=3]}
  other: {file: walk.yaml, label: other, row: Walk, method: another}
  alone: {file: walk.yaml, label: alone}
figure: {panels: [{curves: [walk]}]}
scales: {smoke: {set: [generations=2]}}
published:
  {about: From elsewhere., columns: [A, B], rows: {Walk: [1.5, null]}, bounds: {Walk: 4}, beside: {C: {Walk: 6}}}
"""


def test_scores_stand_beside_published_ones(results, tmp_path):
    """What counts is the median of a robot's repeats; robots that keep less than half of it have vanished."""
    (tmp_path / "walk.yaml").write_text(OWN_EXPERIMENT.replace("SEEDS", "2"))
    (tmp_path / "own.yaml").write_text(PUBLISHED)
    file = load_study(tmp_path / "own.yaml")
    assert len(file.experiment("walk").seeds) == 3
    assert len(file.experiment("other").seeds) == 2
    made = results(walk=[1.0, 2.0, 3.0], other=[1.0, 9.0], alone=[5.0])
    made["walk"] = Result(
        "walk", "walk", made["walk"].run, np.array([[1.0, 1.2, 1.0], [2.0, 1.8, 1.8], [3.0, 0.2, 0.3]])
    )
    text = "\n".join(write_published(file.study, made, tmp_path))
    assert "| Walk | 1.5 |  | 6 | A | 4 | 1 (0.3 to 1.8) | 5* (1 to 9) | 3, 9 | 1 of 3, 0 of 2 |" in text
    assert "another: at least the best published score in 0 of 1 tasks, of which 1 are not finished" in text
    made["other"] = dataclasses.replace(made["other"], repeats=np.array([[1.0], [9.0]]))
    text = "\n".join(write_published(file.study, made, tmp_path))
    assert "| 1 (0.3 to 1.8) | **5** (1 to 9) |" in text
    assert "ours: at least the best published score in 0 of 1 tasks" in text
    assert "another: at least the best published score in 1 of 1 tasks" in text
    assert "With C counted, too: in 0 of 1." in text
    assert text.count("Best seed against best run, both as selected: in 1 of 1.") == 2
    with (tmp_path / "published.csv").open() as table:
        first, second = csv.DictReader(table)
    assert (first["method"], first["median"], first["as_evolved"], first["vanished"]) == ("ours", "1", "2", "1")
    assert (second["method"], second["best_published"], second["A"]) == ("another", "1.5", "1.5")


def test_exploits_do_not_count_and_robots_are_tried_elsewhere(results, tmp_path):
    """A winner that breaks a rule in most of its trials ranks last; its score abroad is beside that at home."""
    (tmp_path / "walk.yaml").write_text(OWN_EXPERIMENT.replace("SEEDS", "2"))
    (tmp_path / "own.yaml").write_text(PUBLISHED + "transfer: {engines: [points]}\n")
    study = load_study(tmp_path / "own.yaml").study
    made = results(walk=[1.0, 2.0, 30.0])
    repeats = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [30.0, 30.0, 30.0]])
    made["walk"] = dataclasses.replace(made["walk"], repeats=repeats)
    broken = np.zeros((3, 3, len(RULES)), bool)
    broken[1, 0, 0] = broken[2, :2, 2] = True
    abroad = Elsewhere("points", 1, np.array([[0.95, 0.95], [0.5, 0.5], [np.nan, np.nan]]))
    refused = Elsewhere("points", 2, np.full((3, 2), np.nan), "it has soft ground")
    found = Checked("evogym", repeats, broken, (abroad, refused))
    text = "\n".join(write_published(study, made, tmp_path, {"walk": found}))
    assert "| Walk | 1.5 |  | 6 | A | 4 | 1 (-inf to 2) |".replace("-inf", "none") in text
    assert "| Walk | ours | 2 | 30 | too fast | 2 of 3 |" in text
    assert "| Walk | ours | evogym 2 | 0.725 (1 of 2 keep it) | not tried |" in text
    assert "points: 1 of 2 winners keep their score, 1 at least half of it" in text
    tables = json.loads((tmp_path / "published.json").read_text())
    assert [row["exploits"] for row in tables["published"]] == [1]
    assert [row["failed"] for row in tables["transfer"]] == [0, 1, 0]
    assert tables["transfer"][2]["reason"] == "it has soft ground"


def test_exploits_are_found_by_their_rules():
    """A voxel in a wall or behind it, a flight, a leap; rest, a walk and a fall are none."""
    solid = np.zeros((12, 60), bool)
    solid[0], solid[:, 20] = True, True
    solid[11, :21] = solid[:, 0] = True  # a chamber: nobody comes to the other side of the wall
    present = np.array([[True]])

    def episode(*places):
        corner = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], float)
        return (corner + np.array(places, float)[:, None])[:, :, None, None, :]

    def broken(*places, solid=solid):
        found = exploits_of(episode(*places), present, solid)
        return {rule for rule, is_broken in zip(RULES, found, strict=True) if is_broken}

    assert not broken((5, 1), (5.3, 0.95), (5.6, 1.2), (5.6, 1))
    assert not broken((5, 8), (5, 7), (5, 5), (5, 1))  # falling is fast
    assert broken((5, 1), (5.6, 1)) == {"too fast"}
    assert broken((5, 1), (5, 1.6)) == {"too fast"}
    assert broken((18, 1), (18.5, 1), (19, 1), (19.5, 1), (19.9, 1)) == set()  # halfway into the wall
    assert broken((19.5, 1), (19.8, 1), (20.1, 0.5), (20.4, 0.2)) == {"in the ground"}
    assert broken(*((19.5 + 0.4 * step, 1) for step in range(6))) == {"in the ground"}
    low = np.zeros((12, 60), bool)
    low[0] = True
    assert not broken(*((5, 1 + 0.4 * step) for step in range(12)), solid=low)
    assert broken(*((5, 1 + 0.4 * step) for step in range(15)), solid=low) == {"in flight"}
    assert broken(*((19.5 + 0.4 * step, 1) for step in range(6)), solid=low) == set()


@pytest.mark.parametrize(
    ("given", "instead", "message"),
    [
        ("[1.5, null]", "[1.5]", "published.rows.Walk: 1 scores given for 2 columns"),
        ("bounds: {Walk: 4}", "bounds: {Run: 4}", "published.bounds.Run: there is no row 'Run'"),
        ("row: Walk, set", "row: Run, set", "experiments.walk.row: `published` has no row 'Run'"),
    ],
)
def test_published_scores_must_fit(tmp_path, given, instead, message):
    (tmp_path / "own.yaml").write_text(PUBLISHED.replace(given, instead))
    with pytest.raises(UserError, match=re.escape(message)):
        load_study(tmp_path / "own.yaml")


def test_the_study_of_evogym_keeps_to_its_budget():
    """Environment steps of a seed: 100 to 200 bodies with as many updates of 128 steps as an episode has steps.

    Policies' evaluations are not counted, as in published runs; open-loop controllers' second looks are.
    """
    (file,) = find_studies("evogym")
    published = file.study.published
    assert {member.row for member in file.study.experiments.values()} == set(published.rows)
    difficulty, learners, spent = {}, set(), {}
    for name, member in file.study.experiments.items():
        experiment = file.experiment(name)
        size, learning = experiment.optimizer.population_size, experiment.learning
        steps = experiment.evaluation.cost(size) * experiment.schedule().calls
        difficulty[member.row] = experiment.task.row.difficulty
        if learning is not None:
            assert experiment.optimizer.budget == size * experiment.generations
            assert learning.in_one_round
            learners.add(member.row)
            steps = size * learning.steps_taken
        spent[name] = member.row, steps * experiment.generations / (128 * experiment.schedule().calls)
        assert experiment.robot.body.engine == "evogym"
        assert experiment.evaluation.trials == 1
    assert learners == set(published.rows)
    difficulty["HeightMaximizer-v0"] = "medium"  # in the published list
    bodies = {row: {"easy": 100, "medium": 150, "hard": 200}[own] for row, own in difficulty.items()}
    assert {count: list(bodies.values()).count(count) for count in (100, 150, 200)} == {100: 11, 150: 11, 200: 9}
    for name, (row, bodies_worth) in spent.items():
        assert 0.95 * bodies[row] < bodies_worth <= bodies[row], name


def test_what_takes_longest_begins_first():
    (file,) = find_studies("evogym")
    jobs = [(name, file.experiment(name)) for name in ("Thrower-v0", "Hurdler-v0", "Walker-v0", "Walker-v0-policy")]
    assert longest_first(jobs) == ["Hurdler-v0", "Walker-v0-policy", "Walker-v0", "Thrower-v0"]


def test_configs_of_studies_are_named_by_one():
    studies = [*find_studies("all"), *(find_studies(name)[0] for name in OUR_OWN)]
    named = {file.file(name).resolve() for file in studies for name in file.study.experiments}
    assert named == set((ROOT / "vsr" / "configs" / "studies").glob("*/*.yaml"))
