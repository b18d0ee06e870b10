"""Descriptions read without the plugins that their files name: reading must not run code that somebody else wrote.

What needs no plugin is checked and there as usual. A part that cannot be read without one, and `physics` in any case,
stay as they are in the file; whoever asks for something of them gets `NeedsPlugins`, which says how to have it. So
curves and lineage are shown, and nothing is simulated with half of what belongs to it.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, PrivateAttr, ValidationError

from vsr.experiments.config.check import check, part_reader
from vsr.experiments.config.plugins import missing_plugins
from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.config.yaml import Document
from vsr.experiments.experiment import Experiment
from vsr.scene import Scene
from vsr.spec import Spec

OF_PLUGINS = ("robot", "world", "task", "ea")
"""Parts with components, of which plugins may bring more."""

Described = TypeVar("Described", bound=Spec)


class NeedsPlugins(UserError):
    """What was asked for cannot be had without running code that a file brings."""


class Unread:
    """A part of a description that only plugins can read."""

    def __init__(self, file: str, missing: dict[str, Path | None]):
        self._file, self._missing = file, missing

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # what Python itself looks for
        raise NeedsPlugins(why(self._file, self._missing))


class UnreadSearch(Unread):
    """A search of which only the size of its population is known."""

    def __init__(self, file: str, missing: dict[str, Path | None], n_pop: int):
        super().__init__(file, missing)
        self.n_pop = n_pop


class _PartlyRead(Spec):
    """A description some of whose parts are `Unread`."""

    model_config = ConfigDict(defer_build=True)  # nothing is ever checked to be one

    _data: dict[str, Any] = PrivateAttr()
    _missing: dict[str, Path | None] = PrivateAttr()

    def to_plain(self) -> dict[str, Any]:
        """As the file has it."""
        return copy.deepcopy(self._data)


class _PartlyReadExperiment(_PartlyRead, Experiment):
    pass


class _PartlyReadScene(_PartlyRead, Scene):
    pass


def missing_of(description: Spec) -> dict[str, Path | None]:
    """The plugins without which a description was read, with their files where these are known; none of most."""
    return description._missing if isinstance(description, _PartlyRead) else {}


def why(file: str, missing: dict[str, Path | None]) -> str:
    """What cannot be done, and how it can."""
    named = ", ".join(name if where is None else f"{name} ({where})" for name, where in missing.items())
    plural = "s" if len(missing) > 1 else ""
    return f"{file}: this needs the plugin{plural} {named}: code, which reading does not run; --trust-plugins runs it"


def require_plugins(document: Document) -> None:
    """Raise NeedsPlugins if this process has not run all plugins that a document names."""
    if missing := missing_plugins(document):
        raise NeedsPlugins(why(document.file, missing))


def require_whole(description: Spec, file: str | Path) -> None:
    """Raise NeedsPlugins if a description of a file was read without its plugins."""
    if missing := missing_of(description):
        raise NeedsPlugins(why(str(file), missing))


def read_without(document: Document, kind: type[Described], missing: dict[str, Path | None]) -> Described:
    """What a document describes, as far as that can be known without its plugins; raises ConfigError for other faults.

    kind: Experiment or Scene.
    """
    data = document.data
    parts: dict[str, Any] = {"physics": Unread(document.file, missing)}  # or it could be simulated as if all was known
    faulty = set(data) - set(kind.model_fields)
    for name, field in kind.model_fields.items():
        if name in parts:
            continue
        if name not in data:
            parts[name] = None if field.is_required() else field.get_default(call_default_factory=True)
            faulty |= {name} if field.is_required() else set()
            continue
        try:
            parts[name] = part_reader(kind, name).validate_python(data[name])
        except ValidationError:
            parts[name] = _unread(document, name, missing)
            faulty |= set() if name in OF_PLUGINS else {name}
    if faulty or document.problems:
        _report(document, kind, faulty)
    partly = _PartlyReadExperiment if issubclass(kind, Experiment) else _PartlyReadScene
    described = partly.model_construct(**parts)
    described._data, described._missing = data, missing
    return cast(Described, described)


def faults_without(document: Document, kind: type[Spec]) -> list[Problem]:
    """Faults of parts that no plugin has to do with."""
    faulty = set(document.data) - set(kind.model_fields) if isinstance(document.data, dict) else set()
    for name in set(kind.model_fields) & set(document.data) - {*OF_PLUGINS, "physics"}:
        try:
            part_reader(kind, name).validate_python(document.data[name])
        except ValidationError:
            faulty.add(name)
    try:
        _report(document, kind, faulty)
    except ConfigError as error:
        return error.problems
    return []


def _unread(document: Document, name: str, missing: dict[str, Path | None]) -> Unread:
    if name != "ea":
        return Unread(document.file, missing)
    given = document.data[name]
    n_pop = given.get("n_pop") if isinstance(given, dict) else None
    if type(n_pop) is not int or n_pop < 1:  # statistics mean little without it
        raise NeedsPlugins(why(document.file, missing))
    return UnreadSearch(document.file, missing, n_pop)


def _report(document: Document, kind: type[Spec], faulty: set[str]) -> None:
    """Raise ConfigError with the faults that no plugin would mend."""
    try:
        check(document, kind)
    except ConfigError as error:
        own = [fault for fault in error.problems if fault in document.problems or {*fault.path[:1]} & faulty]
        raise ConfigError(own) from None
