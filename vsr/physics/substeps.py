"""The number of substeps that a time step needs.

The stability bound of an engine is for small motions about rest; STABLE covers large deformations. MARGIN, more
demanding, is for accuracy: gaits of large bodies still change between a third and a fifth of the bound, and no more
below (docs/understand/physics.md). That holds for what is soft enough to move; a material so hard that MARGIN asks for
less than ACCURATE need only be stable.
"""

from __future__ import annotations

import math

from vsr.lattice.integrators import NEEDS_DAMPING

MARGIN = 4.5
"""Automatic substeps are this many times shorter than the bound ..."""
ACCURATE = 0.002
"""... but need not be shorter than this [s] ..."""
STABLE = 2.25
"""... as long as they are this many times shorter than the bound."""
MOST_SUBSTEPS = 100_000
"""More in one time step are a mistake."""


def choose_substeps(bound: float, time_step: float, substeps: int | None = None, accurate: float = math.inf) -> int:
    """Substeps per time step [s]: enough for the stiffest material, or the given number if it is stable.

    bound: the stability bound of the stiffest material [s]; accurate: what automatic substeps must not exceed besides
    [s]. Raises ValueError, with the bound, for a number that would blow up.
    """
    if bound <= 0:
        raise ValueError(f"no substep is stable: {NEEDS_DAMPING}")
    if substeps is None:
        needed = time_step / min(max(bound / MARGIN, min(bound / STABLE, ACCURATE)), accurate)
        if needed > MOST_SUBSTEPS:
            raise ValueError(
                f"{needed:.3g} substeps in a time step of {time_step:g} s would be needed for the stiffest material "
                f"(stable up to {1000 * bound:.3g} ms): use a shorter time step or a softer material"
            )
        return max(1, math.ceil(needed - 1e-9))
    if time_step / substeps > bound:
        raise ValueError(
            f"{substeps} substep{'s' if substeps > 1 else ''} of {1000 * time_step / substeps:.2f} ms would blow up: "
            f"the stiffest material is stable up to {1000 * bound:.2f} ms, "
            f"so use at least {math.ceil(time_step / bound)} (or leave it out: "
            f"{choose_substeps(bound, time_step, None, accurate)} with margin)"
        )
    return substeps


def whole_substeps(substep: float, time_step: float, substeps: int | None = None) -> int:
    """Substeps per time step [s] where they can have one length only [s]; raises ValueError if that is impossible."""
    count = round(time_step / substep)
    if count < 1 or abs(count * substep - time_step) > 1e-6 * time_step:
        raise ValueError(f"a time step of {time_step:g} is no whole number of substeps of {substep:g}")
    if substeps not in (None, count):
        raise ValueError(
            f"{substeps} given; such masses have substeps of {substep:g}, because springs relax in every one of them: "
            f"{count} in a time step of {time_step:g}, or leave it out"
        )
    return count
