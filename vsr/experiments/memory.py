"""Memory that an experiment, a scene or a training takes, against the memory of this computer.

Needs follow from the description alone: no array is made. Sizes of populations are counted. Needs of programs were
measured (docs/develop/kernels.md), and grow with cells, grains and genes as written here. A need also states the time
that passes before a program can begin.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from rich.console import Console

from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say
from vsr.experiments.encodings.bodies import FixedBody
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import duration_text
from vsr.experiments.population import robots_at_once
from vsr.experiments.run_time import Operations, seconds_of
from vsr.physics.granular.bed import PROGRAM_OF_GRAINS
from vsr.scene import Outcome, Scene, simulate
from vsr.terrain.shapes import Load
from vsr.world.spec import VoxelLike, World

MEMORY = Path("/proc/meminfo")
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
SHARE_OF_DEVICE = 0.6
BYTES_ON_HOST = 2**30
UNLIMITED = 2**60
"""Control groups without a limit report such a number, or `max`."""


def host_memory() -> float:
    """Memory that this process may still take [bytes]: what is free, and what limits allow."""
    return min(_free(), _left_in_group(), _left_for_process())


def accelerator_memory() -> float | None:
    """Memory limit of an accelerator [bytes]; None on the CPU, or where it is not known."""
    if jax.default_backend() == "cpu":
        return None
    statistics = jax.local_devices()[0].memory_stats() or {}
    return float(statistics["bytes_limit"]) if "bytes_limit" in statistics else None


def memory_limit() -> float:
    """Memory that a device may use [bytes]: much of an accelerator's, a modest part of a computer's."""
    own = accelerator_memory()
    return BYTES_ON_HOST / jax.local_device_count() if own is None else SHARE_OF_DEVICE * own


def _free() -> float:
    try:
        for line in MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError):
        return float("inf")


def _left_in_group() -> float:
    """Of the memory of a container or a job of a cluster."""
    try:
        lines = [line.split(":", 2) for line in OWN_GROUP.read_text().splitlines()]
    except OSError:
        return float("inf")
    left = float("inf")
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":
            names, folder = ("memory.max", "memory.current"), GROUPS
        elif "memory" in controllers.split(","):
            names, folder = ("memory.limit_in_bytes", "memory.usage_in_bytes"), GROUPS / "memory"
        else:
            continue
        own = folder / path.lstrip("/")
        for group in (own, *own.parents):
            most, used = (_number(group / name) for name in names)
            if most is not None and used is not None and most < UNLIMITED:
                left = min(left, most - used)
            if group == folder:
                break
    return max(left, 0.0)


def _left_for_process() -> float:
    """Of what `ulimit -v` allows."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return float("inf")
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        taken = 0
    return max(float(most - taken), 0.0)


def _number(file: Path) -> float | None:
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return None


Place = Literal["device", "host"]
"""Where memory is taken; with processors as devices both are the same."""

PROGRAM = 0.45e9
"""Python, its libraries and compiled programs [bytes]; 0.40 to 0.45 GB were measured."""
COPIES_WHEN_BRED = 10
"""Of one seed's genes while its next generation is made."""
BYTES_OF_A_CELL = 950.0
"""That a robot takes for each cell of its grid and layer while it is simulated, in single precision: 610 to 980 ..."""
BYTES_OF_ANY_CELL = 700.0
"""... and whatever the layers."""
BYTES_OF_A_CELL_COUNTED = 110.0
"""While the different bodies of a population are counted, for each individual and cell; 104 were measured."""
BYTES_OF_A_GRAIN = 1500.0
"""In one world of a machine among grains, while it is simulated."""
BYTES_OF_A_COPY, BYTES_OF_A_CELL_COPIED, BYTES_OF_A_GRAIN_COPIED = 1500.0, 400.0, 350.0
"""Of a robot with its world that lies ready to be simulated: at least, for each cell and for each grain."""
BYTES_OF_A_MEASURE = 150.0
"""Of one number of a table, until it is written."""
BYTES_OF_A_CELL_RECORDED = 200.0
"""In one moment of a recording, for each layer."""
BYTES_OF_A_GRAIN_RECORDED = 80.0
BYTES_OF_A_WRITTEN_GENE = 2500.0
"""While the file of a best robot is made; 2300 were measured for weights of a network."""
BYTES_OF_DESCENT = 20
"""Of an individual: id, parents, fitness."""
SHORTEST_GENERATION = 0.02
"""[s]; with shorter ones, more generations than thought wait for a checkpoint."""


class Need(NamedTuple):
    """One use of memory."""

    what: str
    bytes: float
    settings: tuple[str, ...]
    """settings to reduce, with the values given"""
    place: Place = "device"
    seconds: float = 0.0
    """that it takes before anything else can begin"""


def needs_of_experiment(experiment: Experiment, search: float | None = None) -> list[Need]:
    """Of an evolution on the devices there are; search: the state of one seed's search [bytes], where it is known."""
    body, optimizer, options = experiment.robot.body, experiment.optimizer, experiment.evaluation
    size = 8 if experiment.physics.precision == "float64" else 4
    genes, seeds, devices = experiment.robot.gene_count, len(experiment.seeds), jax.device_count()
    everyone = float(size * genes * optimizer.population_size)
    state = 1.2 * everyone if search is None else search
    bred = seeds * (2 * state + everyone) + COPIES_WHEN_BRED * everyone
    evaluated = devices * seeds * everyone * (2 + options.trials)
    load = _load(body, body.possible.shape, experiment.world, size)
    waiting = min(experiment.generations, experiment.checkpoint_seconds / SHORTEST_GENERATION)
    population = (f"optimizer.population_size ({optimizer.population_size:,})", *_of_seeds(seeds))
    found = [
        *_setup(load),
        Need("genes of the population", bred + evaluated, (_of_genes(experiment), *population)),
        _simulated(experiment, size),
        Need("checkpoints", 3 * seeds * state, (_of_genes(experiment), *population), "host"),
        Need(
            "descent between two checkpoints",
            2 * waiting * seeds * (BYTES_OF_DESCENT * optimizer.population_size + size * genes),
            (f"checkpoint_seconds ({experiment.checkpoint_seconds:g})", *population),
            "host",
        ),
        Need("files of the best robots", BYTES_OF_A_WRITTEN_GENE * genes, (_of_genes(experiment),), "host"),
        _program(0.0 if load is None else load.program),
    ]
    if not isinstance(body, FixedBody):
        counted = BYTES_OF_A_CELL_COUNTED * body.possible.size * optimizer.population_size * size / 4
        found.append(Need("bodies that are distinguished", counted, (_of_body(body), population[0])))
    return found


def _simulated(experiment: Experiment, size: int) -> Need:
    """Robots that are simulated together: as many as suit the device, or as memory allows, at least one on each."""
    body, devices = experiment.robot.body, jax.device_count()
    seeds = 1 if jax.default_backend() == "cpu" else len(experiment.seeds)
    robots = experiment.optimizer.population_size * seeds * experiment.evaluation.trials
    at_once = robots_at_once(robots, body.possible.size)
    own = bytes_of_robot(body, body.possible.shape, experiment.world, size) + 2.0 * size * experiment.robot.gene_count
    load = _load(body, body.possible.shape, experiment.world, size)
    settings = [*(() if load is None else load.settings), _of_body(body)]
    if size * experiment.robot.gene_count > own / 4:
        settings.insert(0, _of_genes(experiment))
    return Need(
        "robots that are simulated at once", devices * max(own, min(at_once * own, memory_limit())), tuple(settings)
    )


def bytes_of_robot(voxels: VoxelLike, cells: tuple[int, ...], world: World, size: int) -> float:
    """That one robot and what moves in its world take; cells: of its grid; size: of a number [bytes]."""
    layers = 1 + (len(cells) == 3)
    own = (BYTES_OF_A_CELL * layers + BYTES_OF_ANY_CELL) * math.prod(cells)
    load = _load(voxels, cells, world, size)
    return (own if load is None else own + load.bytes) * size / 4


def _load(voxels: VoxelLike, cells: tuple[int, ...], world: World, size: int) -> Load | None:
    """Of the ground, if it moves."""
    dtype = jnp.float64 if size == 8 else jnp.float32
    return None if world.terrain is None else world.terrain.load(voxels, cells, world.gravity, dtype)


def _setup(load: Load | None) -> list[Need]:
    """Ground that must settle first; the memory for that is what one robot's world takes later on."""
    if load is None or load.setup == (0, 0):
        return []
    return [Need(load.what, 0.0, (*load.settings, load.setup_setting), seconds=seconds_of(Operations(*load.setup)))]


def needs_of_scene(scene: Scene, *, recorded: bool = True) -> list[Need]:
    """Of one episode."""
    body, schedule = scene.robot.body, scene.schedule()
    size = 8 if scene.physics.precision == "float64" else 4
    cells, layers = body.cells.shape, 1 + (body.cells.ndim == 3)
    load = _load(body, cells, scene.world, size)
    settings = (*(() if load is None else load.settings), f"the robot's shape ({body.cells.size:,} cells)")
    found = [
        *_setup(load),
        Need("the simulation", bytes_of_robot(body, cells, scene.world, size), settings),
        _program(0.0 if load is None else load.program),
    ]
    if recorded:
        grains = 0 if load is None else load.parts
        moment = BYTES_OF_A_CELL_RECORDED * layers * body.cells.size + BYTES_OF_A_GRAIN_RECORDED * grains
        duration_text = f"task.duration ({scene.task.duration:g} s, {schedule.calls:,} moments)"
        found.append(Need("its recording", 2 * moment * schedule.calls * size / 4, (duration_text, *settings)))
    return found


def needs_of_refining(scenes: Sequence[Scene], trials: int, cases: int) -> list[Need]:
    """Needs of re-simulating robots in several trials of several cases, all trials at once."""
    copies = 0.0
    for scene in scenes:
        body = scene.robot.body
        load = _load(body, body.cells.shape, scene.world, 4)
        grains = 0 if load is None else load.parts
        own = BYTES_OF_A_COPY + BYTES_OF_A_CELL_COPIED * scene.robot.body.cells.size + BYTES_OF_A_GRAIN_COPIED * grains
        copies += 2 * own * (2 if scene.physics.precision == "float64" else 1)
    settings = (f"--trials ({trials:,})", f"robots ({len(scenes):,})")
    measured = BYTES_OF_A_MEASURE * len(scenes) * cases * trials
    # Of the heaviest alone: others are simulated before and after it.
    heaviest = max((needs_of_scene(scene, recorded=False) for scene in scenes), key=_total)
    return [
        *heaviest,
        Need("robots in all their trials", copies * trials, settings),
        Need("what is measured", measured, (*settings, f"--factors ({cases:,} cases)"), "host"),
    ]


def _total(needs: Sequence[Need]) -> tuple[float, float]:
    return sum(need.seconds for need in needs), sum(need.bytes for need in needs)


def needs_of_training(population: int, trials: int, grains: int) -> list[Need]:
    """Of machines among grains, all worlds of a generation at once."""
    settings = (f"--grains ({grains:,})", f"--population ({population:,})", f"--trials ({trials:,})")
    return [
        Need("worlds that are simulated at once", BYTES_OF_A_GRAIN * grains * (population + 1) * trials, settings),
        _program(PROGRAM_OF_GRAINS),
    ]


def _program(further: float) -> Need:
    """Need of any simulation; further: that of systems [bytes]."""
    return Need("the program itself", PROGRAM + further, (), "host")


def _of_genes(experiment: Experiment) -> str:
    """The setting that determines the number of genes."""
    body, controller = experiment.robot.body, experiment.robot.controller
    genes = experiment.robot.gene_count
    hidden = getattr(controller, "hidden", ())
    if body.gene_count > controller.gene_count(body) or not hidden:
        return f"{_of_body(body)[:-1]}, {genes:,} genes)"
    return f"robot.controller.hidden ({hidden if isinstance(hidden, int) else list(hidden)}, {genes:,} genes)"


def _of_body(body: Any) -> str:
    if isinstance(body, FixedBody):
        return f"robot.body.shape ({body.possible.size:,} cells)"
    return f"robot.body.grid ({list(body.possible.shape[::-1])}, {math.prod(body.possible.shape):,} cells)"


def _of_seeds(seeds: int) -> tuple[str, ...]:
    return (f"seeds ({seeds:,})",) if seeds > 1 else ()


DOUBT = 1.25
"""Estimates above the available memory by this factor are refused; nearer ones may be wrong, and are tried."""
LONGEST_WAIT = 1800.0
"""Longest wait before a command can begin [s]; a longer one is refused ..."""
WORTH_SAYING = 5.0
"""... and a wait longer than this is announced."""
EXHAUSTED = ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory")


def require_memory(what: str, needs: Sequence[Need]) -> None:
    """Raise UserError if there is no memory for this, or if it takes too long to begin; say so if it takes a while.

    what: the file or command that asks for it. To be called before anything is built.
    """
    for need in needs:
        if need.seconds > LONGEST_WAIT:
            took, most = duration_text(need.seconds), duration_text(LONGEST_WAIT)
            reduced = " or ".join(need.settings)
            raise UserError(f"{what}: {need.what} takes about {took} to settle here, at most {most}: reduce {reduced}")
    for place, have, own in _budgets(needs):
        total = sum(need.bytes for need in own)
        if total > DOUBT * have:
            raise UserError(f"{what}: {_refusal(place, total, have, own)}")
    for need in needs:
        if need.seconds > WORTH_SAYING:
            say(
                f"settling {need.what}, about {duration_text(need.seconds)}; it is kept for later", Console(stderr=True)
            )


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
    """Bytes as text for people: 1.5 GB."""
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
    """Explain an out-of-memory error; standing: the state of the work, and how to go on."""
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
    """Whether an error is an out-of-memory error, of a device or of the host."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, jax.errors.JaxRuntimeError) and any(word in str(error) for word in EXHAUSTED)
