"""Run folders that come from somebody else: nothing leads out of them, and nothing in them is without end."""

import io
import os
import shutil
import subprocess
import sys
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from faults.folder_faults import bomb, signed

import vsr.cli as cli
from vsr.arrays import MOST_BYTES, CorruptFileError, packed, read_arrays, read_label, read_regular
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml import read_text
from vsr.experiments.console import printable
from vsr.experiments.evolve.command import evolve
from vsr.experiments.options import EvolveOptions
from vsr.experiments.storage.files import (
    numbered_files,
    open_own,
    refuse_links,
    replace_when_closed,
    target_file,
    write_text,
)
from vsr.experiments.storage.runs import read_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs with the same seeds and other settings."""
    home = tmp_path_factory.mktemp("foreign")
    (home / "tiny.yaml").write_text(TINY)
    for name, more in (("one", ()), ("other", ("optimizer.sigma=0.3",))):
        evolve(EvolveOptions(str(home / "tiny.yaml"), ("generations=2", *more), out=str(home / name)))
    return home


@pytest.fixture
def run(runs, tmp_path):
    return shutil.copytree(runs / "one", tmp_path / "run")


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "victim"
    file.write_text("precious")
    return file


def vsr(*arguments):
    return CliRunner().invoke(cli.main, list(map(str, arguments)))


# Links and pipes


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("report.html.partial", ("report", "RUN")),
        ("fitness.png.partial", ("plot", "RUN", "--out", "RUN/fitness.png")),
        (".film.partial.png", ("play", "RUN", "--out", "RUN/film.png")),
        ("lock", ("evolve", "RUN", "--resume", "--set", "generations=3", "--no-report")),
        ("statistics.bin", ("evolve", "RUN", "--resume", "--set", "generations=3", "--no-report")),
        ("best/seed-0.yaml.partial", ("evolve", "RUN", "--resume", "--set", "generations=3", "--no-report")),
        ("checkpoints/00000002.npz", ("compare", "RUN")),
    ],
)
def test_a_link_in_a_run_folder_leads_nowhere(run, victim, name, command):
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    ended = vsr(*(part.replace("RUN", str(run)) for part in command))
    assert ended.exit_code == 2
    assert f"{run / name}: a link" in ended.output
    assert victim.read_text() == "precious"


def test_a_folder_that_is_a_link_is_refused(run, tmp_path):
    shutil.move(run / "best", tmp_path / "elsewhere")
    (run / "best").symlink_to(tmp_path / "elsewhere")
    ended = vsr("evolve", run, "--resume", "--set", "generations=3", "--no-report")
    assert ended.exit_code == 2
    assert f"{run / 'best'}: a link" in ended.output


@pytest.mark.parametrize("name", ["statistics.bin", "lineage/00000001.npz", "meta.json", "plugins/deep/pipe"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(run, name):
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(run / name)
    for command in ("plot", "report"):
        ended = vsr(command, run, "--out", run / ("page.html" if command == "report" else "curve.png"))
        assert ended.exit_code == 2
        assert f"{run / name}: no regular file" in ended.output
    with pytest.raises(CorruptFileError, match="not a regular file"):
        read_regular(run / name)
    with pytest.raises(OSError, match="not a regular file"):
        open_own(run / name, "r")


def test_a_pipe_is_no_file_unless_a_shell_gives_it(tmp_path):
    os.mkfifo(tmp_path / "scene.yaml")
    for command in ("check", "simulate", "evolve"):
        ended = vsr(command, tmp_path / "scene.yaml")
        assert ended.exit_code == 2
        assert f"{tmp_path / 'scene.yaml'}: a pipe; give a regular file" in ended.output
    reading, writing = os.pipe()
    threading.Timer(0.2, lambda: (os.write(writing, b"some: text"), os.close(writing))).start()  # it is waited for
    assert read_text(f"/dev/fd/{reading}") == "some: text"
    os.close(reading)


def test_a_device_is_not_read(tmp_path):
    (tmp_path / "endless.npz").symlink_to("/dev/zero")
    with pytest.raises(CorruptFileError, match="not a regular file"):
        read_arrays(tmp_path / "endless.npz")


def test_writing_replaces_a_link_and_does_not_follow_it(tmp_path, victim):
    (tmp_path / f"page.html.{os.getpid()}.partial").symlink_to(victim)
    write_text(tmp_path / "page.html", "page")
    (tmp_path / f".film.{os.getpid()}.partial.gif").symlink_to(victim)
    with replace_when_closed(tmp_path / "film.gif") as partial:
        partial.write_text("film")
    (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        open_own(tmp_path / "lock", "a")
    assert victim.read_text() == "precious"
    assert [(tmp_path / name).read_text() for name in ("page.html", "film.gif")] == ["page", "film"]
    assert not (tmp_path / "page.html").is_symlink()


def test_folders_in_folders_without_end_are_refused(run):
    deep = run / "plugins" / "/".join("a" * 200)
    deep.mkdir(parents=True)
    ended = vsr("compare", run)
    assert ended.exit_code == 2
    assert "nested more than" in ended.output


@pytest.mark.slow
def test_two_processes_may_write_one_file(tmp_path):
    script = (
        "import sys, pathlib\nfrom vsr.experiments.storage.files import write_bytes\n"
        "for _ in range(60): write_bytes(pathlib.Path('file'), sys.argv[1].encode() * 10**6)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script, letter], cwd=tmp_path) for letter in "ab"]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert (tmp_path / "file").read_bytes() in (b"a" * 10**6, b"b" * 10**6)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_link_to_a_run_folder_is_a_run_folder(run, tmp_path):
    (tmp_path / "link").symlink_to(run)
    refuse_links(tmp_path / "link")
    assert read_run(tmp_path / "link").generations == 2


# Sizes


def test_arrays_that_unpack_to_too_much_are_refused_before_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("vsr.arrays.MOST_BYTES", 2**22)
    (tmp_path / "much.npz").write_bytes(signed(bomb(2**24), b"vsr {}"))
    assert (tmp_path / "much.npz").stat().st_size < 2**18

    def read(*_):
        raise AssertionError("unpacked")

    monkeypatch.setattr(zipfile.ZipFile, "read", read)
    with pytest.raises(CorruptFileError, match=r"hold 16777\d+ bytes; at most 4194304"):
        read_arrays(tmp_path / "much.npz")
    with pytest.raises(ValueError, match="at most 4194304"):
        packed({"much": np.zeros(2**20)})
    assert MOST_BYTES == 2**31


def test_a_member_is_unpacked_no_further_than_the_zip_says(tmp_path):
    data = bomb(2**26)
    true, false = ((2**26 + 128).to_bytes(4, "little"), (1024).to_bytes(4, "little"))
    assert true in data
    (tmp_path / "lies.npz").write_bytes(signed(data.replace(true, false), b"vsr {}"))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError):
            read_arrays(tmp_path / "lies.npz")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "sparse.npz").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(CorruptFileError, match="at most"):
        read_arrays(tmp_path / "sparse.npz")


def test_a_small_file_takes_little_memory(tmp_path):
    (tmp_path / "a.npz").write_bytes(packed({"id": np.zeros(3)})[0])
    tracemalloc.start()
    try:
        read_arrays(tmp_path / "a.npz")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "label",
    [b"vsr nonsense", b"vsr [1]", b"vsr null", b"vsr " + b"[" * 30_000, "vsr {}é".encode(), b"", b"other {}"],
)
def test_a_malformed_label_with_a_right_check_sum_is_damage(run, tmp_path, monkeypatch, label):
    if label != b"vsr nonsense":  # robots are simulated again for one label; the others are about reading alone
        monkeypatch.setattr(
            "vsr.experiments.verify.replay", lambda robots, *_: [robot.record.score for robot in robots]
        )
    plain = io.BytesIO()
    np.savez_compressed(plain, id=np.zeros(3))
    for data in (signed(plain.getvalue(), label), signed(b"no zip at all", label)):
        (tmp_path / "a.npz").write_bytes(data)
        for read in (read_arrays, read_label):
            with pytest.raises(CorruptFileError):
                read(tmp_path / "a.npz")
        (run / "lineage" / "00000000.npz").write_bytes(data)
        (run / "checkpoints" / "00000002.npz").write_bytes(data)
        for arguments in (("plot", run, "--out", tmp_path / "a.png"), ("verify", run)):
            assert "Traceback" not in vsr(*arguments).output


def test_strange_digits_are_no_numbers(run, tmp_path):
    for name in ("²²", "٣", "9" * 20, "1", "-1", "000000001"):
        shutil.copy(run / "checkpoints" / "00000001.npz", run / "checkpoints" / f"{name}.npz")
    assert [file.name for file in numbered_files(run / "checkpoints")] == ["00000001.npz", "00000002.npz"]
    assert vsr("plot", run, "--out", tmp_path / "a.png").exit_code == 0


# Files of another run


def test_a_checkpoint_is_no_piece_of_lineage(run, capfd):
    shutil.copy(run / "checkpoints" / "00000001.npz", run / "lineage" / "00000001.npz")
    evolve(EvolveOptions(str(run), resume=True))
    assert "00000001.npz: corrupted (it is no piece of lineage)" in capfd.readouterr().out


def test_statistics_of_another_run_are_not_taken_for_its_own(runs, run):
    before = read_run(run)
    own = (run / "statistics.bin").read_bytes()
    other = (runs / "other" / "statistics.bin").read_bytes()
    (run / "statistics.bin").write_bytes(other)
    with pytest.raises(UserError, match="a run with other settings"):
        read_run(run)
    evolve(EvolveOptions(str(run), resume=True))
    np.testing.assert_array_equal(read_run(run).best, before.best)  # as lineage has them
    records = len(other) - other.index(b"\n") - 1
    (run / "statistics.bin").write_bytes(own[:-records] + other[-records:])
    with pytest.raises(UserError, match=r"statistics\.bin: its records are lost"):
        read_run(run)


# The command line


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "RUN", "--tolerance", "nan"),
        ("watch", "RUN", "--seconds", "nan"),
        ("refine", "RUN", "--factors", "9" * 5000),
        ("refine", "RUN", "--trials", "99999999999999"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(run, arguments):
    ended = vsr(*(part.replace("RUN", str(run)) for part in arguments))
    assert ended.exit_code == 2
    assert "Invalid value" in ended.output


def test_a_link_to_itself_is_no_run(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for command in ("report", "plot", "compare", "verify", "refine", "check"):
        ended = vsr(command, tmp_path / "loop")
        assert ended.exit_code == 2
        assert "loop: " in ended.output


@pytest.mark.slow
def test_a_reader_that_goes_and_a_full_disk_behind_standard_output():
    command = [sys.executable, "-P", "-m", "vsr", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert ended.returncode == 2
        assert ended.stderr == "standard output: No space left on device\n"


def test_names_of_folders_bring_no_commands_to_the_terminal(runs, tmp_path):
    name = "a\x1b[31mred\x07"
    shutil.copytree(runs / "one", tmp_path / name)
    ended = vsr("compare", tmp_path / name, runs / "other")
    assert ended.exit_code == 0
    assert r"a\x1b[31mred\x07" in ended.output
    missing = vsr("plot", tmp_path / "none\x1b[31m")
    assert missing.exit_code == 2
    assert "\x1b" not in ended.output + missing.output
    assert printable("a\nb\té\x9b") == "a\nb\té\\x9b"


def test_results_that_cannot_be_written_are_refused_before_anything_is_simulated(run, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(UserError, match="no permission to write there"):
        target_file("--out", str(tmp_path / "a.png"))
    for arguments in (("report", run), ("play", run, "--out", tmp_path / "a.html"), ("refine", run)):
        ended = vsr(*arguments)
        assert ended.exit_code == 2
        assert "no permission to write there" in ended.output
