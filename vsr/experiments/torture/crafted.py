"""Run folders made by somebody with bad intentions: nothing may lead out of them, take all memory, or never end."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import shutil
import zipfile
from pathlib import Path
from random import Random

import numpy as np

from vsr.arrays import MOST_BYTES
from vsr.experiments.torture.damage import files_of, judge, right_answer
from vsr.experiments.torture.ground import Ground
from vsr.experiments.torture.readers import read, readers

WHAT = "a run folder with links, pipes, bombs, malformed labels, exchanged files or strange names; one command on it"
PRECIOUS = b"precious"
TARGETS = (
    "report.html.partial",
    "page.html.partial",
    "fitness.png.partial",
    "curves.png.partial",
    "refinement.json",
    "refinement.json.partial",
    "meta.json.partial",
    "config.yaml.partial",
    "lock",
    "best",
    "lineage",
    "checkpoints",
    "plugins",
    "statistics.npz",
    "archive.npz",
    "best/seed-0.yaml.partial",
    "checkpoints/00000004.npz.partial",
)
"""Names under which commands write or read, besides the files that are there."""
STRANGE = ("²².npz", "٣.npz", "-1.npz", "1e3.npz", "0x10.npz", "9" * 20 + ".npz", "a\x1b[31m.npz", ".npz", "1.npz")
LABELS = (b"vsr nonsense", b"vsr [1]", b"vsr null", b"vsr " + b"[" * 30_000, "vsr {}é".encode(), b"", b"vsr {}")


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """Craft a copy of a finished or a stopped run, then ask one command about it."""
    folder = ground.trial_folder(f"craft:{number}")
    victim = folder / "victim"
    victim.write_bytes(PRECIOUS)
    (folder / "empty").mkdir()
    source = random.choice((ground.half, ground.whole))
    seed = ground.end.statistics[0]["seed"]
    reader = random.choice(readers(ground, seed))
    right = right_answer(ground, source, reader, seed)
    done: list[tuple[str, str, str]] = []
    ways = (_link, _pipe, _device, _bomb, _label, _header, _exchange, _strange_name)
    way = ways[number % len(ways)]

    def change(run: Path) -> None:
        name, words, *others = way(run, folder, random)
        done.append((name, words, others[0] if others else name))

    ended, answer = read(ground, reader, source, folder / reader.name, change)
    name, words, other = done[0]
    fault = judge(ended, answer, right, name) and judge(ended, answer, right, other)
    if victim.read_bytes() != PRECIOUS or any((folder / "empty").iterdir()):
        fault = "it wrote outside of the folder"
    return [f"{source.parent.name} run, {name!a} {words}: vsr {reader.name}: {fault}"] if fault else []


def _place(run: Path, random: Random) -> str:
    """Of something that is there, or could be."""
    name = random.choice((*files_of(run), *TARGETS))
    whole = run / name
    if whole.is_dir():
        shutil.rmtree(whole)
    whole.unlink(missing_ok=True)
    whole.parent.mkdir(exist_ok=True)
    return name


def _link(run: Path, folder: Path, random: Random) -> tuple[str, str]:
    name = _place(run, random)
    is_folder = "." not in name and name != "lock"
    (run / name).symlink_to(folder / ("empty" if is_folder else "victim"))
    return name, "a link"


def _pipe(run: Path, folder: Path, random: Random) -> tuple[str, str]:
    name = _place(run, random)
    os.mkfifo(run / name)
    return name, "a pipe"


def _device(run: Path, folder: Path, random: Random) -> tuple[str, str]:
    name = _place(run, random)
    (run / name).symlink_to(random.choice(("/dev/zero", "/dev/full", "/dev/random")))
    return name, "a link to a device"


def _arrays(run: Path, random: Random) -> str:
    """Of a file of arrays that is there, or could be."""
    return random.choice([*(name for name in files_of(run) if name.endswith(".npz")), "statistics.npz", "archive.npz"])


def _bomb(run: Path, folder: Path, random: Random) -> tuple[str, str]:
    name = _arrays(run, random)
    (run / name).write_bytes(signed(bomb(MOST_BYTES + 2**20), b"vsr {}"))
    return name, "that unpacks to more than is read"


@functools.cache
def bomb(size: int) -> bytes:
    """A file of arrays whose one member unpacks to a number of bytes."""
    target = io.BytesIO()
    archive = zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("id.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return target.getvalue()


def signed(data: bytes, label: bytes) -> bytes:
    """With a label and a right check sum, as `vsr.arrays` writes them."""
    before = label + b" sha256 "
    data = data[:-2] + (len(before) + 64).to_bytes(2, "little") + before
    return data + hashlib.sha256(data).hexdigest().encode()


def _label(run: Path, folder: Path, random: Random) -> tuple[str, str]:
    name, label = _arrays(run, random), random.choice(LABELS)
    plain = io.BytesIO()
    np.savez_compressed(plain, id=np.zeros(3))
    (run / name).write_bytes(signed(random.choice((plain.getvalue(), b"no zip at all")), label))
    return name, f"with the label {label[:20]!r}"


def _header(run: Path, folder: Path, random: Random) -> tuple[str, str]:
    """An array that claims to be what it is not."""
    name = _arrays(run, random)
    shape = random.choice(((2**62,), (2**31, 2**31), (0,), (-1,), (3, 0, 2**40)))
    kind = random.choice(("|O", "<f8", "|V0", "|S0", "<M8[s]", "<c16"))
    header, target = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(target, "w") as archive:
        for array in ("id", "best", "seed", "generation"):
            archive.writestr(f"{array}.npy", header.getvalue() + bytes(64))
    (run / name).write_bytes(signed(target.getvalue(), b"vsr {}"))
    return name, f"of {kind} and shape {shape}"


def _exchange(run: Path, folder: Path, random: Random) -> tuple[str, str, str]:
    """Two files of a kind in each other's places."""
    files = files_of(run)
    pairs = [(one, other) for one in files for other in files if one < other and Path(one).suffix == Path(other).suffix]
    name, other = random.choice(pairs)
    first, second = (run / name).read_bytes(), (run / other).read_bytes()
    (run / name).write_bytes(second)
    (run / other).write_bytes(first)
    return name, f"exchanged with {other}", other


def _strange_name(run: Path, folder: Path, random: Random) -> tuple[str, str]:
    name = random.choice((*STRANGE, "seed-²²"))
    below = random.choice(("checkpoints", "lineage", "best"))
    shutil.copyfile(run / random.choice(files_of(run)), run / below / name)
    return f"{below}/{name}", "beside the others"
