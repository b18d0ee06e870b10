"""Needs of memory, and of time before anything can begin, against what there is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import jax
from rich.console import Console

from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say
from vsr.experiments.estimate.needs import Need, needs_of_scene
from vsr.experiments.estimate.resources import accelerator_memory, host_memory
from vsr.experiments.formatting import lasting
from vsr.scene import Outcome, Scene, simulate

DOUBT = 1.25
"""Estimates beyond what there is by this factor are refused; nearer ones may be wrong, and are tried."""
LONGEST_WAIT = 1800.0
"""Until something can begin [s]; what takes longer is refused ..."""
WORTH_SAYING = 5.0
"""... and what takes longer than this is told beforehand."""
EXHAUSTED = ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory")


def require_memory(what: str, needs: Sequence[Need]) -> None:
    """Raise UserError if there is no memory for this, or if it takes too long to begin; say so if it takes a while.

    what: the file or command that asks for it. To be called before anything is built.
    """
    for need in needs:
        if need.seconds > LONGEST_WAIT:
            took, most = lasting(need.seconds), lasting(LONGEST_WAIT)
            reduced = " or ".join(need.settings)
            raise UserError(f"{what}: {need.what} takes about {took} to settle here, at most {most}: reduce {reduced}")
    for place, have, own in _budgets(needs):
        total = sum(need.bytes for need in own)
        if total > DOUBT * have:
            raise UserError(f"{what}: {_refusal(place, total, have, own)}")
    for need in needs:
        if need.seconds > WORTH_SAYING:
            say(f"settling {need.what}, about {lasting(need.seconds)}; it is kept for later", Console(stderr=True))


def memory_lines(needs: Sequence[Need]) -> list[tuple[str, str]]:
    """Memory as `vsr check` prints it, by place, with what takes most."""
    lines = []
    for place, have, own in _budgets(needs):
        total = sum(need.bytes for need in own)
        most = max(own, key=lambda need: need.bytes)
        tight = "; this is tight" if total > 0.8 * have else ""
        lines.append((f"memory of {place}", f"about {size(total)} of {size(have)}, most for {most.what}{tight}"))
    return lines


def size(number: float) -> str:
    """Bytes as people say them: 1.5 GB."""
    for unit, per in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= 0.995 * per:
            return f"{number / per:.3g} {unit}" if number < 9995e15 else f"{number:.1e} bytes"
    return f"{max(number, 0) / 1e6:.2g} MB"


def _budgets(needs: Sequence[Need]) -> Iterator[tuple[str, float, list[Need]]]:
    """Where memory is taken, how much there is [bytes], and what is taken there."""
    own = accelerator_memory()
    if own is None:
        yield "this computer", host_memory(), list(needs)
        return
    yield f"the {jax.default_backend().upper()}", own, [need for need in needs if need.place == "device"]
    yield "this computer", host_memory(), [need for need in needs if need.place == "host"]


def _refusal(place: str, total: float, have: float, needs: Sequence[Need]) -> str:
    most = sorted(needs, key=lambda need: -need.bytes)
    heavy = [need for need in most if need.bytes > 0.1 * total and need.settings]
    parts = ", ".join(f"{size(need.bytes)} for {need.what}" for need in heavy)
    settings = list(dict.fromkeys(setting for need in heavy for setting in need.settings))
    return (
        f"this needs about {size(total)} of memory, and {place} has {size(have)} left: {parts}; "
        f"reduce {' or '.join(settings[:6])}"
    )


@contextlib.contextmanager
def explain_out_of_memory(needs: Sequence[Need], standing: str = "") -> Iterator[None]:
    """Memory that turns out not to be there is told as such; standing: what is there, and how to go on."""
    try:
        yield
    except Exception as error:
        if not is_exhausted(error):
            raise
        most = max((need for need in needs if need.settings), key=lambda need: need.bytes, default=None)
        advice = f"; reduce {' or '.join(most.settings[:3])}" if most else ""
        raise UserError(f"there is not enough memory for this{advice}{f'; {standing}' if standing else ''}") from None


def simulate_within_memory(name: str, scene: Scene, *, keep_trajectory: bool = False) -> Outcome:
    """A scene's episode; raises UserError if there is no memory for it. name: of what asks for it."""
    needs = needs_of_scene(scene, recorded=keep_trajectory)
    require_memory(name, needs)
    with explain_out_of_memory(needs):
        return simulate(scene, keep_trajectory=keep_trajectory)


def is_exhausted(error: BaseException) -> bool:
    """Whether an error says that memory is used up, on a device or here."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, jax.errors.JaxRuntimeError) and any(word in str(error) for word in EXHAUSTED)
