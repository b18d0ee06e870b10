"""Evolving from Python: `vsr.evolve` and `vsr.load`, which do what the commands do and return objects."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from vsr.experiments.config import load as load_file
from vsr.experiments.config import load_experiment, parse_experiment
from vsr.experiments.config.problems import worded_for_python
from vsr.experiments.devices import prepare
from vsr.experiments.evolve.command import require_free, run_experiment
from vsr.experiments.evolve.display import Display, PlainLines, Progress
from vsr.experiments.experiment import Experiment
from vsr.experiments.shipped import EXPERIMENT, find_config, source_of
from vsr.experiments.storage.run_folder import is_run
from vsr.experiments.storage.runs import Run, read_run, trust_plugins
from vsr.experiments.storage.sources import with_registered
from vsr.scene import Scene
from vsr.spec import Spec

GIVEN = "experiment"
"""What messages call one that is not from a file."""


@worded_for_python()
def evolve(
    experiment: Experiment | Mapping[str, Any] | str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_generation: Callable[[Progress], object] | None = None,
    quiet: bool = False,
    device: str | None = None,
) -> Run:
    """Run an experiment to its end; the same robots, folder and digits as by `vsr evolve`.

    experiment: as a description, as what its file would hold, as a file, or the name of a shipped one;
    settings: values over those of the experiment, by path: `{"optimizer.population_size": 64}`;
    seeds: how many, from 0, or which; out: the run's folder, by default a new one among temporary files;
    resume: go on with the run in that folder; on_generation: called after every generation;
    quiet: no lines about progress; device: "cpu" or "gpu".
    Raises UserError with what to do; on Ctrl-C the run is saved, and can go on.
    """
    described, given, source = _described(experiment, settings or {}, seeds)
    described = with_registered(described.resolved())
    path = Path(tempfile.mkdtemp(prefix="vsr-")) / GIVEN if out is None else Path(out)
    require_free(path, described, resume)
    prepare(device)
    display = _Watched(PlainLines(described, Console(quiet=quiet)), on_generation)
    run_experiment(described, path, given=given, source=source, resume=resume, display=display)
    return read_run(path)


@worded_for_python()
def load(path: str | Path, *, run_plugins: bool = False) -> Run | Scene | Experiment:
    """A run from its folder, or the robot in its scene or the experiment from a file; run_plugins: those it names."""
    if run_plugins:
        trust_plugins([path])
    return read_run(path) if is_run(Path(path)) else load_file(path, run_plugins=run_plugins)


def _described(
    experiment: Experiment | Mapping[str, Any] | str | Path,
    settings: Mapping[str, Any],
    seeds: int | Sequence[int] | None,
) -> tuple[Experiment, str, str]:
    """The experiment, what messages call it and where it is from."""
    changes = [f"{path}={json.dumps(value)}" for path, value in settings.items()]
    if seeds is not None:
        changes.append(f"seeds={json.dumps(seeds if isinstance(seeds, int) else list(seeds))}")
    if isinstance(experiment, (str, Path)):
        file = find_config(experiment, EXPERIMENT)
        return load_experiment(file, changes, run_plugins=True), str(experiment), source_of(file)
    plain = experiment.to_plain() if isinstance(experiment, Experiment) else dict(experiment)
    text = json.dumps(plain, default=Spec.to_plain)
    return parse_experiment(text, f"<{GIVEN}>", changes, run_plugins=True), GIVEN, "Python"


class _Watched:
    """A display that calls a function after every generation too."""

    def __init__(self, shown: Display, on_generation: Callable[[Progress], object] | None):
        self.shown, self.on_generation = shown, on_generation

    def say(self, text: str) -> None:
        self.shown.say(text)

    def show(self, progress: Progress) -> None:
        self.shown.show(progress)
        if self.on_generation is not None:
            self.on_generation(progress)

    def close(self) -> None:
        self.shown.close()
