"""How much memory an experiment, a scene or a training takes, from its description alone: no array is made.

Sizes of populations are counted. What programs need besides was measured (docs/performance.md), and grows with cells,
grains and genes as written here.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import jax

from vsr.experiments.encodings.bodies import FixedBody
from vsr.experiments.estimate.resources import memory_limit
from vsr.experiments.experiment import Experiment
from vsr.experiments.population import robots_at_once
from vsr.scene import Scene, World
from vsr.terrain import Sand

Place = Literal["device", "host"]
"""Where memory is taken; with processors as devices both are the same."""

PROGRAM = 0.45e9
"""Python, its libraries and compiled programs [bytes]; 0.40 to 0.45 GB were measured."""
PROGRAM_OF_GRAINS = 0.2e9
"""What the programs of worlds with grains take besides [bytes]."""
COPIES_WHEN_BRED = 10
"""Of one seed's genes while its next generation is made."""
BYTES_OF_A_CELL = 950.0
"""That a robot takes for each cell of its grid and layer while it is simulated, in single precision: 610 to 980 ..."""
BYTES_OF_ANY_CELL = 700.0
"""... and whatever the layers."""
BYTES_OF_A_CELL_COUNTED = 110.0
"""While the different bodies of a population are counted, for each individual and cell; 104 were measured."""
BYTES_OF_A_GRAIN = 1500.0
"""In one world, while it is simulated."""
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
    """One thing that takes memory."""

    what: str
    bytes: float
    settings: tuple[str, ...]
    """what to reduce, with the values given"""
    place: Place = "device"


def needs_of_experiment(experiment: Experiment, search: float | None = None) -> list[Need]:
    """Of an evolution on the devices there are; search: the state of one seed's search [bytes], where it is known."""
    body, ea, options = experiment.robot.body, experiment.ea, experiment.evaluation
    size = 8 if experiment.physics.precision == "float64" else 4
    genes, seeds, devices = experiment.robot.gene_count, len(experiment.seeds), jax.device_count()
    everyone = float(size * genes * ea.n_pop)
    state = 1.2 * everyone if search is None else search
    bred = seeds * (2 * state + everyone) + COPIES_WHEN_BRED * everyone
    evaluated = devices * seeds * everyone * (2 + options.starts)
    waiting = min(experiment.generations, experiment.checkpoint_seconds / SHORTEST_GENERATION)
    population = (f"ea.n_pop ({ea.n_pop:,})", *_of_seeds(seeds))
    found = [
        Need("genes of the population", bred + evaluated, (_of_genes(experiment), *population)),
        _simulated(experiment, size),
        Need("checkpoints", 3 * seeds * state, (_of_genes(experiment), *population), "host"),
        Need(
            "descent between two checkpoints",
            2 * waiting * seeds * (BYTES_OF_DESCENT * ea.n_pop + size * genes),
            (f"checkpoint_seconds ({experiment.checkpoint_seconds:g})", *population),
            "host",
        ),
        Need("files of the best robots", BYTES_OF_A_WRITTEN_GENE * genes, (_of_genes(experiment),), "host"),
        _program(grains_of(experiment.world, body.dimension)),
    ]
    if not isinstance(body, FixedBody):
        counted = BYTES_OF_A_CELL_COUNTED * body.possible.size * ea.n_pop * size / 4
        found.append(Need("bodies that are told apart", counted, (_of_body(body), population[0])))
    return found


def _simulated(experiment: Experiment, size: int) -> Need:
    """Robots that are simulated together: as many as suit the device, or as memory allows, at least one on each."""
    body, devices = experiment.robot.body, jax.device_count()
    seeds = 1 if jax.default_backend() == "cpu" else len(experiment.seeds)
    robots = experiment.ea.n_pop * seeds * experiment.evaluation.starts
    at_once = robots_at_once(robots, body.possible.size)
    own = bytes_of_robot(body, experiment.world, size) + 2.0 * size * experiment.robot.gene_count
    settings = [_of_body(body), *_of_ground(experiment.world)]
    if size * experiment.robot.gene_count > own / 4:
        settings.insert(0, _of_genes(experiment))
    return Need(
        "robots that are simulated at once", devices * max(own, min(at_once * own, memory_limit())), tuple(settings)
    )


def bytes_of_robot(body: Any, world: World, size: int) -> float:
    """That one robot and what moves in its world take; size: of a number [bytes]."""
    cells = BYTES_OF_A_CELL * body.layers + BYTES_OF_ANY_CELL
    own = cells * body.possible.size + BYTES_OF_A_GRAIN * grains_of(world, body.dimension)
    return own * size / 4


def grains_of(world: World, dimension: int) -> int:
    """How many lie in a world."""
    return world.terrain.count(dimension) if isinstance(world.terrain, Sand) else 0


def needs_of_scene(scene: Scene, *, recorded: bool = True) -> list[Need]:
    """Of one episode."""
    body, schedule = scene.robot.body, scene.schedule()
    size = 8 if scene.physics.precision == "float64" else 4
    layers = 1 + (body.cells.ndim == 3)
    grains = grains_of(scene.world, body.dimension)
    settings = (f"the robot's shape ({body.cells.size:,} cells)", *_of_ground(scene.world))
    robot = (BYTES_OF_A_CELL * layers + BYTES_OF_ANY_CELL) * body.cells.size + BYTES_OF_A_GRAIN * grains
    found = [Need("the simulation", robot * size / 4, settings), _program(grains)]
    if recorded:
        moment = BYTES_OF_A_CELL_RECORDED * layers * body.cells.size + BYTES_OF_A_GRAIN_RECORDED * grains
        lasting = f"task.duration ({scene.task.duration:g} s, {schedule.calls:,} moments)"
        found.append(Need("its recording", 2 * moment * schedule.calls * size / 4, (lasting, *settings)))
    return found


def needs_of_training(population: int, starts: int, grains: int) -> list[Need]:
    """Of machines among grains, all worlds of a generation at once."""
    settings = (f"--grains ({grains:,})", f"--population ({population:,})", f"--starts ({starts:,})")
    return [
        Need("worlds that are simulated at once", BYTES_OF_A_GRAIN * grains * (population + 1) * starts, settings),
        _program(grains),
    ]


def _program(grains: int) -> Need:
    """Whatever is simulated."""
    return Need("the program itself", PROGRAM + (PROGRAM_OF_GRAINS if grains else 0.0), (), "host")


def _of_genes(experiment: Experiment) -> str:
    """What makes genes many."""
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


def _of_ground(world: World) -> tuple[str, ...]:
    sand = world.terrain
    return (
        (f"world.terrain (depth {sand.depth:g}, radius {sand.radius:g}: fewer grains)",)
        if isinstance(sand, Sand)
        else ()
    )
