"""What is in a run folder is believed only where something vouches for it."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY

from vsr.arrays import Damaged, packed, read_arrays, read_label, unpacked
from vsr.experiments.config import parse_experiment
from vsr.experiments.devices import cache_folder
from vsr.experiments.evolve import programs
from vsr.experiments.private import private_folder, read_signed, write_signed

ARRAYS = {
    "genes": np.arange(12, dtype=np.float32).reshape(3, 4),
    "id": np.array([[1, 2, -1]], np.int32),
    "nothing": np.zeros((0, 2)),
}


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def as_older_versions_wrote(arrays):
    target = io.BytesIO()
    np.savez_compressed(target, **arrays)
    return target.getvalue()


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
        with pytest.raises(Damaged, match=r"a\.npz: damaged \("):
            unpacked(flipped(data, bit), "a.npz")


def test_a_flipped_bit_in_an_older_file_is_damage_or_does_no_harm():
    """Without a check sum over all, the zip's own must find what changes the arrays."""
    data, found = as_older_versions_wrote(ARRAYS), 0
    for bit in range(8 * len(data)):
        try:
            stored = unpacked(flipped(data, bit), "a.npz")
        except Damaged:
            found += 1
            continue
        assert (stored.label, stored.digest) == ({}, None)
        assert stored.arrays.keys() == ARRAYS.keys()
        assert all((stored.arrays[name] == array).all() for name, array in ARRAYS.items())
    assert found > 4 * len(data)


@pytest.mark.parametrize("older", [False, True])
def test_a_file_that_is_cut_off_is_damage(older):
    data = as_older_versions_wrote(ARRAYS) if older else packed(ARRAYS)[0]
    for length in range(len(data)):
        with pytest.raises(Damaged):
            unpacked(data[:length], "a.npz")


def test_a_folder_or_nothing_in_its_place_is_damage(tmp_path):
    with pytest.raises(Damaged, match="Is a directory"):
        read_arrays(tmp_path)
    with pytest.raises(Damaged, match="No such file"):
        read_arrays(tmp_path / "none.npz")


def test_a_label_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="label of 1000"):
        packed(ARRAYS, {"long": "x" * 100_000})


# compiled programs: what is read is run


@pytest.fixture
def signed(tmp_path):
    folder = private_folder(tmp_path / "store")
    file = folder / "one.programs"
    write_signed(file, b"what was compiled")
    assert read_signed(file) == b"what was compiled"
    return file


def test_the_store_is_this_users_alone(signed):
    assert signed.parent.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in signed.parent.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_bytes(flipped(file.read_bytes(), 8 * 40)),
        lambda file: file.write_bytes(flipped(file.read_bytes(), 3)),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(b""),
        lambda file: file.chmod(0o622),
        lambda file: file.rename(file.with_name("two.programs")),
        lambda file: (file.rename(file.with_name("two.programs")), file.symlink_to("two.programs")),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: file.with_name("key").unlink(),
        lambda file: file.with_name("key").write_bytes(b"short"),
        lambda file: file.with_name("key").chmod(0o644),
        lambda file: (file.with_name("key").rename(file.with_name("k")), file.with_name("key").symlink_to("k")),
    ],
)
def test_what_others_may_have_written_is_not_read(signed, change):
    change(signed)
    assert all(read_signed(signed.with_name(name)) is None for name in ("one.programs", "two.programs"))
    if not signed.is_dir():
        write_signed(signed, b"again")  # it only cost time
        assert read_signed(signed) == b"again"


def test_a_store_of_others_is_not_used(tmp_path, monkeypatch):
    mine = private_folder(tmp_path / "mine")
    (tmp_path / "link").symlink_to(mine)
    (tmp_path / "file").write_text("")
    assert private_folder(tmp_path / "link") is None
    assert private_folder(tmp_path / "file") is None
    assert private_folder(tmp_path / "file" / "below") is None
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert private_folder(mine) is None


def test_a_store_that_others_could_write_to_is_emptied(signed):
    signed.parent.chmod(0o755)
    assert private_folder(signed.parent) == signed.parent
    assert read_signed(signed) == b"what was compiled"  # they could only look
    signed.parent.chmod(0o775)
    (signed.parent / "below").mkdir()
    assert private_folder(signed.parent) == signed.parent
    assert signed.parent.stat().st_mode & 0o777 == 0o700
    assert not list(signed.parent.iterdir())


def test_a_planted_program_is_not_unpickled(tmp_path, monkeypatch):
    ran = tmp_path / "ran"

    class Planted:
        def __reduce__(self):
            return Path.touch, (ran,)

    experiment = parse_experiment(TINY).resolved()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = programs._file(experiment)
    file.write_bytes(pickle.dumps(Planted()))
    file.chmod(0o600)
    assert programs.recall(experiment) is None
    assert not ran.exists()
    assert not file.exists()


def test_a_user_without_a_home_only_loses_time(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    assert cache_folder() is None
    assert programs.recall(parse_experiment(TINY)) is None
