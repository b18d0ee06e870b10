"""Files that come with this package, found by name: `first_walker`, `01_first_walker`, `examples/01_first_walker`.

examples/: twelve experiments, each with its cost. robots/: scenes. studies/: studies and their parts. more/: further
experiments, most of them variations of examples. reach/, sets/ and landscape/: what `vsr reach`, `vsr evaluate` and
`vsr landscape` take. A name means one file, whatever its folder.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsr.experiments.config import evolves
from vsr.experiments.config.problems import ConfigError, Problem
from vsr.experiments.config.yaml import PRESET, read_yaml
from vsr.experiments.installed import CONFIGS, names_of, shipped_as

EXPERIMENT, SCENE, STUDY, REACH, SET = "experiment", "scene", "study", "reach", "evaluation_set"
LANDSCAPE = "landscape"
USE = {
    EXPERIMENT: "vsr evolve",
    SCENE: "vsr simulate, vsr play",
    STUDY: "vsr reproduce",
    REACH: "vsr reach",
    SET: "vsr evaluate --on",
    LANDSCAPE: "vsr landscape",
    PRESET: "`extends: NAME` in a file",
}
"""Kinds of files, and the commands that work with them."""
ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Shipped:
    """One file of the package."""

    path: Path

    @property
    def name(self) -> str:
        """As lists show it: `01_first_walker`."""
        return self.path.stem

    @property
    def kind(self) -> str:
        """Which commands it is for."""
        return kind_of(read_yaml(self.path).data)

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a study or a further experiment, which lists leave out."""
        folder, *inside = self.path.relative_to(CONFIGS).parts
        return folder == "more" or (folder == "studies" and len(inside) > 1)

    @property
    def about(self) -> str:
        """What it describes: the first sentence of the comment it begins with."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        comment = " ".join(line.lstrip("# ") for line in _while_comment(lines))
        return comment.split(". ")[0].rstrip(".")


def shipped_files() -> list[Shipped]:
    """All of them, by folder and name."""
    return [Shipped(path) for path in sorted(CONFIGS.rglob("*.yaml"))]


def kind_of(data: Any) -> str:
    """What a file's content describes: its `kind`. Without one it is an experiment if it can be no scene."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind in USE:
        return kind
    return EXPERIMENT if evolves(data) else SCENE


def find_config(given: str | Path, *kinds: str, folders: bool = False) -> Path:
    """The file meant by a path or by the name of a shipped file; raises ConfigError if there is none.

    What lies in the current folder goes first, with its ending or without; kinds: those the command works with;
    folders: whether it takes a folder too.
    """
    here, named = Path(given), str(given)
    if here.is_file() or (folders and here.is_dir()):
        return here
    if here.suffix.lower() not in ENDINGS:
        own = Path(f"{named}.yaml")
        if own.is_file() and _fits(own, kinds):
            return own
        if found := _shipped_as(named, kinds):
            return found
    if here.exists():
        return here  # a folder, which the command reports
    raise ConfigError([Problem(named, f"there is no such file{_advice(named, kinds)}")])


def _shipped_as(named: str, kinds: Sequence[str]) -> Path | None:
    """The shipped file of a name; None if there is none, ConfigError if the command does not work with it."""
    path = shipped_as(named)
    if path is None:
        return None
    found = Shipped(path)
    if kinds and found.kind not in kinds:
        text = f"no shipped {' or '.join(kinds)} has this name; {found.name} is for {USE[found.kind]}"
        raise ConfigError([Problem(named, text)])
    return path


def source_of(path: Path) -> str:
    """Where a file is from, for the folder of its run."""
    if path.resolve().is_relative_to(CONFIGS):
        return f"{Shipped(path.resolve()).name}, shipped with vsr"
    return str(path)


def run_name(path: Path) -> str:
    """The folder for runs of a file: its name, of an example without the number."""
    return names_of(path.resolve())[-1] if path.resolve().is_relative_to(CONFIGS) else path.stem


def _while_comment(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("#"):
            return
        yield line


def _fits(path: Path, kinds: Sequence[str]) -> bool:
    """Whether a command may work with a file; one that cannot be read is left to the command, which tells why."""
    try:
        return not kinds or kind_of(read_yaml(path).data) in kinds
    except ConfigError:
        return True


def _advice(named: str, kinds: Sequence[str]) -> str:
    """What else may be meant by a name that leads nowhere."""
    bare = Path(named).with_suffix("").as_posix().removeprefix("configs/")
    known = [one for one in shipped_files() if not kinds or one.kind in kinds]
    names = dict.fromkeys(name for one in known for name in names_of(one.path)[::-1])
    near = difflib.get_close_matches(bare, names, n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}', which is shipped?" if near else "; vsr list configs shows what is shipped"
