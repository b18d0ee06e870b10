"""Files that come with this package, found by name: `biped`, `3d/quadruped`, or `quadruped` if only one has it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsr.experiments.config import evolves
from vsr.experiments.config.problems import ConfigError, Problem
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.installed import CONFIGS

EXPERIMENT, SCENE, STUDY, REACH, SET = "experiment", "scene", "study", "reach", "evaluation_set"
LANDSCAPE = "landscape"
USE = {
    EXPERIMENT: "vsr evolve",
    SCENE: "vsr simulate, vsr play",
    STUDY: "vsr reproduce",
    REACH: "vsr reach",
    SET: "vsr evaluate --on",
    LANDSCAPE: "vsr landscape",
}
"""Kinds of files, and the commands that work with them."""
ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Shipped:
    """One file of the package."""

    path: Path

    @property
    def name(self) -> str:
        """As commands take it: `3d/quadruped`."""
        return self.path.relative_to(CONFIGS).with_suffix("").as_posix()

    @property
    def kind(self) -> str:
        """Which commands it is for."""
        return kind_of(read_yaml(self.path).data)

    @property
    def about(self) -> str:
        """What it describes: the first sentence of the comment it begins with."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        comment = " ".join(line.lstrip("# ") for line in _while_comment(lines))
        return comment.split(". ")[0].rstrip(".")


def shipped_files() -> list[Shipped]:
    """All of them, by name; those of the upper folder first."""
    found = [Shipped(path) for path in CONFIGS.rglob("*.yaml")]
    return sorted(found, key=lambda one: (one.name.count("/"), one.name))


def kind_of(data: Any) -> str:
    """What a file's content describes: its `kind`. Without one it is an experiment if it can be no scene."""
    if isinstance(data, dict) and data.get("kind") in USE:
        return data["kind"]
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
    """The shipped file of a name, or of a name's last part; None if there is none."""
    alike = [one for one in shipped_files() if named in (one.name, one.path.stem)]
    fitting = [one for one in alike if not kinds or one.kind in kinds]
    exact = [one for one in fitting if one.name == named]
    if exact or len(fitting) == 1:
        return (exact or fitting)[0].path
    if fitting:
        names = ", ".join(one.name for one in fitting)
        raise ConfigError([Problem(named, f"several shipped files have this name; give one of {names}")])
    if alike:
        uses = ", ".join(f"{one.name} is for {USE[one.kind]}" for one in alike)
        raise ConfigError([Problem(named, f"no shipped {' or '.join(kinds)} has this name; {uses}")])
    return None


def source_of(path: Path) -> str:
    """Where a file is from, for the folder of its run."""
    if path.resolve().is_relative_to(CONFIGS):
        return f"{Shipped(path.resolve()).name}, shipped with vsr"
    return str(path)


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
    names = dict.fromkeys(name for one in known for name in (one.name, one.path.stem))
    near = difflib.get_close_matches(bare, names, n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}', which is shipped?" if near else "; vsr list configs shows what is shipped"
