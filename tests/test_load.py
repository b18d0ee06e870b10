"""Many runs, many generations and many combinations at once: the quick ways give what the plain ones give."""

import csv
import itertools

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT, TINY
from growing import begin_run, put_statistics, rows
from scipy.stats import mannwhitneyu

import vsr
from vsr import spec
from vsr.arrays import CorruptFileError
from vsr.cli import main
from vsr.experiments import experiment
from vsr.experiments.config import ConfigError, dump_plain, dump_yaml, load_experiment
from vsr.experiments.config.loading import is_written, load_experiment_alike, load_variants, settled
from vsr.experiments.config.overrides import override
from vsr.experiments.config.yaml import Document
from vsr.experiments.plot.comparison import Pair, clearest, rank_tests
from vsr.experiments.plot.curves import MOST_POINTS, thin
from vsr.experiments.ranks import holm, p_value, quantile, quantiles_of_each, superiority, superiority_interval
from vsr.experiments.shipped import EXPERIMENT, shipped_files
from vsr.experiments.storage.files import json_line
from vsr.experiments.storage.statistics import read_statistics

EXPERIMENTS = [file.path for file in shipped_files() if file.kind == EXPERIMENT]


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


# many experiments that are alike


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_experiments_made_of_known_parts_are_what_they_would_be_otherwise(path, tmp_path):
    whole = load_experiment(path)
    assert load_experiment_alike(path) == whole
    (tmp_path / "written.yaml").write_text(dump_yaml(whole.resolved()))
    assert load_experiment_alike(tmp_path / "written.yaml") == whole.resolved()
    values = [["optimizer.population_size=8", "world.gravity=5"], ["generations=3"]]
    assert list(load_variants(path, ["task.duration=6"], values)) == [
        load_experiment(path, ["task.duration=6"], swept) for swept in values
    ]


def test_faults_of_variants_are_those_of_the_plain_way(tiny):
    values = [
        ["optimizer.population_size=8"],
        ["optimizer.population_size=x"],
        ["robot.body.shape=[aab]"],
        ["nothing=1"],
        ["fitness=speed"],
        ["optimizer=x"],
    ]
    found = list(load_variants(tiny, (), values))
    assert found[0] == load_experiment(tiny, (), values[0])
    for swept, fault in zip(values[1:], found[1:], strict=True):
        with pytest.raises(ConfigError) as plain:
            load_experiment(tiny, (), swept)
        assert str(fault) == str(plain.value)


@pytest.mark.parametrize(
    "text",
    [
        "optimizer: {population_size: 6}\noptimizer: {population_size: 7}\n",
        "- 1\n",
        "robot: {\noptimizer: 1}\n",
        "some: thing\n" + TINY,
        "",
    ],
)
def test_unusual_files_go_the_plain_way(tmp_path, text):
    path = tmp_path / "unusual.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as plain:
        load_experiment(path)
    with pytest.raises(ConfigError) as quick:
        load_experiment_alike(path)
    assert str(quick.value) == str(plain.value)


def test_variants_do_not_share_lists_that_were_set(tiny):
    documents = [Document("x", {}), Document("x", {})]
    for document in documents:
        override(document, ["robot.body.shape=['aa', '.a']"])
    documents[0].data["robot"]["body"]["shape"].append("aa")
    assert documents[1].data == {"robot": {"body": {"shape": ["aa", ".a"]}}}


def test_functions_of_descriptions_remember_the_very_same_ones(monkeypatch):
    monkeypatch.setattr(spec, "REMEMBERED", 2)
    calls = []
    found = spec.memoize(lambda one, other: calls.append((one, other)) or len(calls))
    a, b, c = vsr.Physics(), vsr.Physics(), vsr.Physics(substeps=9)
    assert [found(a, c), found(a, c), found(c, a), found(b, c), found(b, c)] == [1, 1, 2, 3, 3]
    assert found(a, c) == 4  # forgotten


def test_experiments_of_one_sweep_are_looked_at_together(tiny, monkeypatch):
    looked_at = []
    check = experiment.check_episode
    monkeypatch.setattr(experiment, "check_episode", lambda *given: looked_at.append(given) or check(*given))
    values = [
        [f"optimizer.population_size={size}", f"world.gravity={gravity}"] for size in (6, 7, 8) for gravity in (8, 9)
    ]
    found = list(load_variants(tiny, (), values))
    assert len(looked_at) == 2
    assert [(one.optimizer.population_size, one.world.gravity) for one in found] == [
        (n, g) for n in (6, 7, 8) for g in (8, 9)
    ]
    assert found == [load_experiment(tiny, (), swept) for swept in values]


def test_a_file_with_what_was_set_over_it_reads_back(tiny, tmp_path):
    again = tmp_path / "again.yaml"
    again.write_text(
        settled(tiny, ["optimizer.population_size=9", "robot.body.shape=['aa', '.a']", "fitness=travel_velocity"])
    )
    expected = load_experiment(
        tiny, ["optimizer.population_size=9", "robot.body.shape=['aa', '.a']", "fitness=travel_velocity"]
    )
    assert load_experiment(again) == expected


def test_a_file_says_what_was_written_and_nothing_else(tmp_path):
    plain, path = (
        {**load_experiment(ROOT / "vsr" / "configs" / "examples" / "01_first_walker.yaml").to_plain()},
        tmp_path / "config.yaml",
    )
    path.write_text("# a comment\n" + dump_plain(plain))
    assert is_written(path, plain)
    assert not is_written(path, {**plain, "generations": 7})
    assert is_written(path, {**plain, "generations": 7}, ["generations"])
    assert not is_written(path, {name: part for name, part in plain.items() if name != "learning"})
    assert not is_written(path, {**plain, "more": 1})
    assert not is_written(path, {**plain, "optimizer": {**plain["optimizer"], "sigma": 0.5}})
    assert not is_written(path, {**plain, "plugins": ["mine"]})
    path.write_text(dump_plain({name: part for name, part in plain.items() if name != "learning"}))
    assert not is_written(path, plain)
    for text in ("", "robot: [", "optimizer: {population_size: 6}\noptimizer: {population_size: 6}\n"):
        path.write_text(text)
        assert not is_written(path, plain)
    assert not is_written(tmp_path / "none.yaml", plain)


# many generations


def many(folder, generations):
    """A run with so many generations."""
    (begin_run(folder) / "checkpoints").rmdir()
    put_statistics(folder, [row for generation in range(generations) for row in rows(generation)])
    return folder


def test_statistics_that_have_grown_are_what_they_would_be_read_at_once(tmp_path):
    run = many(tmp_path / "run", 40)
    file = run / "statistics.bin"
    data, known = file.read_bytes(), None
    for length in range(data.index(b"\n") + 1, len(data) + 1, 1009):
        file.write_bytes(data[:length])
        known = read_statistics(file, known)
        assert known.records.tobytes() == read_statistics(file).records.tobytes()
    file.write_bytes(data)
    assert read_statistics(file, known).generations == 40


def test_every_flipped_bit_in_statistics_is_noticed(tmp_path):
    file = many(tmp_path / "run", 2) / "statistics.bin"
    data, whole = file.read_bytes(), read_statistics(file)
    size = whole.header.record.itemsize
    for bit in [*range(0, 8 * data.index(b"\n"), 7), *range(8 * (len(data) - 2 * size), 8 * len(data), 7)]:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        try:
            found = read_statistics(file)
        except CorruptFileError:
            continue
        lost = (bit // 8 - (len(data) - 2 * size)) // size
        assert (found.corrupted, found.generations) == (((0,), 2) if lost == 0 else ((), 1))


@pytest.mark.parametrize(
    "text", ["", "no JSON\n", '{"kind": "statistics"}\n', json_line({"kind": "recording", "format": 1}),
             json_line({"kind": "statistics", "format": 2}), json_line({"kind": "statistics", "format": 1, "seeds": 3})]
)  # fmt: skip
def test_what_is_no_statistics_is_told(tmp_path, text):
    (tmp_path / "statistics.bin").write_text(text)
    with pytest.raises(CorruptFileError, match=r"statistics\.bin"):
        read_statistics(tmp_path / "statistics.bin")


def test_statistics_are_written_as_a_table(tmp_path):
    runs = [many(tmp_path / name, 3) for name in ("a", "b")]
    target = tmp_path / "table.csv"
    result = CliRunner().invoke(main, ["plot", *map(str, runs), "--csv", "--out", str(target)])
    assert result.exit_code == 0, result.output
    with target.open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 * 3 * 2
    first = table[0]
    assert {name: first[name] for name in ("run", "generation", "seed", "evaluations", "best", "failed", "spread")} == {
        "run": str(runs[0]), "generation": "0", "seed": "0", "evaluations": "6", "best": "0.1", "failed": "0",
        "spread": "",
    }  # fmt: skip
    assert table[-1]["best"] == repr(0.1 * 3 + 1)


def test_thinned_curves_keep_their_ends_and_extremes():
    line = np.sin(np.arange(100_000) / 1000)
    line[54_321], line[12_345], line[700:900] = 5.0, -5.0, np.nan
    shown = thin(line)
    assert shown.size <= MOST_POINTS
    assert {0, 12_345, 54_321, line.size - 1} <= set(shown.tolist())
    assert (np.diff(shown) > 0).all()
    assert np.array_equal(thin(line[:MOST_POINTS]), np.arange(MOST_POINTS))


# many runs


def test_tests_of_many_pairs_are_those_of_each():
    random = np.random.default_rng(1)
    samples = [random.integers(0, 4, size) + 0.0 for size in (5, 5, 9, 3, 1, 9)]
    samples += [random.normal(size=size) for size in (5, 8, 10)]
    samples[2][:2] = -np.inf
    first, second = np.triu_indices(len(samples), 1)
    p, effects = rank_tests(samples, first, second)
    for i, j, one, effect in zip(first, second, p, effects, strict=True):
        a, b = samples[i], samples[j]
        assert effect == superiority(a, b)
        assert one == pytest.approx(p_value(a, b), rel=1e-9, nan_ok=True)


def test_the_rank_test_is_exact():
    random = np.random.default_rng(3)
    for n, m in ((2, 3), (5, 5), (10, 10), (7, 30)):
        a, b = random.normal(size=n), random.normal(0.5, size=m)
        assert p_value(a, b) == pytest.approx(mannwhitneyu(a, b, method="exact").pvalue, rel=1e-9)
    assert p_value(np.arange(10.0), np.arange(10.0) + 10) == pytest.approx(2 / 184_756)
    a, b = np.array([1.0, 1, 2, -np.inf]), np.array([1.0, 3, 3])
    everyone, found = np.concatenate([a, b]), abs(superiority(a, b) - 0.5)
    ways = [
        superiority(everyone[list(chosen)], np.delete(everyone, list(chosen)))
        for chosen in itertools.combinations(range(7), 4)
    ]
    assert p_value(a, b) == pytest.approx(np.mean(abs(np.array(ways) - 0.5) >= found - 1e-12))
    assert p_value(np.ones(3), np.ones(4)) == 1
    assert np.isnan(p_value(np.ones(1), np.ones(4)))


def test_effects_have_intervals_that_repeat():
    random = np.random.default_rng(4)
    a, b = random.normal(0.5, size=20), random.normal(size=20)
    low, high = superiority_interval(a, b)
    assert (low, high) == superiority_interval(a, b)
    assert 0.4 < low < float(superiority(a, b)) < high < 1


def test_quantiles_of_many_samples_are_those_of_each():
    random = np.random.default_rng(2)
    samples = [random.normal(size=size) for size in (5, 3, 1, 5, 8, 5)]
    samples[3][1] = samples[4][0] = -np.inf
    shares = [0.25, 0.5, 0.75]
    expected = [quantile(sample, np.array(shares)).tolist() for sample in samples]
    assert quantiles_of_each(samples, shares).tolist() == expected


def test_holm_raises_what_is_small_and_leaves_what_is_no_number():
    assert holm([0.01, np.nan, 0.04, 0.03]).tolist() == pytest.approx([0.03, np.nan, 0.06, 0.06], nan_ok=True)


def test_of_many_pairs_the_clearest_are_shown():
    pairs = [Pair("a", str(number), 0.0, p, p, 0.5) for number, p in enumerate([0.5, np.nan, 0.1, 0.3])]
    assert clearest(pairs) == (pairs, "")
    assert clearest(pairs, 2) == ([pairs[2], pairs[3]], "the 2 of 4 pairs with the smallest p")
