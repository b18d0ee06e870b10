"""Rounds of trials: whichever kind of fault has had the least time comes next, until the time is up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from vsr.experiments.torture import ages, crafted, damage, disk, kills, rivals, signals, small_disk, write_faults
from vsr.experiments.torture.fuzz import inputs
from vsr.experiments.torture.ground import Ground


@dataclass(frozen=True)
class Kind:
    """A kind of fault."""

    what: str
    trial: Callable[[Ground, int, Random], list[str]]
    """the trial of a number: what was not as promised"""
    needs_runs: bool = True
    is_possible: Callable[[], bool] = lambda: True
    """on this computer"""


KINDS: dict[str, Kind] = {
    "kill": Kind(kills.WHAT, kills.trial),
    "signal": Kind(signals.WHAT, signals.trial),
    "write": Kind(write_faults.WHAT, write_faults.trial),
    "disk": Kind(small_disk.WHAT, small_disk.trial, is_possible=disk.is_possible),
    "damage": Kind(damage.WHAT, damage.trial),
    "craft": Kind(crafted.WHAT, crafted.trial),
    "rival": Kind(rivals.WHAT, rivals.trial),
    "age": Kind(ages.WHAT, ages.trial),
    "fuzz": Kind(inputs.WHAT, inputs.trial, needs_runs=False),
}


@dataclass(frozen=True)
class Failure:
    """A trial in which a promise was broken."""

    trial: int
    faults: tuple[str, ...]


@dataclass
class Tally:
    """What the trials of one kind came to."""

    trials: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class Budget:
    """When to stop."""

    until: float | None = None
    """a time of `time.monotonic` [s]; every kind has one trial in any case"""
    trials: int | None = None
    """of each kind"""

    def is_spent(self, tallies: Mapping[str, Tally]) -> bool:
        if any(not tally.trials for tally in tallies.values()):
            return False
        return self.until is not None and time.monotonic() >= self.until

    def open(self, tallies: Mapping[str, Tally]) -> list[str]:
        """Kinds that may have another trial."""
        return [name for name, tally in tallies.items() if self.trials is None or tally.trials < self.trials]


def try_out(
    ground: Ground,
    seed: int,
    tallies: Mapping[str, Tally],
    budget: Budget,
    note: Callable[[str, int, list[str]], None] = lambda *_: None,
    first: int = 0,
    stop: Sequence[int] = (),
) -> None:
    """Add to the tallies, a kind each, until the budget is spent or there is a reason to stop.

    note: is told of every trial; first: the number of the first one.

    The same seed makes the same trials, in each kind in the same order; how many there are depends on the time.
    """
    while not stop and (open_kinds := budget.open(tallies)) and not budget.is_spent(tallies):
        name = min(open_kinds, key=lambda kind: tallies[kind].seconds)
        tally = tallies[name]
        number, began = first + tally.trials, time.monotonic()
        found = KINDS[name].trial(ground, number, Random(f"{seed}/{name}/{number}"))
        tally.seconds += time.monotonic() - began
        tally.trials += 1
        if found:
            tally.failures.append(Failure(number, tuple(found)))
        else:
            shutil.rmtree(ground.folder / "trials" / f"{name}-{number}", ignore_errors=True)
        note(name, number, found)
