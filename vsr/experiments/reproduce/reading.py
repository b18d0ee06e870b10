"""Studies from files: those that are shipped by name, or anyone's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vsr.experiments.config import load_experiment
from vsr.experiments.config.check import check
from vsr.experiments.config.plugins import load_plugins, require_plugins
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml_reader import parse_yaml, read_text, read_yaml
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
    run_plugins: bool = False
    """whether those of its experiments are run"""

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
        return load_experiment(self.file(name), settings, run_plugins=self.run_plugins)


def is_study(path: str | Path) -> bool:
    """Whether a file describes a study rather than one experiment or scene."""
    text = read_text(path)
    if "experiments" not in text:
        return False  # rather than understand all of a large file twice
    data = parse_yaml(text, str(path)).data
    return isinstance(data, dict) and "experiments" in data


def load_study(path: str | Path, *, run_plugins: bool = False) -> StudyFile:
    """The study in a file; raises ConfigError with every fault in it, NeedsPlugins if plugins of it are not to run."""
    document = read_yaml(path)
    if run_plugins:
        load_plugins(document)
    require_plugins(document)
    Study.model_rebuild(force=True)  # a plugin may have registered kinds of claims
    return StudyFile(Path(path), check(document, Study), run_plugins)


def find_studies(given: str) -> list[StudyFile]:
    """A study by its file, one that is shipped by its name, or all of the paper's."""
    if given == ALL:
        return [load_study(SHIPPED / f"{name}.yaml", run_plugins=True) for name in PAPER]
    return [load_study(find_config(given, STUDY), run_plugins=True)]
