"""Many runs, many generations and many combinations at once: the quick ways give what the plain ones give."""

import json

import numpy as np
import pytest
from conftest import ROOT, TINY
from scipy.stats import mannwhitneyu

import vsr
from vsr import spec
from vsr.experiments import experiment, lines
from vsr.experiments.config import ConfigError, dump_plain, dump_yaml, load_experiment
from vsr.experiments.config import parse_experiment as parse
from vsr.experiments.config.loading import is_written, load_experiment_alike, load_variants, settled
from vsr.experiments.config.overrides import override
from vsr.experiments.config.yaml import Document
from vsr.experiments.plot.comparison import Pair, clearest, holm, rank_tests, superiority
from vsr.experiments.plot.curves import MOST_POINTS, thinned
from vsr.experiments.runs import columns, settings
from vsr.experiments.runs.columns import keep_columns, read_columns
from vsr.experiments.runs.ranks import quantile, quantiles_of_each
from vsr.experiments.runs.reading import read_run

EXPERIMENTS = sorted(
    path
    for path in (ROOT / "vsr" / "configs").rglob("*.yaml")
    if "reach" not in path.parts and any(line.startswith(("ea:", "generations:")) for line in path.open())
)


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
    values = [["ea.n_pop=8", "world.gravity=5"], ["generations=3"]]
    assert list(load_variants(path, ["task.duration=6"], values)) == [
        load_experiment(path, ["task.duration=6"], swept) for swept in values
    ]


def test_faults_of_variants_are_those_of_the_plain_way(tiny):
    values = [["ea.n_pop=8"], ["ea.n_pop=x"], ["robot.body.shape=[aab]"], ["nothing=1"], ["fitness=speed"], ["ea=x"]]
    found = list(load_variants(tiny, (), values))
    assert found[0] == load_experiment(tiny, (), values[0])
    for swept, fault in zip(values[1:], found[1:], strict=True):
        with pytest.raises(ConfigError) as plain:
            load_experiment(tiny, (), swept)
        assert str(fault) == str(plain.value)


@pytest.mark.parametrize(
    "text", ["ea: {n_pop: 6}\nea: {n_pop: 7}\n", "- 1\n", "robot: {\nea: 1}\n", "some: thing\n" + TINY, ""]
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
    found = spec.remembering(lambda one, other: calls.append((one, other)) or len(calls))
    a, b, c = vsr.Physics(), vsr.Physics(), vsr.Physics(substeps=9)
    assert [found(a, c), found(a, c), found(c, a), found(b, c), found(b, c)] == [1, 1, 2, 3, 3]
    assert found(a, c) == 4  # forgotten


def test_experiments_of_one_sweep_are_looked_at_together(tiny, monkeypatch):
    looked_at = []
    check = experiment.check_episode
    monkeypatch.setattr(experiment, "check_episode", lambda *given: looked_at.append(given) or check(*given))
    values = [[f"ea.n_pop={size}", f"world.gravity={gravity}"] for size in (6, 7, 8) for gravity in (8, 9)]
    found = list(load_variants(tiny, (), values))
    assert len(looked_at) == 2
    assert [(one.ea.n_pop, one.world.gravity) for one in found] == [(n, g) for n in (6, 7, 8) for g in (8, 9)]
    assert found == [load_experiment(tiny, (), swept) for swept in values]


def test_a_file_with_what_was_set_over_it_reads_back(tiny, tmp_path):
    again = tmp_path / "again.yaml"
    again.write_text(settled(tiny, ["ea.n_pop=9", "robot.body.shape=['aa', '.a']", "fitness=travel_velocity"]))
    expected = load_experiment(tiny, ["ea.n_pop=9", "robot.body.shape=['aa', '.a']", "fitness=travel_velocity"])
    assert load_experiment(again) == expected


def test_a_file_says_what_was_written_and_nothing_else(tmp_path):
    plain, path = {**load_experiment(ROOT / "vsr" / "configs" / "quickstart.yaml").to_plain()}, tmp_path / "config.yaml"
    path.write_text("# a comment\n" + dump_plain(plain))
    assert is_written(path, plain)
    assert not is_written(path, {**plain, "generations": 7})
    assert is_written(path, {**plain, "generations": 7}, ["generations"])
    assert not is_written(path, {name: part for name, part in plain.items() if name != "learning"})
    assert not is_written(path, {**plain, "more": 1})
    assert not is_written(path, {**plain, "ea": {**plain["ea"], "sigma": 0.5}})
    assert not is_written(path, {**plain, "plugins": ["mine"]})
    path.write_text(dump_plain({name: part for name, part in plain.items() if name != "learning"}))
    assert not is_written(path, plain)
    for text in ("", "robot: [", "ea: {n_pop: 6}\nea: {n_pop: 6}\n"):
        path.write_text(text)
        assert not is_written(path, plain)
    assert not is_written(tmp_path / "none.yaml", plain)


@pytest.mark.parametrize("changed", [False, True])
def test_settings_of_an_older_version_are_read_once(tmp_path, monkeypatch, changed):
    """They lack what has been added since, so that they are not what this version would write."""
    plain = load_experiment(ROOT / "vsr" / "configs" / "quickstart.yaml").to_plain()
    older = {name: part for name, part in plain.items() if name not in ("learning", "evaluation")}
    (tmp_path / "meta.json").write_text(json.dumps({"starts": [], "plugins": {}, "experiment": older}))
    now = {**older, "ea": {**older["ea"], "sigma": 0.5}} if changed else older
    (tmp_path / "config.yaml").write_text(dump_plain({**now, "generations": 7}))
    parsed = []
    monkeypatch.setattr(
        settings, "parse_experiment", lambda *given, **more: parsed.append(given) or parse(*given, **more)
    )
    found = settings.read_settings(tmp_path)
    assert len(parsed) == changed
    assert found.begun == older
    assert found.experiment.to_plain() == {
        **parse(json.dumps(older)).to_plain(),
        "generations": older["generations"] if changed else 7,
    }
    assert [name for name, *_ in found.changes] == (["ea.sigma"] if changed else [])


# many generations


def row(generation, seed, **changes):
    return {
        "generation": generation, "seed": seed, "best": 0.1 * generation + seed, "median": None if seed else -1e-7,
        "failed": 3, "failures": {"inverted": 2, "empty": 1} if seed else {}, "evaluations": 6, "best_id": 4,
        "spread": 0.25, "bodies": 2, "seconds": 0.5, **changes,
    }  # fmt: skip


def put_statistics(path, rows):
    path.mkdir(exist_ok=True)
    (path / "config.yaml").write_text(TINY)
    (path / "meta.json").write_text('{"starts": [], "plugins": {}}')
    (path / "statistics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in ("best", "median", "failed", "spread", "bodies")
    ) and all(np.array_equal(one.failures[name], other.failures[name]) for name in one.failures)


def test_statistics_read_at_once_are_those_read_line_by_line(tmp_path):
    rows = [row(generation, seed) for generation in range(700) for seed in (0, 1)]  # more than is read at once
    path = put_statistics(tmp_path / "run", rows)
    assert read_columns(path / "statistics.jsonl", (0, 1)) is not None
    quick = read_run(path)
    (path / "statistics.jsonl").write_text("".join(json.dumps({"more": 1, **row}) + "\n" for row in rows))
    assert read_columns(path / "statistics.jsonl", (0, 1)) is None
    assert same(quick, read_run(path))
    assert quick.generations == 700
    assert quick.failures["inverted"][1, 699] == 2
    assert np.isnan(quick.median[1]).all()


def test_columns_beside_a_long_file_are_believed_only_if_they_are_of_it(tmp_path, monkeypatch):
    rows = [row(generation, seed) for generation in range(40) for seed in (0, 1)]
    file = put_statistics(tmp_path / "run", rows) / "statistics.jsonl"
    keep_columns(file)
    beside = file.with_suffix(".npz")
    assert not beside.exists()  # reading a short file is quick
    monkeypatch.setattr(columns, "LONG", file.stat().st_size)
    keep_columns(file)
    plain, whole, read_part = file.read_bytes(), lines.read_part(file, 0, file.stat().st_size), lines.read_part

    def found(part=read_part):
        lines._read.cache_clear()
        monkeypatch.setattr(lines, "read_part", part)
        return lines.read_lines(file)

    def nothing(*_):
        raise AssertionError("lines were read")

    assert all(np.array_equal(column, whole[name], equal_nan=True) for name, column in found(nothing).items())
    more = "".join(json.dumps(row(40, seed, failures={"buried": 1})) + "\n" for seed in (0, 1)).encode()
    file.write_bytes(plain + more)
    longer = found(lambda file, start, end: read_part(file, start, end) if start else nothing())
    assert longer["best"].tolist() == [*whole["best"], 4.0, 5.0]
    assert longer["failures.buried"].tolist() == [0.0] * 80 + [1.0] * 2
    file.write_bytes(plain.replace(b'"best": 0.1,', b'"best": 0.2,', 1))
    assert found()["best"][2] == 0.2
    file.write_bytes(plain[: plain.rindex(b'{"generation"')])
    assert len(found()["best"]) == 79
    file.write_bytes(plain)
    kept = bytearray(beside.read_bytes())
    kept[len(kept) // 2] ^= 1
    beside.write_bytes(kept)
    with pytest.raises(AssertionError, match="lines were read"):
        found(nothing)
    assert np.array_equal(found()["best"], whole["best"])


def test_columns_beside_a_file_are_looked_at_ahead_and_what_has_none_of_use_is_read_by_processes(tmp_path, monkeypatch):
    rows = [row(generation, seed) for generation in range(40) for seed in (0, 1)]
    kept, stale = (put_statistics(tmp_path / name, rows) / "statistics.jsonl" for name in ("kept", "stale"))
    monkeypatch.setattr(columns, "LONG", 1)
    for file in (kept, stale):
        keep_columns(file)
    plain = stale.read_bytes()
    stale.write_bytes(plain.replace(b'"best": 0.1,', b'"best": 0.2,', 1))
    monkeypatch.setattr(lines, "BYTES_FOR_A_PROCESS", len(plain) // 2)
    monkeypatch.setattr(lines, "_cores", lambda: 2)
    lines.begin([kept, stale, tmp_path / "absent"])
    (look,) = [future for version, future in lines._looked_at.items() if version.path == str(stale)]
    assert look.result(60) is None
    assert [(version.path, len(readers)) for version, readers in lines._begun.items()] == [(str(stale), 2)]

    def nothing(*_):
        raise AssertionError("lines were read here")

    monkeypatch.setattr(lines, "read_part", nothing)
    assert lines.read_lines(stale)["best"][2] == 0.2
    assert lines.read_lines(kept)["best"][2] == 0.1
    assert not lines._begun
    assert not lines._looked_at


def test_parts_of_a_file_read_by_several_processes_are_the_whole(tmp_path, monkeypatch):
    path = put_statistics(tmp_path / "run", [row(generation, seed) for generation in range(40) for seed in (0, 1)])
    file = path / "statistics.jsonl"
    whole, size = lines.read_part(file, 0, file.stat().st_size), file.stat().st_size
    assert whole is not None
    for cut in (0, 1, 230, size // 2, size - 1):
        pieces = [lines.read_part(file, 0, cut), lines.read_part(file, cut, size)]
        assert all(
            np.array_equal(column, whole[name], equal_nan=True) for name, column in lines._joined(pieces).items()
        )
    monkeypatch.setattr(lines, "BYTES_FOR_A_PROCESS", size)
    monkeypatch.setattr(lines, "_cores", lambda: 2)
    other = put_statistics(tmp_path / "other", [row(generation, 3) for generation in range(80)]) / "statistics.jsonl"
    files = [file, other, tmp_path / "absent"]
    single = [lines.read_part(one, 0, one.stat().st_size) for one in files[:2]]
    lines.begin(files)
    assert len({reader for readers in lines._begun.values() for reader, _ in readers}) == 2
    for one, right in zip(files, [*single, None], strict=True):
        found = lines.read_lines(one)
        assert (found is None) == (right is None)
        assert all(np.array_equal(column, right[name], equal_nan=True) for name, column in (found or {}).items())
    with file.open("a") as more:
        more.write('{"generation": 40')
    lines.begin(files)
    assert lines.read_lines(file) is None
    assert lines.read_lines(other) is not None
    assert not lines._begun


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:-1], lines[-1][:-9]],  # torn
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[0].replace('"best": 0.0', '"best": "x"'), *lines[1:]],
        lambda lines: [
            lines[0].replace("inverted", "inverted"),
            lines[1].replace("inverted", "unheard_of"),
            *lines[2:],
        ],
        lambda lines: [lines[0].replace('"median"', '"nadiem"'), *lines[1:]],
        lambda lines: [],
    ],
)
def test_whatever_is_unusual_about_statistics_is_read_line_by_line(tmp_path, damage):
    path = put_statistics(tmp_path / "run", [row(generation, seed) for generation in range(3) for seed in (0, 1)])
    file = path / "statistics.jsonl"
    assert read_columns(file, (0, 1)) is not None
    file.write_text("".join(damage(file.read_text().splitlines(keepends=True))))
    assert read_columns(file, (0, 1)) is None


def test_thinned_curves_keep_their_ends_and_extremes():
    line = np.sin(np.arange(100_000) / 1000)
    line[54_321], line[12_345], line[700:900] = 5.0, -5.0, np.nan
    shown = thinned(line)
    assert shown.size <= MOST_POINTS
    assert {0, 12_345, 54_321, line.size - 1} <= set(shown.tolist())
    assert (np.diff(shown) > 0).all()
    assert np.array_equal(thinned(line[:MOST_POINTS]), np.arange(MOST_POINTS))


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
        expected = mannwhitneyu(a, b, alternative="two-sided").pvalue if min(len(a), len(b)) > 1 else np.nan
        assert one == pytest.approx(expected, rel=1e-9, nan_ok=True)


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
