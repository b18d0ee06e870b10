"""The files of the best robots in a run folder, for `vsr simulate` and for people: a title, a check sum, the scene, and
what `vsr verify` needs (vsr.experiments.runs.records).

    # best of seed 0: individual 17747, relative_velocity 0.2187
    # sha256 of the other lines: 6b86b273...
    robot: ...
    evolved: ...

Commands that are given the run rely on the check sum; given the file itself, they take it as it is, for it may be
edited.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.experiments.config import EVOLVED, dump_plain, load_scene
from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.config.yaml_reader import read_text
from vsr.experiments.experiment import Experiment
from vsr.experiments.files import write_text
from vsr.experiments.runs.records import record_of
from vsr.scene import Scene

BEST = "best"
BEFORE_DIGEST = "# sha256 of the other lines: "


@dataclass(frozen=True)
class Title:
    """What the first line of a best robot's file says."""

    seed: int
    individual: int
    measure: str
    value: float
    meaning: str = ""
    """what the value is made of, if it is more than one episode"""


def robot_file(path: Path, seed: int) -> Path:
    """Of a seed's best robot in a run folder."""
    return path / BEST / f"seed-{seed}.yaml"


def write_robot(
    path: Path,
    experiment: Experiment,
    index: int,
    genes: Mapping[str, Any],
    id: int,
    fitness: float,
    starts: Sequence[Mapping[str, Any]] = (),
) -> None:
    """The file of the best robot of a seed, given by its index.

    fitness: larger is better; starts: of the run, as meta.json has them.
    """
    genes = {part: np.asarray(own) for part, own in genes.items()}
    scene, seed = experiment.scene(genes), experiment.seeds[index]
    assert scene is not None, "a robot without a body has no finite fitness"
    goal, meaning = experiment.fitness, experiment.evaluation.summary
    title = f"# best of seed {seed}: individual {id}, {goal.measure} {goal.sign * fitness:.6g}"
    title += f" ({meaning})" if meaning else ""
    plain = scene.to_plain()
    record = record_of(experiment, plain, index, genes, id, fitness, starts)
    write_text(robot_file(path, seed), _signed(title, dump_plain({**plain, EVOLVED: record.to_plain()})))


def is_changed(file: Path) -> bool:
    """Whether a file is not as the run wrote it, or cannot be read; False for one without a run's title."""
    try:
        title, digest, scene = [*read_text(file).split("\n", 2), "", ""][:3]
    except ConfigError:
        return True
    is_ours = digest.startswith("#") and (title.startswith("# best of seed") or "sha256" in digest)
    return is_ours and digest != BEFORE_DIGEST + _digest(title, scene)


def load_robot(file: Path) -> Scene:
    """A best robot of a run; raises UserError if it is not as the run wrote it."""
    reason = "it is not as the run wrote it"
    if not (file.exists() and is_changed(file)):
        try:
            return load_scene(file)
        except ConfigError as error:
            reason = str(error).removeprefix(f"{file}: ")
    run, given = shlex.quote(str(file.parent.parent)), shlex.quote(str(file))
    raise UserError(
        f"{file}: {reason}; vsr evolve {run} --resume writes it again, vsr simulate {given} takes it as it is"
    )


def read_title(file: Path) -> Title | None:
    """None for a file that is not there, does not say, or is not as the run wrote it."""
    if is_changed(file):
        return None
    try:
        with file.open(encoding="utf-8") as text:
            first = text.readline().rstrip()
        found = re.match(r"# best of seed (\d+): individual (\d+), (\S+) (\S+)(?: \((.*)\))?$", first)
        return Title(int(found[1]), int(found[2]), found[3], float(found[4]), found[5] or "") if found else None
    except (OSError, ValueError):
        return None


def _signed(title: str, scene: str) -> str:
    return f"{title}\n{BEFORE_DIGEST}{_digest(title, scene)}\n{scene}"


def _digest(title: str, scene: str) -> str:
    return hashlib.sha256(f"{title}\n{scene}".encode()).hexdigest()
