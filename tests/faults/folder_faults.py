"""Run folders with a corrupted file, or crafted by somebody with bad intentions: no command crashes or trusts them.

A trial returns its issues: promises of docs/develop/reliability.md that did not hold, each as a sentence.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from faults.processes import Result
from faults.reference import End, Reader, Reference, read, readers
from vsr.arrays import MOST_BYTES
from vsr.experiments.storage.checkpoints import newest_generation

WAYS = ("flip", "truncate", "remove", "flip", "flip", "truncate")
"""How files are corrupted, one after the other."""
TARGETS = (
    "report.html.partial", "page.html.partial", "fitness.png.partial", "curves.png.partial", "refinement.json",
    "refinement.json.partial", "meta.json.partial", "config.yaml.partial", "lock", "best", "lineage", "checkpoints",
    "plugins", "statistics.npz", "archive.npz", "best/seed-0.yaml.partial", "checkpoints/00000004.npz.partial",
)  # fmt: skip
"""Names under which commands write or read, besides the files of a run."""
STRANGE = ("²².npz", "٣.npz", "-1.npz", "1e3.npz", "0x10.npz", "9" * 20 + ".npz", "a\x1b[31m.npz", ".npz", "1.npz",
           "seed-²²")  # fmt: skip
LABELS = (b"vsr nonsense", b"vsr [1]", b"vsr null", b"vsr " + b"[" * 30_000, "vsr {}é".encode(), b"", b"vsr {}")
PRECIOUS = b"precious"


def files_of(run: Path) -> list[str]:
    """All files of a run folder, whatever they are called, but for its lock."""
    names = sorted(str(file.relative_to(run)) for file in run.rglob("*") if file.is_file())
    return [name for name in names if name != "lock"]


def right_answer(reference: Reference, source: Path, reader: Reader, seed: int) -> Any:
    """Of a command about a reference run."""
    key = source.parent.name, reader.name, seed
    if key not in reference.answers:
        result, answer = read(reader, source, reference.trial_folder(f"right-{key[0]}-{reader.name}-{seed}"))
        assert answer is not None, f"vsr {reader.name} fails with an intact run: {result.output}"
        reference.answers[key] = answer
    return reference.answers[key]


def judge(result: Result, answer: Any, right: Any, name: str) -> str | None:
    """What is wrong with an answer about a run of which one file is corrupted; None if nothing is."""
    if result.traceback or result.code not in (0, 2):
        return f"code {result.code}: {result.last_line}"
    file = Path(name)
    named = file.name in result.output or (file.parent.name != "" and file.parent.name in result.output)
    if result.code == 2:
        return None if named else f"refused without naming the file: {result.last_line}"
    if isinstance(answer, End):  # whatever is corrupted, a run that goes on must search as it would have
        unlike = answer.differences(right)
        of_search = [what for what in unlike if what.startswith("checkpoint")]
        return f"it goes on, and {'; '.join(of_search or unlike)}" if of_search or (unlike and not named) else None
    return None if answer == right or named else "another answer, without naming the file"


# Corrupted files


def corrupt(reference: Reference, number: int, random: Random) -> list[str]:
    """Corrupt one file of a finished or stopped run, then ask every command about it."""
    places = [(source, name) for source in (reference.stopped, reference.finished) for name in files_of(source)]
    source, name = places[number % len(places)]
    way = WAYS[number // len(places) % len(WAYS)]
    return corrupt_file(reference, source, name, way, f"damage-{number}", random)


def corrupt_file(
    reference: Reference, source: Path, name: str, way: str, trial: str, random: Random, only: Sequence[str] = ()
) -> list[str]:
    """Corrupt a file of a copy of a run; only: the commands that are asked, if not all."""
    file = Path(name)
    if way == "remove" and file.parent.name == "lineage" and int(file.stem) >= newest_generation(source):
        way = "truncate"  # no checkpoint counts on it: a run in progress may not have written it yet
    folder = reference.trial_folder(trial)
    shutil.copytree(source, folder / "corrupted")
    done = _corrupted(folder / "corrupted" / name, way, random)
    seed = int(file.stem.removeprefix("seed-")) if file.parent.name == "best" else reference.seed
    issues = []
    for reader in readers(reference, seed, only):
        right = right_answer(reference, source, reader, seed)
        result, answer = read(reader, folder / "corrupted", folder / reader.name)
        issue = judge(result, answer, right, name)
        if issue:
            issues.append(f"{source.parent.name} run, {name} {done}: vsr {reader.name}: {issue}")
    return issues


def _corrupted(file: Path, way: str, random: Random) -> str:
    """Corrupt a file; how, in words."""
    data = bytearray(file.read_bytes())
    if way == "remove" or not data:
        file.unlink()
        return "removed"
    if way == "truncate":
        length = random.choice((0, len(data) // 2, len(data) - 1, random.randrange(len(data))))
        file.write_bytes(data[:length])
        return f"cut to {length} of {len(data)} bytes"
    bit = random.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    return f"with bit {bit} flipped"


# Crafted folders


def craft(reference: Reference, number: int, random: Random, only: Sequence[str] = ()) -> list[str]:
    """Craft a copy of a finished or stopped run, then ask one command about it; only: one of these."""
    folder = reference.trial_folder(f"craft-{number}")
    (folder / "victim").write_bytes(PRECIOUS)
    (folder / "empty").mkdir()
    source = random.choice((reference.stopped, reference.finished))
    reader = random.choice(readers(reference, reference.seed, only))
    right = right_answer(reference, source, reader, reference.seed)
    ways = (_link, _pipe, _device, _bomb, _label, _header, _exchange, _strange_name)
    names, words = [], ""

    def change(run: Path) -> None:
        nonlocal names, words
        names, words = ways[number % len(ways)](run, folder, random)

    result, answer = read(reader, source, folder / reader.name, change)
    issues = [judge(result, answer, right, name) for name in names]
    issue = None if None in issues else issues[0]  # one of two exchanged files has to be named
    if (folder / "victim").read_bytes() != PRECIOUS or any((folder / "empty").iterdir()):
        issue = "it wrote outside of the folder"
    return [f"{source.parent.name} run, {names[0]!a} {words}: vsr {reader.name}: {issue}"] if issue else []


Crafted = tuple[list[str], str]
"""Names of the files that were made, and what they are."""


def _free_name(run: Path, random: Random) -> str:
    """A name that commands read or write, with nothing there any more."""
    name = random.choice((*files_of(run), *TARGETS))
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    return name


def _arrays_name(run: Path, random: Random) -> str:
    present = [name for name in files_of(run) if name.endswith(".npz")]
    return random.choice(list(dict.fromkeys((*present, "statistics.npz", "archive.npz"))))


def _link(run: Path, folder: Path, random: Random) -> Crafted:
    name = _free_name(run, random)
    is_folder = "." not in name and name != "lock"
    (run / name).symlink_to(folder / ("empty" if is_folder else "victim"))
    return [name], "a link"


def _pipe(run: Path, folder: Path, random: Random) -> Crafted:
    name = _free_name(run, random)
    os.mkfifo(run / name)
    return [name], "a pipe"


def _device(run: Path, folder: Path, random: Random) -> Crafted:
    name = _free_name(run, random)
    (run / name).symlink_to(random.choice(("/dev/zero", "/dev/full", "/dev/random")))
    return [name], "a link to a device"


def _bomb(run: Path, folder: Path, random: Random) -> Crafted:
    name = _arrays_name(run, random)
    (run / name).write_bytes(signed(bomb(MOST_BYTES + 2**20), b"vsr {}"))
    return [name], "that unpacks to more than is read"


@functools.cache
def bomb(size: int) -> bytes:
    """An npz file whose one array unpacks to a number of bytes."""
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


def _label(run: Path, folder: Path, random: Random) -> Crafted:
    name, label = _arrays_name(run, random), random.choice(LABELS)
    plain = io.BytesIO()
    np.savez_compressed(plain, id=np.zeros(3))
    (run / name).write_bytes(signed(random.choice((plain.getvalue(), b"no zip at all")), label))
    return [name], f"with the label {label[:20]!r}"


def _header(run: Path, folder: Path, random: Random) -> Crafted:
    """Arrays that claim to be what they are not."""
    name = _arrays_name(run, random)
    shape = random.choice(((2**62,), (2**31, 2**31), (0,), (-1,), (3, 0, 2**40)))
    kind = random.choice(("|O", "<f8", "|V0", "|S0", "<M8[s]", "<c16"))
    header, target = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(target, "w") as archive:
        for array in ("id", "best", "seed", "generation"):
            archive.writestr(f"{array}.npy", header.getvalue() + bytes(64))
    (run / name).write_bytes(signed(target.getvalue(), b"vsr {}"))
    return [name], f"of {kind} and shape {shape}"


def _exchange(run: Path, folder: Path, random: Random) -> Crafted:
    """Two files of a kind in each other's places."""
    files = files_of(run)
    pairs = [(one, other) for one in files for other in files if one < other and Path(one).suffix == Path(other).suffix]
    name, other = random.choice(pairs)
    first, second = (run / name).read_bytes(), (run / other).read_bytes()
    (run / name).write_bytes(second)
    (run / other).write_bytes(first)
    return [name, other], f"exchanged with {other}"


def _strange_name(run: Path, folder: Path, random: Random) -> Crafted:
    name = f"{random.choice(('checkpoints', 'lineage', 'best'))}/{random.choice(STRANGE)}"
    shutil.copyfile(run / random.choice(files_of(run)), run / name)
    return [name], "beside the others"
