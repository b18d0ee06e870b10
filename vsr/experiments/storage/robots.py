"""The best robots of a run, as files for people, for `vsr simulate` and for `vsr verify`.

    # best of seed 0: individual 17747, relative_velocity 0.2187
    # sha256 of the other lines: 6b86b273...
    robot: ...
    evolved: ...

Commands that are given the run rely on the checksum; given the file itself, they take it as it is, for it may be
edited. The block `evolved` lets anyone confirm the score: it has the score with all its digits, hashes of body,
controller and scene, the genes, what of the experiment is not in the scene, and the device and versions that the number
was computed with.
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from vsr.controllers.policy import PackedNumbers, pack, unpack
from vsr.experiments.config import EVOLVED, dump_plain, load_scene
from vsr.experiments.config.check import check
from vsr.experiments.config.plugins import require_plugins
from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.config.yaml import Document, read_text, read_yaml
from vsr.experiments.experiment import MOST_SEEDS, Experiment, Seed
from vsr.experiments.storage.files import digest_of, write_text
from vsr.experiments.storage.provenance import SHAPE_DIGITS
from vsr.experiments.storage.sources import sources_of
from vsr.scene import Scene
from vsr.spec import Count, Spec

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


Quartiles = tuple[float | None, float | None]


class Confirmed(NamedTuple):
    """Fitness in fresh trials, and its lower and upper quartile."""

    fitness: float
    low: float
    high: float

    def quartiles(self, sign: float) -> Quartiles:
        """Of the measure, that of less fitness first; None stands for a failure."""
        low, high = (sign * one if math.isfinite(one) else None for one in (self.low, self.high))
        return low, high


def write_robot(
    path: Path,
    experiment: Experiment,
    index: int,
    genes: Mapping[str, Any],
    id: int,
    fitness: float,
    sessions: Sequence[Mapping[str, Any]] = (),
    *,
    confirmed: Confirmed | None = None,
) -> None:
    """The file of the best robot of a seed in a run folder; arguments as of `robot_text`."""
    write_text(
        robot_file(path, experiment.seeds[index]),
        robot_text(experiment, index, genes, id, fitness, sessions, confirmed=confirmed),
    )


def robot_text(
    experiment: Experiment,
    index: int,
    genes: Mapping[str, Any],
    id: int,
    fitness: float,
    sessions: Sequence[Mapping[str, Any]] = (),
    *,
    confirmed: Confirmed | None = None,
) -> str:
    """The file of the best robot of a seed, given by its index.

    fitness: of the search, larger is better; confirmed: in fresh trials, from the end of a run on; sessions: of the
    run, as meta.json has them.
    """
    genes = {part: np.asarray(own) for part, own in genes.items()}
    scene, seed = experiment.scene(genes), experiment.seeds[index]
    assert scene is not None, "a robot without a body has no finite fitness"
    goal, options = experiment.fitness, experiment.evaluation
    score = fitness if confirmed is None else confirmed.fitness
    meaning = options.summary
    if confirmed is not None:
        low, high = ("failed" if one is None else f"{one:.4g}" for one in confirmed.quartiles(goal.sign))
        meaning = f"{options.confirmation}, quartiles {low} and {high}; {goal.sign * fitness:.6g} in the search"
    elif options.confirm is not None:
        meaning += "; not yet confirmed"
    title = f"# best of seed {seed}: individual {id}, {goal.measure} {goal.sign * score:.6g}"
    title += f" ({meaning})" if meaning else ""
    plain = scene.to_plain()
    record = record_of(experiment, plain, index, genes, id, fitness, sessions, confirmed=confirmed)
    return _signed(title, dump_plain({**plain, EVOLVED: record.to_plain()}))


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


OF_EXPERIMENT = ("robot", "fitness", "evaluation", "optimizer")
"""Parts of an experiment that its robots' scenes do not have. Not what they learned by: genes are those after it."""
OF_SCENE = ("world", "task", "physics", "plugins")
"""Parts that they share."""

MOST_LISTED = 4096
"""More genes than this are packed."""
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Hashes(Spec):
    """SHA-256 of parts of a file, by their values: neither their order nor how they are written matters."""

    body: Digest
    controller: Digest
    scene: Digest
    """world, task, physics and plugins, and the robot's hardware if it has any"""


class Record(Spec):
    """The block `evolved`."""

    measure: str
    """what the score is of"""
    score: Annotated[float, Field(strict=True)]
    """all digits"""
    quartiles: Quartiles | None = None
    """of the score in fresh trials, the worse one first; None stands for a failure"""
    search_score: Annotated[float, Field(strict=True)] | None = None
    """score that the search selected it by, where `score` is that of fresh trials; None where both are one"""
    seed: Seed
    individual: Annotated[Count, Field(ge=0)]
    generation: Annotated[Count, Field(ge=0, lt=2**32)]
    """in which it was evaluated"""
    hashes: Hashes
    seeds: Annotated[Count, Field(ge=1, le=MOST_SEEDS)]
    """how many were evaluated together"""
    place: Annotated[Count, Field(ge=0)]
    """of its seed among them"""
    genes: dict[str, tuple[Annotated[float, Field(strict=True)], ...] | PackedNumbers]
    """of each part; many are packed into a text (vsr.controllers.policy.pack)"""
    experiment: dict[str, Any]
    """what of it is not in the scene"""
    made_with: dict[str, Any]
    """device and versions; empty if they are not known"""

    def numbers(self, part: str) -> np.ndarray:
        """Genes of a part, (genes,)."""
        own = self.genes[part]
        return unpack(own) if isinstance(own, str) else np.asarray(own, float)

    @model_validator(mode="after")
    def _counted(self) -> Record:
        if self.place >= self.seeds:
            raise ValueError(f"place {self.place} given; of {self.seeds} seeds the last has {self.seeds - 1}")
        return self


def record_of(
    experiment: Experiment,
    scene: Mapping[str, Any],
    index: int,
    genes: Mapping[str, np.ndarray],
    individual: int,
    fitness: float,
    sessions: Sequence[Mapping[str, Any]],
    *,
    confirmed: Confirmed | None = None,
) -> Record:
    """Of an individual of the seed of this index; scene: as plain values; others: see `write_robot`."""
    plain, generation = experiment.to_plain(), individual // experiment.optimizer.population_size
    sign = experiment.fitness.sign
    return Record(
        measure=experiment.fitness.measure,
        score=sign * (fitness if confirmed is None else confirmed.fitness),
        quartiles=None if confirmed is None else confirmed.quartiles(sign),
        search_score=None if confirmed is None else sign * fitness,
        seed=experiment.seeds[index],
        individual=individual,
        generation=generation,
        hashes=hashes_of(scene),
        seeds=len(experiment.seeds),
        place=index,
        genes={part: _written(np.asarray(own)) for part, own in genes.items()},
        experiment={name: plain[name] for name in OF_EXPERIMENT},
        made_with={**made_with(sessions, generation), **plugins_of(experiment)},
    )


def hashes_of(scene: Mapping[str, Any]) -> Hashes:
    """Of a scene as plain values."""
    rest = {name: scene.get(name) for name in OF_SCENE}
    robot = scene["robot"]
    if robot.get("hardware") is not None:  # files from before there was any have the same hashes
        rest["hardware"] = robot["hardware"]
    return Hashes(body=digest_of(robot["body"]), controller=digest_of(robot["controller"]), scene=digest_of(rest))


def made_with(sessions: Sequence[Mapping[str, Any]], generation: int) -> dict[str, Any]:
    """What of the start of a run that made a generation can change the digits of a result."""
    known = [start for start in sessions if start.get("generation", 0) <= generation]
    return {name: known[-1][name] for name in SHAPE_DIGITS if name in known[-1]} if known else {}


def plugins_of(experiment: Experiment) -> dict[str, Any]:
    """SHA-256 of the user's own modules that an experiment depends on, if there are any."""
    digests = sources_of(experiment).digests
    return {"plugins": digests} if digests else {}


def _written(genes: np.ndarray) -> tuple[float, ...] | str:
    """Genes as a file has them."""
    return pack(genes) if genes.size > MOST_LISTED else tuple(map(_short, genes))


def _short(gene: Any) -> float:
    """With no more digits than needed to get the same number back."""
    return float(str(gene))


def read_record(file: Path) -> tuple[Record, Document]:
    """The block of a file, and the file; raises ConfigError if it has none or a faulty one."""
    document = read_yaml(file)
    data = document.data
    if not isinstance(data, dict) or EVOLVED not in data:
        raise ConfigError([Problem(str(file), _no_record(data))])
    if not isinstance(data.get("robot"), dict) or not {"body", "controller"} <= set(data["robot"]):
        raise ConfigError([Problem(str(file), "it has no robot with a body and a controller")])
    inside = (document.place or (0, {}))[1]
    block = Document(str(file), data[EVOLVED], inside[EVOLVED])
    record = _located_in_block(lambda: check(block, Record))
    return record, document


def _no_record(data: Any) -> str:
    evolved = isinstance(data, dict) and "robot" in data
    return (
        f"it has no block `{EVOLVED}`, so that there is no score to confirm: only runs write it, into their best/; "
        "vsr simulate runs the robot as it is"
        if evolved
        else "this is no robot's file"
    )


def _located_in_block(read: Any) -> Any:
    """What is read, with faults reported at their place in the whole file."""
    try:
        return read()
    except ConfigError as error:
        moved = [Problem(one.file, one.message, one.line, (EVOLVED, *one.path)) for one in error.problems]
        raise ConfigError(moved) from None


def experiment_of(record: Record, document: Document) -> Experiment:
    """The experiment in which a robot's score was reached; raises ConfigError or NeedsPlugins."""
    require_plugins(document)
    inside = (document.place or (0, {}))[1]
    own = inside[EVOLVED][1]["experiment"][1]
    shared = [name for name in OF_SCENE if name in document.data]
    data = {**{name: document.data[name] for name in shared}, **record.experiment, "seeds": record.seeds}
    places = {**{name: inside[name] for name in shared}, **own, "seeds": inside[EVOLVED][1]["seeds"]}
    return check(Document(document.file, data, (1, places)), Experiment)


def is_made_by(record: Record, scene: Scene, experiment: Experiment) -> bool:
    """Whether a record's genes make the robot of its scene."""
    body = experiment.robot.body
    counts = {"body": body.gene_count, "controller": experiment.robot.controller.gene_count(body)}
    if counts != {part: len(record.numbers(part)) for part in record.genes}:
        return False
    try:
        with np.errstate(over="ignore"):  # infinite then, and no robot's
            genes = {part: record.numbers(part).astype(experiment.physics.precision) for part in record.genes}
        made = experiment.scene(genes)
    except ValueError:  # genes of which nothing can be made
        return False
    return made is not None and made.robot == scene.robot
