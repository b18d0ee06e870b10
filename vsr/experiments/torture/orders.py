"""What a worker does: commands and readings in its own process, one after the other."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vsr.experiments.config.problems import UserError
from vsr.experiments.torture import faults, here
from vsr.experiments.torture.fuzz import targets
from vsr.experiments.torture.watching import watch_answers


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """One order, by its name."""
    return {"command": _command, "watch": _watch, "input": _input}[order["order"]](order)


def _command(order: dict[str, Any]) -> dict[str, Any]:
    with faults.injected(faults.from_plain(order["fault"])) as record:
        ended = here.run_here(order["arguments"], Path(order["folder"]))
    return {**asdict(ended), "record": asdict(record)}


def _watch(order: dict[str, Any]) -> dict[str, Any]:
    def ask() -> None:
        try:
            sys.stdout.write(json.dumps(watch_answers(order["run"])))
        except UserError as error:
            sys.stdout.write(str(error))
            sys.exit(error.exit_code)

    return asdict(here.call_here(ask, Path(order["folder"])))


def _input(order: dict[str, Any]) -> dict[str, Any]:
    return asdict(targets.try_input(order["target"], order["file"], order["arguments"], Path(order["folder"])))
