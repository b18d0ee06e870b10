"""What every suite of `vsr validate` is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vsr.environment.model import Sticking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Report = dict[str, Any]
"""What `--json` writes."""


@dataclass(frozen=True)
class Options:
    """What a user asked for; all but the first two only of suites that take them."""

    suite: str = "2d"
    json_file: str | None = None
    plots: str | None = None
    """folder of figures"""
    reference: str | None = None
    """folder of the original simulator's data"""
    sticking: Sticking | None = None
    """which corners of masses may stick to the ground"""
    large: bool = False
    scale: str | None = None


class Suite(ABC):
    """Comparisons that belong together."""

    takes: tuple[str, ...] = ()
    """fields of Options that it understands"""

    @abstractmethod
    def run(self, options: Options, show: Callable[[Any], None], keep: Callable[[Report], None]) -> Report:
        """Every comparison; show: prints what was found as it is found; keep: writes what there is so far."""

    def figures(self, report: Report, options: Options) -> Iterator[tuple[str, Figure]]:
        """What `--plots` draws, with the names of the files."""
        yield from ()
