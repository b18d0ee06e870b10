"""A study as plain data: which experiments, drawn how, run on which scale, and which claims they are to bear out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from vsr.experiments.reproduce.claims import CLAIMS, Claim
from vsr.spec import Count, OneOf, Spec, misfit

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""What may also be the name of a folder."""


class Member(Spec):
    """One experiment of a study."""

    file: str
    """its file, seen from the study's"""
    label: str
    """what figures and tables call it"""


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
    """how often each seed's best robot is simulated again, from heights that differ by up to a millimetre"""
    factors: tuple[Annotated[Count, Field(ge=1, le=64)], ...] = Field(default=(1, 2, 4, 8), min_length=1)
    """how many times finer steps are when the best robots are simulated again"""
    note: str = ""
    """what a reader should know of results on this scale"""

    def settings(self, experiment: str) -> tuple[str, ...]:
        """All values over those of an experiment's file."""
        return *self.set, *self.set_for.get(experiment, ())


class Swap(Spec):
    """Winners are tried in the worlds of all experiments."""

    film: tuple[Name, ...] = ()
    """experiments whose best robots are filmed in the worlds of each other"""


class Study(Spec):
    """All that `vsr reproduce` needs."""

    title: str
    about: str = ""
    """what is asked, as Markdown"""
    experiments: dict[Name, Member] = Field(min_length=1)
    figure: Plots
    scales: dict[Name, Scale] = Field(min_length=1)
    claims: tuple[Annotated[Claim, OneOf(CLAIMS)], ...] = ()
    """what the experiments are expected to show"""
    exchange: Swap | None = None
    """if given, every seed's best robot is tried in the worlds of all experiments, with the scale's factors and
    repeats; all must maximise the same measure, of 2-D robots"""
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest; they may register kinds of claims of your own"""

    @model_validator(mode="after")
    def _named(self) -> Study:
        unknown = [(path, name) for path, name in self._names() if name not in self.experiments]
        if unknown:
            known = ", ".join(self.experiments)
            raise misfit([(path, f"there is no experiment '{name}'; there are {known}") for path, name in unknown])
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
