"""What cannot be asked of a lattice in time: refused before anything is computed.

Only what is known without a device is looked at: Python's and NumPy's numbers, and what a lattice and a state are made
of. Values that are traced, or lie on a device, pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vsr.lattice.model import Lattice, State


def check_step(step: Any) -> None:
    """Raise ValueError for a step [s] in which time does not go on."""
    if _known(step) and not 0 < step < math.inf:
        raise ValueError(f"a step of {step} s: it must be above 0 and finite (choose_step gives one that is stable)")


def check_time(time: Any) -> None:
    """Raise ValueError for a time [s] that never comes; one that is past is only met at once."""
    if _known(time) and math.isnan(time):
        raise ValueError("a time of nan s never comes: give a number")


def check_count(name: str, count: Any, least: int = 0) -> None:
    """Raise ValueError for a number of steps or samples that is not whole, or too small."""
    if _known(count) and not (isinstance(count, int | np.integer) and count >= least):
        raise ValueError(f"{name}={count}: it must be a whole number, {least} or more")


def check_breaking(lattice: Lattice, state: State) -> None:
    """Raise ValueError if only one of a lattice and its state knows that springs can break."""
    if lattice.springs.yield_force is None and state.intact is not None:
        raise ValueError(
            "the state tells which springs are whole, and those of the lattice cannot break: make them `breakable`, "
            "or use a state without `intact` (rest_state makes one)"
        )
    if lattice.springs.yield_force is not None and state.intact is None:
        raise ValueError(
            "the springs of the lattice can break, and the state does not tell which are whole: make it by rest_state "
            "from the breakable lattice"
        )


def _known(value: Any) -> bool:
    return isinstance(value, int | float | np.number)
