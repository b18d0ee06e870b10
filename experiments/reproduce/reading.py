"""Studies from files: those that are shipped by name, or anyone's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vsr.experiments.config import load_experiment
from vsr.experiments.config.check import check
from vsr.experiments.config.plugins import load_plugins
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml_reader import read_yaml
from vsr.experiments.experiment import Experiment
from vsr.experiments.installed import CONFIGS
from vsr.experiments.reproduce.study import Scale, Study
from vsr.experiments.shipped import STUDY, find_config
from vsr.spec import suggest

SHIPPED = CONFIGS / "studies"
PAPER = ("body", "devo", "sensing")
"""The shipped studies that are the paper's."""
ALL = "all"
"""Stands for these."""


@dataclass(frozen=True)
class StudyFile:
    """A study and where it came from."""

    path: Path
    study: Study

    @property
    def name(self) -> str:
        return self.path.stem

    def scale(self, name: str) -> Scale:
        """One of the study's scales; raises UserError if there is none of that name."""
        if name not in self.study.scales:
            raise UserError(f"--scale {name}: {self.path} has no such scale{suggest(name, self.study.scales)}")
        return self.study.scales[name]

    def file(self, experiment: str) -> Path:
        """The experiment's file."""
        return self.path.parent / self.study.experiments[experiment].file

    def experiment(self, name: str, settings: Sequence[str] = ()) -> Experiment:
        """One of its experiments, with values set over the file's."""
        return load_experiment(self.file(name), settings)


def is_study(path: str | Path) -> bool:
    """Whether a file describes a study rather than one experiment or scene."""
    try:
        if b"experiments" not in Path(path).read_bytes():
            return False  # rather than read all of a large file twice
    except OSError:
        pass  # reported when it is read
    data = read_yaml(path).data
    return isinstance(data, dict) and "experiments" in data


def load_study(path: str | Path) -> StudyFile:
    """The study in a file; raises ConfigError with every fault in it."""
    document = read_yaml(path)
    load_plugins(document)
    Study.model_rebuild(force=True)  # a plugin may have registered kinds of claims
    return StudyFile(Path(path), check(document, Study))


def find_studies(given: str) -> list[StudyFile]:
    """A study by its file, one that is shipped by its name, or all of the paper's."""
    if given == ALL:
        return [load_study(SHIPPED / f"{name}.yaml") for name in PAPER]
    return [load_study(find_config(given, STUDY))]
