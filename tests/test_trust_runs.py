"""What is in a run folder is believed only where something proves it."""

import io
import json
import os
import random
import shutil
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY, apart

import vsr.cli as cli
import vsr.experiments.evolve.command as evolve_module
from vsr.arrays import CorruptFileError, packed, read_arrays, read_label, unpacked
from vsr.experiments import devices
from vsr.experiments.config import UserError
from vsr.experiments.devices import private_folder
from vsr.experiments.evolve.command import evolve
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.options import EvolveOptions
from vsr.experiments.report.findings import find_out
from vsr.experiments.storage.files import json_line, numbered_files, parse_json_line
from vsr.experiments.storage.lineage import read_lineage
from vsr.experiments.storage.robots import load_robot
from vsr.experiments.storage.runs import read_run
from vsr.experiments.storage.settings import read_settings
from vsr.experiments.sweep.folder import saved_generations
from vsr.experiments.train.folder import TrainingFolder
from vsr.experiments.watch.following import Follower

ARRAYS = {
    "genes": np.arange(12, dtype=np.float32).reshape(3, 4),
    "id": np.array([[1, 2, -1]], np.int32),
    "nothing": np.zeros((0, 2)),
}


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_arrays_without_a_check_sum_are_refused():
    target = io.BytesIO()
    np.savez_compressed(target, **ARRAYS)
    with pytest.raises(CorruptFileError, match=r"a\.npz: corrupted \("):
        unpacked(target.getvalue(), "a.npz")


# files of arrays


def test_arrays_come_back_as_they_were_with_their_label(tmp_path):
    file = tmp_path / "a.npz"
    data, digest = packed(ARRAYS, {"generation": 3})
    file.write_bytes(data)
    stored = read_arrays(file)
    assert stored.label == {"generation": 3}
    assert stored.digest == digest == read_label(file)[1]
    with np.load(file) as plain:  # what numpy alone makes of it
        assert plain.files == list(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(stored.arrays[name], array)
            np.testing.assert_array_equal(plain[name], array)
            assert stored.arrays[name].dtype == array.dtype
    assert zipfile.ZipFile(file).testzip() is None


def test_every_flipped_bit_is_damage():
    """All of them, the check sum's own included."""
    data, _ = packed(ARRAYS, {"generation": 3})
    for bit in range(8 * len(data)):
        with pytest.raises(CorruptFileError, match=r"a\.npz: corrupted \("):
            unpacked(flipped(data, bit), "a.npz")


def test_a_file_that_is_cut_off_is_damage():
    data, _ = packed(ARRAYS)
    for length in range(len(data)):
        with pytest.raises(CorruptFileError):
            unpacked(data[:length], "a.npz")


def test_a_folder_or_nothing_in_its_place_is_damage(tmp_path):
    with pytest.raises(CorruptFileError, match="Is a directory"):
        read_arrays(tmp_path)
    with pytest.raises(CorruptFileError, match=r"none\.npz: missing"):
        read_arrays(tmp_path / "none.npz")


def test_a_label_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="label of 1000"):
        packed(ARRAYS, {"long": "x" * 100_000})


# compiled programs: what is read is run


def test_the_folder_of_compiled_programs_is_this_users_alone(tmp_path, monkeypatch):
    mine = private_folder(tmp_path / "mine")
    assert mine.stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(mine)
    (tmp_path / "file").write_text("")
    assert private_folder(tmp_path / "link") is None
    assert private_folder(tmp_path / "file") is None
    assert private_folder(tmp_path / "file" / "below") is None
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert private_folder(mine) is None


def test_a_folder_that_others_could_write_to_is_emptied(tmp_path):
    mine = private_folder(tmp_path / "mine")
    (mine / "program").write_text("")
    mine.chmod(0o755)
    assert private_folder(mine) == mine
    assert (mine / "program").exists()  # they could only look
    mine.chmod(0o775)
    (mine / "below").mkdir()
    assert private_folder(mine) == mine
    assert mine.stat().st_mode & 0o777 == 0o700
    assert not list(mine.iterdir())


def test_the_oldest_programs_go_once_all_take_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("vsr.experiments.devices.MOST_KEPT", 1000)
    for age in range(12):
        file = tmp_path / f"program-{age}"
        file.write_bytes(bytes(100))
        os.utime(file, (1e9 - age, 1e9 - age))
    devices._forget_oldest(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {f"program-{age}" for age in range(4)}


def test_a_user_without_a_home_only_loses_time(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    assert devices.cache_folder() is None


# a run that somebody or something has been at


@pytest.fixture(scope="module")
def compiled():
    known = []

    def compile_once(experiment, _=None):
        if not known:
            known.append(compile_evolution(experiment))
        return known[0]

    return compile_once


@pytest.fixture(autouse=True)
def _quickly(monkeypatch, compiled):
    """One program for all, as only generations differ; curves are drawn elsewhere."""
    monkeypatch.setattr(evolve_module, "compile_evolution", compiled)
    monkeypatch.setattr("vsr.experiments.plot.curves.plot_runs", lambda *_: None)


@pytest.fixture(scope="module")
def runs(compiled, tmp_path_factory):
    """A run of five generations, and the same run gone on to seven."""
    home = tmp_path_factory.mktemp("runs")
    (home / "tiny.yaml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evolve_module, "compile_evolution", compiled)
        patch.setattr("vsr.experiments.plot.curves.plot_runs", lambda *_: None)
        evolve(EvolveOptions(str(home / "tiny.yaml"), out=str(home / "five")))
        shutil.copytree(home / "five", home / "seven")
        evolve(EvolveOptions(str(home / "seven"), ("generations=7",), resume=True))
    return home


@pytest.fixture
def run(runs, tmp_path):
    return Path(shutil.copytree(runs / "five", tmp_path / "run"))


@pytest.fixture
def vsr():
    return lambda *arguments: CliRunner().invoke(cli.main, list(map(str, arguments)))


def go_on(path, generations=7):
    evolve(EvolveOptions(str(path), (f"generations={generations}",), resume=True))


def newest(path):
    file = sorted((path / "checkpoints").iterdir())[-1]
    return {"name": file.name, **{name: array.tolist() for name, array in read_arrays(file).arrays.items()}}


def assert_same_end(path, runs):
    """The population is the same bit for bit, and so is what statistics tell that lineage tells too."""
    assert newest(path) == newest(runs / "seven")
    mine, other = read_run(path), read_run(runs / "seven")
    for name in ("best", "median", "failed"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))


def test_a_checkpoint_says_where_it_belongs(run):
    meta = json.loads((run / "meta.json").read_text())
    label, _ = read_label(run / "checkpoints" / "00000005.npz")
    pieces = [read_label(file) for file in sorted((run / "lineage").iterdir())]
    assert label["generation"] == 5
    assert label["experiment"] == read_settings(run).fingerprint == pieces[0][0]["experiment"]
    assert label["lineage"] == pieces[-1][1]
    assert [piece["before"] for piece, _ in pieces] == [None, *(digest for _, digest in pieces[:-1])]
    assert meta["experiment"]["optimizer"]["sigma"] == 0.15


@pytest.mark.parametrize("name", ["genes", "header", "name", "end"])
def test_a_flipped_bit_in_a_checkpoint_costs_one_generation(run, runs, capsys, name):
    file = run / "checkpoints" / "00000005.npz"
    data = file.read_bytes()
    place = {"genes": 60, "header": 9, "name": data.index(b"key.npy") + 1, "end": len(data) - 1}[name]
    file.write_bytes(flipped(data, 8 * place))
    assert saved_generations(run) == 4
    go_on(run)
    output = capsys.readouterr().out
    assert "00000005.npz: corrupted (its check sum does not fit its content); skipped" in output
    assert "going on after generation 4" in output
    assert_same_end(run, runs)


def test_a_checkpoint_in_anothers_place_is_skipped(run, runs, capsys):
    shutil.copy(run / "checkpoints" / "00000004.npz", run / "checkpoints" / "00000005.npz")
    go_on(run)
    assert (
        "00000005.npz: corrupted (it is the checkpoint of generation 4, copied or renamed)" in capsys.readouterr().out
    )
    assert_same_end(run, runs)


def test_a_checkpoint_of_another_run_is_skipped(run, runs, capsys, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(TINY.replace("seeds: 2", "seeds: [0, 3]"))
    evolve(EvolveOptions(str(other), out=str(tmp_path / "other")))
    shutil.copy(tmp_path / "other" / "checkpoints" / "00000005.npz", run / "checkpoints")
    go_on(run)
    assert "00000005.npz: corrupted (it was made by a run with other settings)" in capsys.readouterr().out
    assert_same_end(run, runs)


def change_sigma(path):
    file = path / "config.yaml"
    assert "sigma: 0.15" in file.read_text()
    file.write_text(file.read_text().replace("sigma: 0.15", "sigma: 0.5"))


def test_changed_settings_are_refused_and_the_remedy_works(vsr, run, runs):
    change_sigma(run)
    result = vsr("evolve", run, "--resume", "--set", "generations=7", "--no-report")
    assert result.exit_code == 2
    assert "config.yaml: it was changed since the run began:" in result.output
    assert "optimizer.sigma: 0.15 in the run, 0.5 in the file" in result.output
    assert "remove this file" in result.output
    assert newest(run)["name"] == "00000005.npz"
    (warning,) = read_run(run).warnings
    assert "optimizer.sigma: 0.15 in the run, 0.5 in the file); the run's own settings are used" in warning
    assert vsr("compare", run).exit_code == 0  # statistics do not depend on it
    (run / "config.yaml").unlink()
    go_on(run)
    assert "sigma: 0.15" in (run / "config.yaml").read_text()
    assert_same_end(run, runs)


def test_changed_settings_are_noticed_without_meta_json(run):
    change_sigma(run)
    (run / "meta.json").unlink()
    with pytest.raises(
        UserError, match=r"not those that the run's checkpoints were made with and .*meta.json: missing"
    ):
        go_on(run)
    assert any("config.yaml: its settings are not those" in warning for warning in read_run(run).warnings)


def test_what_may_change_may_be_changed_in_the_file(run, runs):
    file = run / "config.yaml"
    file.write_text(file.read_text().replace("generations: 5", "generations: 7  # longer"))
    evolve(EvolveOptions(str(run), resume=True))
    assert_same_end(run, runs)
    assert not read_run(run).warnings


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda file: file.write_text(""), lambda file: file.write_text("a: [")]
)
@pytest.mark.parametrize("name", ["config.yaml", "meta.json"])
def test_one_of_both_files_with_the_settings_is_enough(vsr, run, runs, capsys, name, damage):
    damage(run / name)
    assert vsr("compare", run).exit_code == 0
    assert Follower(run).look()["generations"] == 5
    assert read_run(run).best.shape == (2, 5)
    go_on(run)
    reported = "written again from meta.json" if name == "config.yaml" else "begun again"
    assert reported in capsys.readouterr().out
    assert_same_end(run, runs)
    assert read_settings(run).meta["experiment"]["generations"] == 7
    assert not read_run(run).warnings
    go_on(run)  # nothing is left to fix


def test_settings_that_no_file_has_any_more(vsr, run):
    (run / "config.yaml").write_text("robot: [")
    (run / "meta.json").write_text("{")
    for command in (["report", run], ["evolve", run, "--resume"], ["play", run]):
        result = vsr(*command)
        assert result.exit_code == 2
        assert "config.yaml:1: this is not valid YAML" in result.output
        assert "put back a copy of config.yaml or meta.json" in result.output
    for name in ("config.yaml", "meta.json"):
        (run / name).unlink()
    for command in (["report", run], ["evolve", run, "--resume"]):
        result = vsr(*command)
        assert result.exit_code == 2
        assert "it has results, but config.yaml and meta.json are gone" in result.output
    assert vsr("compare", run).exit_code == 0  # statistics say all that it needs


def test_lost_lineage_is_told_and_the_search_goes_on(vsr, run, runs, capsys):
    (run / "lineage" / "00000001.npz").unlink()
    (run / "lineage" / "00000002.npz").write_bytes(b"PK")
    shutil.copy(run / "lineage" / "00000003.npz", run / "lineage" / "00000004.npz")
    go_on(run)
    output = capsys.readouterr().out
    assert "00000002.npz: corrupted (its end is missing or changed)" in output
    assert "00000004.npz: corrupted (it begins with generation 3: copied or renamed)" in output
    assert "lineage: generations 1 to 2, 4 are missing or corrupted" in output
    assert_same_end(run, runs)
    result = vsr("play", run, "--generation", 2, "--out", run / "x.png")
    assert result.exit_code == 2
    assert "00000002.npz: corrupted" in result.output


def test_a_piece_of_lineage_from_elsewhere_is_noticed(run):
    file = run / "lineage" / "00000003.npz"
    stored = read_arrays(file)
    file.write_bytes(packed(stored.arrays | {"fitness": stored.arrays["fitness"] + 1}, stored.label)[0])
    lineage, warnings = read_lineage(run, 0, 2)
    assert any("00000004.npz: corrupted (it does not follow the piece before it" in warning for warning in warnings)
    assert len(lineage.best_id) == 4


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lineage/00000004.npz", "lineage: generations from 4 on are missing"),
        ("lineage/00000000.npz", "lineage: generations from 0 on are missing"),
        ("best/seed-1.yaml", "best: the checkpoint of generation 5 is there, but there is no seed-1.yaml"),
    ],
)
def test_what_a_checkpoint_was_written_after_is_missed_by_reports(run, name, words):
    """Also of a run that is not finished."""
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("generations: 5", "generations: 9"))
    assert not [warning for warning in find_out(read_run(run), "run").warnings if "missing" in warning]
    (run / name).unlink()
    assert any(words in warning for warning in find_out(read_run(run), "run").warnings)


@pytest.mark.parametrize("left", [None, 0, 1])
def test_lost_statistics_are_rebuilt_from_lineage(vsr, run, runs, capsys, left):
    """left: generations, or not even the header."""
    file, before = run / "statistics.bin", read_run(run)
    header, size = file.read_bytes().index(b"\n") + 1, before.header.record.itemsize
    file.unlink() if left is None else file.write_bytes(file.read_bytes()[: header + left * size + size // 2])
    result = vsr("compare", run)
    assert result.exit_code == (0 if left else 2)
    assert "statistics.bin: " in result.output
    assert "--resume rebuilds statistics from lineage/" in result.output
    go_on(run)
    assert f"generations {left or 0} to 4 are lost and rebuilt from lineage/" in capsys.readouterr().out
    assert_same_end(run, runs)
    found = read_run(run)
    assert not found.warnings
    assert np.isnan(found.spread[1, left or 0 : 5]).all()
    np.testing.assert_array_equal(found.best_id, read_run(runs / "seven").best_id)


def test_a_changed_record_is_noticed_and_rebuilt(run, runs, capsys):
    file, before = run / "statistics.bin", read_run(run)
    data, size = bytearray(file.read_bytes()), before.header.record.itemsize
    data[-3 * size + 20] ^= 64  # of generation 2
    file.write_bytes(data)
    found = read_run(run)
    assert "statistics.bin: generation 2 is corrupted" in found.warnings[0]
    assert np.isnan(found.best[:, 2]).all()
    np.testing.assert_array_equal(np.delete(found.best, 2, 1), np.delete(before.best, 2, 1))
    (state,) = Follower(run).look()["warnings"]
    assert state == found.warnings[0]
    go_on(run)
    assert "generation 2 is lost and rebuilt from lineage/" in capsys.readouterr().out
    assert_same_end(run, runs)


def test_records_in_anothers_place_are_noticed(run):
    file, size = run / "statistics.bin", read_run(run).header.record.itemsize
    data = file.read_bytes()
    file.write_bytes(data[: -2 * size] + data[-size:] * 2)
    assert "generation 3 is corrupted" in read_run(run).warnings[0]


def test_every_flipped_bit_in_a_line_is_found_or_does_no_harm():
    row = {"generation": 12, "seed": 0, "best": 0.125, "failures": {"empty": 1}}
    line = json_line(row).encode()[:-1]
    assert parse_json_line(line) == row
    for bit in range(8 * len(line)):
        found = parse_json_line(flipped(line, bit))
        assert found is None or row.items() <= found.items()


def test_generations_that_nothing_is_left_of(vsr, run, runs, capsys):
    (run / "statistics.bin").unlink()
    shutil.rmtree(run / "lineage")
    result = vsr("plot", run, "--out", run / "x.png")
    assert result.exit_code == 2
    assert "statistics.bin: missing" in result.output
    go_on(run)
    assert "generations 0 to 4 are missing or corrupted" in capsys.readouterr().out
    found = read_run(run)
    assert newest(run) == newest(runs / "seven")
    np.testing.assert_array_equal(found.best[:, 5:], read_run(runs / "seven").best[:, 5:])
    assert np.isnan(found.best[:, :5]).all()
    assert "generations 0 to 4 are lost: nothing is known of them" in found.warnings[0]
    assert vsr("compare", run).exit_code == 0


def test_a_changed_best_robot_is_not_taken_for_the_runs(vsr, run, capsys):
    file = run / "best" / "seed-1.yaml"
    before = file.read_text()
    file.write_text(before.replace("substeps: 6", "substeps: 7"))
    with pytest.raises(
        UserError, match=r"seed-1.yaml: it is not as the run wrote it; vsr evolve .* --resume writes it"
    ):
        load_robot(file)
    result = vsr("play", run, "--out", run / "x.png")
    assert result.exit_code == 2
    assert "it is not as the run wrote it" in result.output
    go_on(run, 5)
    assert "seed-1.yaml: it was lost or changed; written again from lineage/" in capsys.readouterr().out
    assert file.read_text() == before


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_anywhere_never_shows_a_traceback_or_another_result(vsr, run, runs, seed):
    generator = random.Random(seed)
    named = ("config.yaml", "meta.json", "statistics.bin", "lineage/00000002.npz", "checkpoints/00000005.npz")
    file = run / generator.choice(named)
    file.write_bytes(flipped(file.read_bytes(), generator.randrange(8 * file.stat().st_size)))
    results = [apart().invoke(cli.main, ["compare", str(path), "--json", "-"]) for path in (runs / "five", run)]
    expected, result = json.loads(results[0].stdout)["rows"][0], results[1]
    if result.exit_code == 0 and "statistics.bin: generation" not in result.stderr:
        assert json.loads(result.stdout)["rows"][0] == expected | {"run": "run"}
    result = vsr("evolve", run, "--resume", "--set", "generations=7", "--no-report")
    assert result.exit_code in (0, 2), result.output
    if result.exit_code == 0:
        assert_same_end(run, runs)


def test_training_is_not_begun_again_over_what_it_had(tmp_path):
    learner, later = {"mean": jax.numpy.zeros(3)}, {"mean": jax.numpy.ones(3)}
    rows = [{"generation": 0}, {"generation": 1}]
    folder = TrainingFolder(tmp_path, [])
    folder.store(learner, rows[0])
    folder.store(later, rows[1])
    for known in (rows[:1], rows):  # the last row may not have been written any more
        again = TrainingFolder(tmp_path, list(known))
        assert again.restore(learner)["mean"].tolist() == [1, 1, 1]
        assert again.curve == rows
    with pytest.raises(UserError, match=r"curve.json: it has 0 rows, but search.npz is of 2"):
        TrainingFolder(tmp_path, []).restore(learner)
    with pytest.raises(UserError, match=r"search.npz: it is not of this training"):
        TrainingFolder(tmp_path, list(rows)).restore({"mean": jax.numpy.zeros(4)})
    (tmp_path / "search.npz").write_bytes(flipped((tmp_path / "search.npz").read_bytes(), 99))
    with pytest.raises(UserError, match=r"search\.npz: corrupted"):
        TrainingFolder(tmp_path, list(rows)).restore(learner)


def test_numbered_files_are_found_in_order(tmp_path):
    for name in ("00000010.npz", "00000002.npz", "x.npz", "00000003.txt", ".npz", "00000004.npz.partial"):
        (tmp_path / name).touch()
    assert [file.name for file in numbered_files(tmp_path)] == ["00000002.npz", "00000010.npz"]
    assert numbered_files(tmp_path / "none") == numbered_files(tmp_path / "x.npz") == []
