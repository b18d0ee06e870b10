"""What a check found: one row of the table, with the curves behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure against what it should be."""

    name: str
    measured: float
    expected: float
    error: float
    """of the measured figure, as a share of the expected one or in its unit; see error_unit"""
    tolerance: float | None
    """the largest error that passes; None if the figure is only reported"""
    unit: str
    """of measured and expected"""
    error_unit: str
    """of error and tolerance: "relative" or a unit"""
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Not a number never passes; None if nothing was asked."""
        return None if self.tolerance is None else bool(abs(self.error) <= self.tolerance)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "passed": self.passed}


@dataclass
class Findings:
    """Of one section: rows, and the curves that plots draw."""

    rows: list[Row] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)


def relative(
    name: str, measured: float, expected: float, tolerance: float | None, unit: str = "", note: str = ""
) -> Row:
    """The error is a share of the expected figure."""
    return Row(
        name, float(measured), float(expected), float(measured / expected - 1), tolerance, unit, "relative", note
    )


def absolute(
    name: str, measured: float, expected: float, tolerance: float | None, unit: str = "", note: str = ""
) -> Row:
    """The error is a difference."""
    return Row(name, float(measured), float(expected), float(measured - expected), tolerance, unit, unit, note)
