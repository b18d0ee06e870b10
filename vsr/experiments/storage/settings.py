"""The settings of a run, and their integrity.

config.yaml is for people; meta.json repeats it and carries a check sum; every checkpoint and every piece of lineage
names the settings it was made with by their fingerprint. So a changed file is detected, and a lost one
is written again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsr.arrays import CorruptFileError, read_label
from vsr.experiments.config import dump_plain, load_experiment, parse_experiment
from vsr.experiments.config.loading import is_written, load_experiment_alike
from vsr.experiments.config.plugins import PluginRequiredError
from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.checkpoints import checkpoint_files
from vsr.experiments.storage.files import digest_of, read_checked_json, refuse_links

CONFIG, META = "config.yaml", "meta.json"
KIND, FORMAT = "run", 1
"""The kind of file in meta.json."""
MAY_CHANGE = ("generations", "checkpoint_seconds")
"""Settings that may differ when a run goes on."""

Change = tuple[str, str, str]
"""A setting that differs: its name, and both values as they are shown."""


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run."""

    path: Path
    experiment: Experiment
    """as the run has been made with them"""
    begun: dict[str, Any]
    """the same as plain values, as they were written when the run began"""
    meta: dict[str, Any]
    """contents of meta.json, with `plugins` and `sessions`; both empty if it could not be read"""
    meta_fault: str = ""
    """why meta.json could not be read"""
    config_fault: str = ""
    """why config.yaml could not be read, so that meta.json was"""
    changes: tuple[Change, ...] = ()
    """differences of config.yaml from the run, with the run's value first"""
    doubt: str = ""
    """why these may not be the run's settings"""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.begun)

    @property
    def warnings(self) -> list[str]:
        """For those who only look at the run."""
        warnings = [self.doubt] if self.doubt else []
        if self.config_fault:
            warnings.append(f"{self.config_fault}; {META} has the same settings, which are used")
        if self.changes:
            changes = ", ".join(f"{name}: {old} in the run, {new} in the file" for name, old, new in self.changes)
            warnings.append(
                f"{self.path / CONFIG}: it was changed since the run began ({changes}); the run's own settings are used"
            )
        return warnings


def fingerprint(plain: dict[str, Any]) -> str:
    """Of all settings that a run keeps."""
    return digest_of(_kept(plain))


def _kept(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name not in MAY_CHANGE}


def read_settings(path: Path, settings: Sequence[str] = (), *, run_plugins: bool = False) -> RunSettings:
    """The settings of the run in a folder, from whichever file has them; settings: values set over them (`path=value`).

    Raises UserError if no file has them.
    """
    refuse_links(path)
    meta, meta_fault = read_meta(path)
    begun = meta.get("experiment") if isinstance(meta.get("experiment"), dict) else None
    file, doubt = path / CONFIG, ""
    try:
        stored = load_experiment_alike(file, run_plugins=run_plugins)
    except ConfigError as error:
        own = _experiment_of(begun, path, settings, run_plugins)
        if own is None or begun is None:
            raise _lost(error, meta, meta_fault) from None
        return RunSettings(path, own, begun, meta, meta_fault, config_fault=_first_line(error))
    same = begun is not None and (is_written(file, begun, MAY_CHANGE) or _kept(stored.to_plain()) == _kept(begun))
    own = stored if same else _experiment_of(begun, path, (), run_plugins)
    if own is None or begun is None:
        own = stored
        begun, doubt = _begun_from_config(file, stored, meta_fault)
    changes = () if own is stored else tuple(differences(own.to_plain(), stored.to_plain()))
    given = own if changes else stored
    if settings:
        given = _experiment_of(begun, path, settings, run_plugins) if changes else None
        given = given or load_experiment(file, settings, run_plugins=run_plugins)
    return RunSettings(path, given, begun, meta, meta_fault, changes=changes, doubt=doubt)


def read_meta(path: Path) -> tuple[dict[str, Any], str]:
    """Contents of a run's meta.json, and an error if it cannot be read."""
    file = path / META
    try:
        meta = read_checked_json(file)
        if (meta.get("kind"), meta.get("format")) != (KIND, FORMAT):
            raise CorruptFileError(file, f"it is no file of kind {KIND}, format {FORMAT}")
    except CorruptFileError as error:
        return {"plugins": {}, "sessions": []}, str(error)
    meta = {"plugins": {}, **meta}
    sessions = meta.get("sessions")
    whole = isinstance(sessions, list) and all(isinstance(start, dict) for start in sessions)
    if not isinstance(meta["plugins"], dict) or not whole:
        return {**meta, "plugins": {}, "sessions": []}, f"{file}: corrupted (it has no sessions)"
    return meta, ""


def check_same_experiment(path: Path, experiment: Experiment) -> None:
    """Refuse to go on with a run whose settings were changed, or with another experiment than the run's."""
    again = f"vsr evolve {shlex.quote(str(path))}"
    try:
        found = read_settings(path)
    except PluginRequiredError as error:
        if other := [name for name in error.missing if name in experiment.plugins]:
            raise UserError(
                f"{path}: plugin '{other[0]}' is not what it was when the run began; put it back as it was, or start "
                "again with another --out"
            ) from None
        raise
    if found.doubt:
        raise UserError(f"{found.doubt}; put back the {CONFIG} or the {META} that the run was made with")
    if found.changes:
        raise UserError(
            f"{path / CONFIG}: it was changed since the run began:\n{_listed(found.changes, 'in the file')}\n"
            f"to go on as it began, remove this file: {again} --resume writes it again\n"
            f"to evolve with its current settings: vsr evolve {shlex.quote(str(path / CONFIG))} --out FOLDER"
        )
    if changes := list(differences(found.experiment.to_plain(), experiment.to_plain())):
        raise UserError(
            f"{path}: this run was made with other settings:\n{_listed(changes, 'now')}\n"
            f"go on with the run's own ({again} --resume), or start again with another --out"
        )


def config_text(begun: dict[str, Any], experiment: Experiment) -> str:
    """config.yaml of a run that goes on: as it began, but for what may change."""
    return dump_plain(current(begun, experiment))


def current(begun: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    """The settings as they began, with the present values of what may change."""
    now = experiment.to_plain()
    return {**begun, **{name: now[name] for name in MAY_CHANGE}}


def differences(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """Differences between plain settings that must be equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if path or key not in MAY_CHANGE:
                yield from differences(old.get(key), new.get(key), (*path, key))
    elif old != new:
        yield ".".join(path), _shown(old), _shown(new)


def _experiment_of(
    plain: dict[str, Any] | None, path: Path, settings: Sequence[str], run_plugins: bool
) -> Experiment | None:
    """The experiment that meta.json holds; None if there is none, or none that can be read."""
    if plain is None:
        return None
    text, file = json.dumps(plain, ensure_ascii=False), str(path / META)
    try:
        experiment = parse_experiment(text, file, run_plugins=run_plugins)
    except PluginRequiredError:
        raise
    except UserError:  # as config.yaml cannot be either, for example because a plugin is missing
        return None
    return parse_experiment(text, file, settings, run_plugins=run_plugins) if settings else experiment


def _begun_from_config(file: Path, stored: Experiment, meta_fault: str) -> tuple[dict[str, Any], str]:
    """The settings in config.yaml as plain values, and what speaks against them, where meta.json does not have them."""
    written = read_yaml(file).data
    plains = [written, stored.resolved().to_plain()]
    known = fingerprint_in_checkpoints(file.parent)
    fitting = [plain for plain in plains if known is None or fingerprint(plain) == known]
    if fitting:
        return fitting[0], ""
    fault = f" and {meta_fault}" if meta_fault else ""
    return written, f"{file}: its settings are not those that the run's checkpoints were made with{fault}"


def fingerprint_in_checkpoints(path: Path) -> str | None:
    """That of the newest whole checkpoint; None if there is none."""
    for file in reversed(checkpoint_files(path / "checkpoints")):
        try:
            label, _ = read_label(file)
        except CorruptFileError:
            continue
        return label.get("experiment")
    return None


def _lost(error: ConfigError, meta: dict[str, Any], meta_fault: str) -> UserError:
    if meta.get("registered"):
        return UserError(
            f"{error}\nthe run was made with components that were registered by code that is no plugin: "
            f"{', '.join(map(str, meta['registered']))}; register them, then read the run from Python"
        )
    if "python_fitness" in meta or any(problem.path[:1] == ("plugins",) for problem in error.problems):
        return error
    return UserError(
        f"{error}\n{meta_fault}\nno other file of the run has its settings: put back a copy of {CONFIG} or {META}"
    )


def _first_line(error: ConfigError) -> str:
    return str(error).splitlines()[0]


def _listed(changes: Sequence[Change], where: str) -> str:
    return "\n".join(f"  {name}: {old} in the run, {new} {where}" for name, old, new in changes)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
