"""A trial of the fuzzer: one input, made from a sound one, is read; it may be refused, but only in words."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import yaml

from vsr.experiments.shipped import shipped_files
from vsr.experiments.torture.fuzz import corpus, targets
from vsr.experiments.torture.fuzz.mutate import changed_bytes, changed_document
from vsr.experiments.torture.fuzz.values import PIECES, WORDS, any_value

if TYPE_CHECKING:
    from vsr.experiments.torture.ground import Ground

WHAT = "a config, scene, study, set, robot, --set value, command line, mesh or npz file changed at random, and read"
TURNS = (
    "experiment", "scene", "setting", "experiment", "robot", "command", "study", "setting",
    "experiment", "reach", "mesh", "arrays", "scene", "statistics", "robot", "command", "set",
    "evolved",
)  # fmt: skip
"""Which kind of input comes when."""
NEVER = ("torture", "watch --wait", "watch --open")
"""Commands and options that would begin other processes, or wait."""


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """Make an input, let a worker read it; what is wrong with how it ended."""
    target = TURNS[number % len(TURNS)]
    folder = ground.trial_folder(f"fuzz:{number}")
    file, arguments = make(target, folder, random)
    ended = ground.reader.read(target, str(file), arguments, folder)
    if ended.traceback:
        what = ended.traceback
    elif ended.code not in (0, 2):
        what = f"code {ended.code}: {ended.output.strip()[-200:]}"
    elif ended.code == 2 and not ended.output.strip():
        what = "refused without a word"
    else:
        return []
    given = f" with {json.dumps(arguments)[:200]}" if arguments else ""
    return [f"{target} {file.name}{given}: {what}"]


def make(target: str, folder: Path, random: Random) -> tuple[Path, list[str]]:
    """An input: a file in a folder, and words of the command line."""
    if target == "command":
        return folder / "none", command_line(folder, random)
    if target == "setting":
        file = folder / "input.yaml"
        file.write_text(random.choice(corpus.documents("experiment")), encoding="utf-8")
        return file, [setting(random) for _ in range(random.choice((1, 1, 2)))]
    if target in ("mesh", "arrays", "statistics"):
        return _binary(target, folder, random), []
    if target == "study":
        for beside in corpus.beside_studies():  # the experiments that studies name
            (folder / beside.name).symlink_to(beside)
    known = corpus.documents(target)
    file = folder / "input.yaml"
    file.write_bytes(changed_document(random.choice(known), known, random))
    return file, []


def _binary(target: str, folder: Path, random: Random) -> Path:
    if target == "mesh":
        suffix, data = random.choice(sorted(corpus.meshes().items()))
        file = folder / f"mesh{suffix}"
    elif target == "arrays":
        file, data = folder / "lineage" / "00000000.npz", corpus.arrays()
        file.parent.mkdir()
    else:
        row = {"generation": 0, "seed": 0, "best": 0.1, "median": 0.05, "failed": 0, "failures": {}, "spread": 1.0}
        file, data = folder / "statistics.jsonl", (json.dumps(row) + "\n").encode() * 2
    file.write_bytes(changed_bytes(data, random))
    return file


@functools.cache
def _paths() -> list[str]:
    """Of every value in the shipped experiments, as `--set` has it."""
    found: set[str] = set()

    def walk(tree: object, path: tuple[str, ...]) -> None:
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
            found.add(".".join((*path, str(key))))
            walk(value, (*path, str(key)))

    for text in corpus.documents("experiment"):
        walk(yaml.safe_load(text), ())
    return sorted(found)


def setting(random: Random) -> str:
    """What may stand after `--set`."""
    path = random.choice(_paths())
    way = random.randrange(12)
    if way == 0:
        path = random.choice((".", "", "a..b", ".".join(["a"] * 3000), "robot." * 50 + "x", random.choice(WORDS)))
    elif way == 1:
        path += "." + random.choice((*WORDS, "0", "99999999999999999999", "-1"))
    if way == 2:
        value = random.choice(PIECES)
    elif way == 3:
        value = random.choice(WORDS)
    else:
        value = yaml.safe_dump(any_value(random), default_flow_style=True).removesuffix("...\n").strip()
    return _as_given(f"{path}={value}")


def command_line(folder: Path, random: Random) -> list[str]:
    """A command about something that is no run and no sound file, with options at random."""
    commands = {name: options for name, options in targets.options_of_commands().items() if name not in NEVER}
    name = random.choice(sorted(commands))
    words = [name if random.random() < 0.97 else random.choice(WORDS)]
    if name == "validate":
        words += ["--suite", random.choice(WORDS)]
    words += [_no_input(folder, random) for _ in range(random.choice((1, 1, 1, 2)))]
    for option, takes_value in random.sample(commands[name], min(len(commands[name]), random.choice((0, 1, 2, 3)))):
        if f"{name} {option}" in NEVER or option in ("--out", "--json", "--plot", "--plots", "--copy"):
            continue  # results go into the trial's own folder, by names that are not chosen at random
        words += [option, _option_value(random)] if takes_value else [option]
    return [_as_given(word) for word in words]


def _as_given(word: str) -> str:
    """What a command line can hold: bytes but for 0, those that are no UTF-8 as Python has them."""
    return word.replace("\0", "").replace("\ud800", "\udcff")


def _option_value(random: Random) -> str:
    return random.choice((*WORDS, "0", "-1", "1e9", "nan", "99999999999", "1,2,4", "a=b", "a=1", "x.y=z", "4,2,1"))


@functools.cache
def _shipped_names() -> set[str]:
    """Whatever a command could take for a file that is shipped: it would begin to compute."""
    return {name for shipped in shipped_files() for name in (shipped.name, shipped.path.stem)}


def _no_input(folder: Path, random: Random) -> str:
    """The name of something that is not there, or not what is looked for."""
    chance = random.randrange(7)
    if chance == 0:
        return random.choice((".", "..", "/", "/dev/null", "/dev/zero", "~", "none", "x" * 300, "a/" * 100))
    if chance == 1:
        return random.choice([word for word in WORDS if word not in _shipped_names()])
    number = len(list(folder.iterdir()))
    file = folder / f"input{number}{random.choice(('.yaml', '.json', '', '.npz'))}"
    if chance == 2:
        file.mkdir()
    elif chance == 3:
        file.mkdir()
        for name in ("config.yaml", "meta.json"):
            (file / name).write_bytes(random.choice((b"", b"{}", b"[]", b"\xff\xfe", b"a: [", b"null", b"robot: 1\n")))
    elif chance == 4:
        file.write_bytes(random.randbytes(random.choice((0, 1, 10, 1000))))
    elif chance == 5:
        file.write_text(random.choice(("", "{}", "[]", "null", "a: b", "robot: {}", "- a", "experiments: {}", "1")))
    return os.path.relpath(file, folder)
