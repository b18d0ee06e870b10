"""Running the code that run folders and robots' files bring along, for those who trust it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vsr.experiments.config import run_plugins_of
from vsr.experiments.runs.folder import is_run
from vsr.experiments.runs.settings import read_settings


def trust_plugins(given: Iterable[str | Path]) -> None:
    """Run the plugins of run folders and files, so that all that is read of them from now on is read as a whole.

    What is not there is left to those who read it.
    """
    for path in map(Path, given):
        if path.is_file():
            run_plugins_of(path)
        elif is_run(path):
            read_settings(path, run_plugins=True)
