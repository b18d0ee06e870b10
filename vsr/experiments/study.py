"""A study, from a file: which experiments, drawn how, run on which scale, and which claims they are to bear out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from vsr.experiments.claims import CLAIMS, Claim
from vsr.experiments.config import load_experiment
from vsr.experiments.config.check import check
from vsr.experiments.config.plugins import load_plugins, require_plugins
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml import EXTENDS, extended, parse_yaml, read_text, read_yaml
from vsr.experiments.convert.other_physics import settings_in
from vsr.experiments.experiment import Experiment
from vsr.experiments.installed import CONFIGS
from vsr.experiments.shipped import STUDY, find_config
from vsr.robot import EngineName
from vsr.spec import Count, FileSpec, OneOf, Real, Spec, suggest, validation_error

SHIPPED = CONFIGS / "studies"
PAPER = ("body", "devo", "sensing")
"""The shipped studies that are the paper's."""
ALL = "all"
"""Stands for these."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""A name that may also be the name of a folder."""


class Member(Spec):
    """One experiment of a study."""

    file: str
    """its file, seen from the study's"""
    label: str
    """its name in figures and tables"""
    set: tuple[str, ...] = ()
    """values over those of its file, each as path=value; those of a scale come after"""
    row: Name | None = None
    """the row of `published` that it is compared with"""
    method: str = "ours"
    """the column in which it stands there"""


class Published(Spec):
    """Scores that others have published, beside which ours are put."""

    about: str
    """whose they are, and how they were reached, as Markdown"""
    columns: tuple[str, ...] = Field(min_length=1)
    """names of the methods"""
    rows: dict[Name, tuple[Real | None, ...]] = Field(min_length=1)
    """for every row a score by each of them; null where there is none"""
    bounds: dict[Name, Real] = Field(default={})
    """the best possible score of rows, where it is known"""
    beside: dict[str, dict[Name, Real]] = Field(default={})
    """further methods with scores of some rows, of other protocols: columns that are counted apart"""

    @model_validator(mode="after")
    def _whole(self) -> Published:
        issues = [
            (("rows", row), f"{len(scores)} scores given for {len(self.columns)} columns")
            for row, scores in self.rows.items()
            if len(scores) != len(self.columns)
        ]
        named = [(("bounds",), self.bounds), *((("beside", method), own) for method, own in self.beside.items())]
        issues += [
            ((*path, row), f"there is no row '{row}'") for path, own in named for row in own if row not in self.rows
        ]
        if issues:
            raise validation_error(issues)
        return self

    def best(self, row: str) -> float | None:
        """The highest published score of a row, None if there is none."""
        return max((score for score in self.rows[row] if score is not None), default=None)

    def best_of_all(self, row: str) -> float | None:
        """The highest score of a row, further methods included."""
        known = [self.best(row), *(own.get(row) for own in self.beside.values())]
        return max((score for score in known if score is not None), default=None)

    def best_by(self, row: str) -> str | None:
        """The method that has it, the first of several."""
        best = self.best(row)
        return None if best is None else self.columns[self.rows[row].index(best)]


class Panel(Spec):
    """Curves in one plot."""

    title: str = ""
    curves: tuple[Name, ...] = Field(min_length=1)
    """names of experiments; their final results are compared with each other"""


class Plots(Spec):
    """Plots side by side."""

    name: Name = "figure"
    """of the file"""
    panels: tuple[Panel, ...] = Field(min_length=1)


class Scale(Spec):
    """How much to compute."""

    set: tuple[str, ...] = ()
    """values over those of the experiments' files, each as path=value"""
    set_for: dict[Name, tuple[str, ...]] = Field(default={})
    """the same for single experiments, after those for all"""
    experiments: tuple[Name, ...] | None = None
    """which to run; all if absent"""
    repeats: Annotated[Count, Field(ge=1)] = 16
    """how often each seed's best robot is simulated again, from heights that differ by up to a millimeter"""
    factors: tuple[Annotated[Count, Field(ge=1, le=64)], ...] = Field(default=(1, 2, 4, 8), min_length=1)
    """how many times smaller steps are when the best robots are simulated again"""
    note: str = ""
    """remark on results on this scale"""

    def settings(self, experiment: str) -> tuple[str, ...]:
        """All values over those of an experiment's file."""
        return *self.set, *self.set_for.get(experiment, ())


class Swap(Spec):
    """Winners are tried in the worlds of all experiments."""

    film: tuple[Name, ...] = ()
    """experiments whose best robots are filmed in the worlds of each other"""


class Transfer(Spec):
    """Winners are looked at again: for exploits of EvoGym's physics, and in the physics of other engines."""

    engines: tuple[EngineName, ...] = Field(min_length=1)
    """in which robots on EvoGym's tasks are tried, besides their own"""


class Study(FileSpec):
    """A study, as `vsr reproduce` reads it."""

    kind: Literal["study"] = "study"
    """what this file describes"""
    title: str
    caution: str = ""
    """said first on the page of results, such as that they are to be rerun, as Markdown"""
    question: str = ""
    """as Markdown"""
    about: str = ""
    """the method, as Markdown"""
    doubts: str = ""
    """what would change our mind, as Markdown"""
    experiments: dict[Name, Member] = Field(min_length=1)
    figure: Plots
    scales: dict[Name, Scale] = Field(min_length=1)
    claims: tuple[Annotated[Claim, OneOf(CLAIMS)], ...] = ()
    """statements that the experiments are expected to bear out"""
    exchange: Swap | None = None
    """if given, every seed's best robot is tried in the worlds of all experiments, with the scale's factors and
    repeats; all must maximize the same measure, of 2-D robots"""
    transfer: Transfer | None = None
    """if given, every seed's best robot is tried in other physics, and exploits of its own are not counted"""
    published: Published | None = None
    """scores of others, for experiments that name a `row`"""
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest; they may register kinds of claims of your own"""

    @model_validator(mode="after")
    def _named(self) -> Study:
        unknown = [(path, name) for path, name in self._names() if name not in self.experiments]
        if unknown:
            known = ", ".join(self.experiments)
            raise validation_error(
                [(path, f"there is no experiment '{name}'; there are {known}") for path, name in unknown]
            )
        rows = () if self.published is None else self.published.rows
        strange = [
            (name, one.row) for name, one in self.experiments.items() if one.row is not None and one.row not in rows
        ]
        if strange:
            raise validation_error(
                [(("experiments", name, "row"), f"`published` has no row '{row}'") for name, row in strange]
            )
        return self

    def _names(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Every mention of an experiment, with where it stands."""
        for i, panel in enumerate(self.figure.panels):
            yield from ((("figure", "panels", str(i), "curves"), name) for name in panel.curves)
        for name, scale in self.scales.items():
            yield from ((("scales", name, "experiments"), member) for member in scale.experiments or ())
            yield from ((("scales", name, "set_for"), member) for member in scale.set_for)
        if self.exchange is not None:
            yield from ((("exchange", "film"), name) for name in self.exchange.film)
        for i, claim in enumerate(self.claims):
            yield from ((("claims", str(i)), name) for name in claim.needs)


# Files


@dataclass(frozen=True)
class StudyFile:
    """A study and where it came from."""

    path: Path
    study: Study
    run_plugins: bool = False
    """whether those of its experiments are run"""
    engine: EngineName | None = None
    """in which experiments on EvoGym's tasks evolve, if not in that of their files"""

    @property
    def name(self) -> str:
        """Also of its folder."""
        return self.path.stem if self.engine is None else f"{self.path.stem}-{self.engine}"

    def settings(self, experiment: str) -> tuple[str, ...]:
        """The study's values over those of an experiment's file."""
        given = self.study.experiments[experiment].set
        if self.engine is None:
            return given
        return *given, *settings_in(self.engine, load_experiment(self.file(experiment), given, run_plugins=True))

    def scale(self, name: str) -> Scale:
        """One of the study's scales; raises UserError if there is none of that name."""
        if name not in self.study.scales:
            raise UserError(f"--scale {name}: {self.path} has no such scale{suggest(name, self.study.scales)}")
        return self.study.scales[name]

    def file(self, experiment: str) -> Path:
        """The experiment's file."""
        return self.path.parent / self.study.experiments[experiment].file

    def experiment(self, name: str, settings: Sequence[str] = ()) -> Experiment:
        """One of its experiments, with the study's values over the file's, then those given."""
        return load_experiment(self.file(name), (*self.settings(name), *settings), run_plugins=self.run_plugins)


def is_study(path: str | Path) -> bool:
    """Whether a file describes a study rather than one experiment or scene."""
    text = read_text(path)
    if "study" not in text and EXTENDS not in text:
        return False  # rather than understand all of a large file twice
    data = extended(parse_yaml(text, str(path))).data
    return isinstance(data, dict) and data.get("kind") == "study"


def load_study(path: str | Path, *, run_plugins: bool = False) -> StudyFile:
    """The study in a file; raises ConfigError with every fault, PluginRequiredError if plugins may not run."""
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
