"""The work of `vsr torture`: break what can be broken in a folder of its own, and tell which promises did not hold."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsr.experiments.console import console_for_tables, say

if TYPE_CHECKING:
    from vsr.experiments.torture.campaign import Tally

DEFAULT, SMALL_BODY = "quickstart", "robot.body.shape=aa"
"""The experiment that is tried if none is given, and what makes it compile quickly."""
BETWEEN_LINES = 2.0
"""Of progress [s]."""
SIGN_OF_LIFE = 10.0
"""How often it is said that work goes on, before the first trial [s]."""
SHOWN = 10
"""Failures of a kind that are printed; a JSON file has all."""


@dataclass(frozen=True)
class TortureOptions:
    """What was asked for."""

    config: str | None = None
    settings: tuple[str, ...] = ()
    minutes: float = 5.0
    trials: int | None = None
    seed: int = 0
    only: tuple[str, ...] = ()
    json: str | None = None

    def command(self, only: str) -> str:
        """What to type to see one trial again."""
        words = ["vsr", "torture", *([self.config] if self.config else [])]
        words += [word for setting in self.settings for word in ("--set", setting)]
        return shlex.join([*words, "--seed", str(self.seed), "--only", only])


def torture(options: TortureOptions) -> int:
    """Try everything; the exit code: 0 if all promises held, 1 if one broke, 130 after Ctrl-C."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="vsr-torture-"))
    say(f"working in {folder}; nothing else is written to")
    tallies: dict[str, Tally] = {}
    code = 0
    try:
        code = _torture(options, folder, began, tallies)
    finally:
        _clean_up(folder, tallies)
    return code


def _torture(options: TortureOptions, folder: Path, began: float, tallies: dict[str, Tally]) -> int:
    # Loading what they need takes seconds, and the first line should not.
    from vsr.experiments.files import target_file, write_json
    from vsr.experiments.shipped import EXPERIMENT, find_config
    from vsr.experiments.stopping import EXIT_CODE, stopping_politely
    from vsr.experiments.torture.campaign import KINDS, Budget, Tally, try_out
    from vsr.experiments.torture.ground import open_ground, run_undisturbed

    target = None if options.json is None else target_file("--json", options.json, (".json",))
    kinds, first = _chosen(options.only)
    tallies.update({name: Tally() for name in kinds})
    config = find_config(options.config or DEFAULT, EXPERIMENT)
    settings = () if options.config else (SMALL_BODY,)
    environment = {"XDG_CACHE_HOME": str(folder / "cache"), "VSR_TRUST_PLUGINS": "1"}  # the file is the user's own
    until = None if options.trials else began + 60 * options.minutes
    budget = Budget(None if first is not None else until, 1 if first is not None else options.trials)
    ground = open_ground(config, (*settings, *options.settings), folder, environment)
    with contextlib.closing(ground), stopping_politely() as stop:
        if any(KINDS[name].needs_runs for name in kinds):
            with _going_on():
                run_undisturbed(ground, say)
        try_out(ground, options.seed, tallies, budget, _Progress(tallies, options).note, first or 0, stop)
    _show(options, tallies)
    if target is not None:
        write_json(target, as_plain(options, ground.settings, tallies, time.monotonic() - began))
    return EXIT_CODE if stop else 1 if any(tally.failures for tally in tallies.values()) else 0


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """While it is open, a sign of life now and then: a compilation may take minutes."""
    ended, began = threading.Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(SIGN_OF_LIFE):
            say(f"... {time.monotonic() - began:.0f} s")

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _chosen(only: tuple[str, ...]) -> tuple[list[str], int | None]:
    """Kinds of faults, and the number of the one trial that is wanted; raises UserError for names that do not exist."""
    from vsr.experiments.config.problems import UserError
    from vsr.experiments.torture.campaign import KINDS
    from vsr.spec import suggest

    chosen, first = [], None
    for given in only:
        name, colon, number = given.partition(":")
        if name not in KINDS:
            raise UserError(f"--only {given}: there is no kind of fault '{name}'{suggest(name, KINDS)}")
        if colon and (not number.isdecimal() or len(only) > 1):
            raise UserError(f"--only {given}: write {name}, or {name}:12 alone for the trial of this number")
        chosen.append(name)
        first = int(number) if colon else None
    return chosen or [name for name, kind in KINDS.items() if kind.is_possible()], first


class _Progress:
    """A line now and then, and one for each failure."""

    def __init__(self, tallies: Mapping[str, Tally], options: TortureOptions):
        self.tallies, self.options = tallies, options
        self.last = time.monotonic()

    def note(self, kind: str, number: int, found: list[str]) -> None:
        if found and len(self.tallies[kind].failures) <= SHOWN:
            say(f"{kind}:{number} failed: {found[0]}")
        if time.monotonic() - self.last >= BETWEEN_LINES:
            self.last = time.monotonic()
            say("trials: " + ", ".join(f"{tally.trials} {name}" for name, tally in self.tallies.items()))


def _show(options: TortureOptions, tallies: Mapping[str, Tally]) -> None:
    from rich.table import Table

    from vsr.experiments.torture.campaign import KINDS

    table = Table(box=None)
    for name in ("fault", "what", "trials", "passed", "failed"):
        table.add_column(name, justify="left" if name in ("fault", "what") else "right")
    for name, tally in tallies.items():
        failed = len(tally.failures)
        table.add_row(name, KINDS[name].what, str(tally.trials), str(tally.trials - failed), str(failed))
    console_for_tables().print(table)
    for name, tally in tallies.items():
        for failure in tally.failures[:SHOWN]:
            say(f"{name}:{failure.trial}: {options.command(f'{name}:{failure.trial}')}")
            for fault in failure.faults:
                say(f"    {fault}")


def as_plain(
    options: TortureOptions, settings: tuple[str, ...], tallies: Mapping[str, Tally], seconds: float
) -> dict[str, Any]:
    """As JSON has it."""
    from vsr.experiments.torture.campaign import KINDS

    return {
        "config": options.config or DEFAULT,
        "settings": list(settings),
        "seed": options.seed,
        "seconds": round(seconds, 1),
        "faults": {
            name: {
                "what": KINDS[name].what,
                "trials": tally.trials,
                "failed": len(tally.failures),
                "seconds": round(tally.seconds, 1),
                "failures": [
                    {
                        "trial": failure.trial,
                        "faults": list(failure.faults),
                        "command": options.command(f"{name}:{failure.trial}"),
                    }
                    for failure in tally.failures
                ],
            }
            for name, tally in tallies.items()
        },
    }


def _clean_up(folder: Path, tallies: Mapping[str, Tally]) -> None:
    """Remove all but what failed."""
    failed = {f"{name}-{failure.trial}" for name, tally in tallies.items() for failure in tally.failures}
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for entry in [*folder.iterdir(), *(folder / "trials").glob("*")]:
        if entry.name not in {*failed, "trials"}:
            shutil.rmtree(entry, ignore_errors=True)
    say(f"what failed is kept in {folder / 'trials'}")
