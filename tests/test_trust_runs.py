"""What is in a run folder is believed only where something vouches for it."""

import io
import zipfile

import numpy as np
import pytest

from vsr.arrays import Damaged, packed, read_arrays, read_label, unpacked

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
