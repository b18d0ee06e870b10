"""An experiment as plain data: what evolves, in which world, for which task, by which search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import jax.numpy as jnp
import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from vsr.environment import Environment
from vsr.evo import OPTIMIZERS, Optimizer
from vsr.evo.inheritance import Baldwinian, Lamarckian
from vsr.evo.protocol import Search
from vsr.experiments.descriptors import descriptor_names
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.encodings.base import BodyEncoding
from vsr.experiments.encodings.networks import PolicyWeights
from vsr.experiments.learning import WAY_BACK, Learning, check_gradients, check_ppo
from vsr.experiments.perturbation import FIRST_FRESH_BED, FRESH_BEDS, EvaluationOptions
from vsr.physics.engine import ENGINES
from vsr.robot import Material
from vsr.scene import NO_OBSERVATION, Physics, Scene, check_episode, observed_numbers, plan
from vsr.spec import Count, FileSpec, OneOf, Real, Spec, clipped, memoize, suggest, validation_error
from vsr.tasks import TASKS, Locomotion, Task
from vsr.tasks.measures import PYTHON, WITHOUT_GRADIENTS, with_inputs
from vsr.terrain import together
from vsr.world.defaults import apply_defaults
from vsr.world.schedule import Schedule
from vsr.world.spec import World

MOST_SEEDS = 100_000
MOST_EVALUATIONS = 2**31 - 1
"""Individuals are numbered with 32 bits."""


class Fitness(Spec):
    """The fitness that robots are selected for."""

    measure: str = "relative_velocity"
    """one of the measures"""
    direction: Literal["maximize", "minimize"] = "maximize"
    """whether more or less of it is better"""

    @property
    def sign(self) -> float:
        """Fitness, which is always maximized, over the measure."""
        return 1.0 if self.direction == "maximize" else -1.0


def read_fitness(value: Any) -> Any:
    """A measure's name alone stands for the whole."""
    return {"measure": value} if isinstance(value, str) else value


def _read_seeds(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_SEEDS:
        return tuple(range(value))
    if isinstance(value, str) and (ends := re.fullmatch(r"(\d{1,10})-(\d{1,10})", value)):
        first, last = map(int, ends.groups())
        if first <= last < first + MOST_SEEDS:
            return tuple(range(first, last + 1))
    raise PydanticCustomError(
        "seeds",
        "Input should be a number n from 1 to {most} for the seeds 0 to n-1, a range such as 1000-1029, or a list of "
        "seeds",
        {"most": f"{MOST_SEEDS:,}"},
    )


Seed = Annotated[Count, Field(ge=0, lt=2**32)]
Seeds = Annotated[
    tuple[Seed, ...],
    Field(min_length=1, max_length=MOST_SEEDS),
    BeforeValidator(_read_seeds, json_schema_input_type=Annotated[tuple[Seed, ...], Field(min_length=1)] | int | str),
]


class Experiment(FileSpec):
    """All that `vsr evolve` needs. Defaults take ten minutes on two cores for bodies of 5 x 5 voxels."""

    kind: Literal["experiment"] = "experiment"
    """what this file describes"""
    robot: EvolvedRobot
    """the encodings that evolve"""
    world: World = World()
    """terrain, gravity, objects and other robots"""
    task: Annotated[Task, OneOf(TASKS, default="locomotion")] = Locomotion()
    """what robots are to do, for how long, and what is measured"""
    physics: Physics = Physics()
    """time steps, precision and implementation"""
    fitness: Annotated[Fitness, BeforeValidator(read_fitness, json_schema_input_type=Fitness | str)] = Fitness()
    """a measure's name, or a mapping with `measure` and `direction`"""
    evaluation: EvaluationOptions = EvaluationOptions()
    """how often and how finely individuals are simulated"""
    learning: Learning | None = None
    """if given, individuals improve their controllers before they are judged"""
    optimizer: Annotated[Optimizer, OneOf(OPTIMIZERS, default="mu_plus_lambda")] = OPTIMIZERS["mu_plus_lambda"]()  # pyright: ignore[reportAssignmentType]
    """how to search"""
    generations: Annotated[Count, Field(ge=1)] = 40
    """how many, the random first one included"""
    seeds: Seeds = (0,)
    """independent repetitions: a list of seeds, a number n for 0 to n-1, or a range such as 1000-1029"""
    checkpoint_seconds: Annotated[Real, Field(ge=0)] = 20.0
    """least time between two checkpoints [s]; 0 for one after every generation"""
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest; they register components of your own"""

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is named twice")
        return seeds

    @model_validator(mode="after")
    def _possible(self) -> Experiment:
        body = self.robot.body
        *settled, against = _settled(body, self.world, self.task, self.physics, self.evaluation)
        for name, part in zip(("world", "task", "physics", "evaluation"), settled, strict=True):
            object.__setattr__(self, name, part)  # frozen for everyone else
        issues = list(against) or self._observe()
        known = self.known_measures()
        used = [
            (("fitness", "measure"), self.fitness.measure),
            *((("optimizer",), name) for name in self.optimizer.descriptors),
        ]
        issues += [(path, _unknown_measure(name, known)) for path, name in used if name not in known]
        for name in ("first", "part"):  # parts of the genes that searches name
            if (part := getattr(self.optimizer, name, None)) not in (None, "body", "controller"):
                issues.append((("optimizer", name), f"'{clipped(part)}' given; genes are those of body and controller"))
        issues += _against_evaluation(body, self.world, self.task, self.physics, self.evaluation)
        issues += self._against_learning()
        again = self.evaluation.refine
        if again is not None and again.factor > 1 and ENGINES[body.engine].fixed_substep is not None:
            text = f"{again.factor} given; {body.engine} masses have substeps of one length only: give 1"
            issues.append((("evaluation", "refine", "factor"), text))
        evaluations = self.optimizer.population_size * self.generations
        if evaluations > MOST_EVALUATIONS:
            text = f"{evaluations:.3g} individuals in all for each seed; at most {MOST_EVALUATIONS:.3g}"
            issues.append((("generations",), text))
        if issues:
            raise validation_error(issues)
        return self

    def _observe(self) -> list[tuple[tuple[str, ...], str]]:
        """Settle the number of inputs of a policy; returns why it cannot be one for this task, if so."""
        policy, body = self.robot.controller, self.robot.body
        if not isinstance(policy, PolicyWeights) or policy.sensors:
            return []
        shown = observed_numbers(body, self.world, self.task, self.physics, body.layers)
        if not shown:
            return [(("robot", "controller"), NO_OBSERVATION)]
        if policy.observed not in (None, shown):
            text = f"{policy.observed} given; this task shows {shown} numbers: leave it out"
            return [(("robot", "controller", "observed"), text)]
        if policy.observed is None:
            settled = self.robot.model_copy(update={"controller": policy.model_copy(update={"observed": shown})})
            object.__setattr__(self, "robot", settled)  # frozen for everyone else
        return []

    def _against_learning(self) -> list[tuple[tuple[str, ...], str]]:
        """Why individuals cannot learn, or their search uses gradients, if so."""
        learning, found = self.learning, []
        if learning is not None and not self.robot.controller.gene_count(self.robot.body):
            found.append((("learning",), "there is nothing to learn: this controller has no genes; leave it out"))
        if learning is not None and self.optimizer.needs_gradients:
            found.append((("learning",), f"'{self.optimizer.type}' learns itself: leave it out, or use another search"))  # pyright: ignore[reportAttributeAccessIssue]
        if learning is not None and learning.method == "ppo":
            found += check_ppo(self.robot)
        found += self._against_sharing()
        if self.optimizer.needs_gradients and self.robot.body.gene_count:
            text = "the genes of this body have no gradients: use a fixed body, or another search and `learning`"
            found.append((("optimizer", "type"), f"'{self.optimizer.type}' uses gradients, and {text}"))  # pyright: ignore[reportAttributeAccessIssue]
        if self.optimizer.needs_gradients or (learning is not None and learning.method == "gradient"):
            who = f"'{self.optimizer.type}'" if self.optimizer.needs_gradients else "learning by gradient"  # pyright: ignore[reportAttributeAccessIssue]
            measures = self.task.known_measures()
            names = [name for name in measures if WITHOUT_GRADIENTS.isdisjoint(with_inputs([name], measures))]
            found += check_gradients(who, self.physics.implementation, self.fitness.measure, names)
            found += self._against_windows()
        return found

    @property
    def learns_together(self) -> bool:
        """Whether all individuals of a generation learn one policy."""
        return isinstance(self.robot.controller, PolicyWeights) and self.robot.controller.shared

    def _against_sharing(self) -> list[tuple[tuple[str, ...], str]]:
        """Why individuals cannot learn one policy together, if they are to."""
        learning, size = self.learning, self.optimizer.population_size
        if not self.learns_together or learning is None:
            return []
        if learning.method != "ppo":
            return [(("learning", "method"), f"'{learning.method}' given; a shared policy is learned by ppo")]
        if learning.inheritance != "lamarckian":
            return [(("learning", "inheritance"), "a shared policy goes from generation to generation: leave it out")]
        if learning.ppo.environments % size:
            text = f"{learning.ppo.environments} given; {size} individuals share them: give a multiple of {size}"
            return [(("learning", "ppo", "environments"), text)]
        return []

    def _against_windows(self) -> list[tuple[tuple[str, ...], str]]:
        try:
            schedule = self.schedule()
        except ValueError:  # reported elsewhere
            return []
        length, count = self.evaluation.gradients.cut(schedule)
        if count and length * count <= schedule.calls:
            return []
        time = length * schedule.interval
        text = f"{count or 1} of {time:.3g} s do not fit into an episode of {schedule.total_time:g} s: fewer or shorter"
        return [(("evaluation", "gradients"), text)]

    def environment(self, dtype: jnp.dtype | type) -> Environment:
        """The surroundings of robots; with several grounds, all of them (vsr.terrain.together)."""
        environment = self.world.build(dtype)
        if not self.evaluation.terrains:
            return environment
        further = [ground.build(dtype) for ground in self.evaluation.terrains]
        assert environment.terrain is not None
        return replace(environment, terrain=together([environment.terrain, *further]))

    def bed_numbers(self, *, fresh: bool) -> tuple[int, ...]:
        """Beds of grains of the search (`Sand.bed`), and of fresh trials after them; one alone if none is chosen."""
        ground, options = self.world.terrain, self.evaluation
        if ground is None or not ground.is_loose:
            return (0,)
        first = int(getattr(ground, "bed", 0))
        more = range(first + FIRST_FRESH_BED, first + FIRST_FRESH_BED + FRESH_BEDS) if fresh and options.confirm else ()
        return (*range(first, first + options.beds), *more)

    def known_measures(self) -> tuple[str, ...]:
        """Measures to select or distinguish robots by: the task's, and descriptors of body and brain."""
        return (*self.task.known_measures(), *descriptor_names(self.robot))

    @property
    def search(self) -> Search:
        """How to search, with what becomes of what individuals learn."""
        if self.learning is None:
            return self.optimizer
        return (Lamarckian if self.learning.inheritance == "lamarckian" else Baldwinian)(self.optimizer)

    def episodes(self) -> float:
        """Cost of a generation of one seed, in episodes with default time steps; gradients count as WAY_BACK each."""
        individuals, learning = self.optimizer.population_size, self.learning
        share = self.evaluation.gradients.share(self.schedule())
        total = self.evaluation.cost(individuals)
        looked_at = individuals * self.evaluation.trials
        if self.optimizer.needs_gradients:
            total += WAY_BACK * share * looked_at
        if learning is not None and learning.method == "ppo":
            total += individuals * learning.steps_taken / max(1, self.schedule().calls)
            total += 0 if self.learns_together else learning.evaluations * looked_at
        elif learning is not None:
            each = learning.samples if learning.method == "es" else 1 + WAY_BACK * share
            total += learning.steps * each * looked_at
        return total

    def schedule(self) -> Schedule:
        """How every episode is cut into steps: short enough for any material a body may have."""
        return _schedule(self.robot.body, self.world, self.task, self.physics, self.evaluation)

    def resolved(self) -> Experiment:
        """The same experiment with what it leaves to the program written out, so that a later version repeats it."""
        integrator = self.physics.integrator or ENGINES[self.robot.body.engine].default_integrator
        written = {"substeps": self.schedule().substeps, "integrator": integrator}
        physics = self.physics.model_copy(update=written)
        return self.model_copy(update={"physics": physics})

    def scene(self, genes: dict[str, np.ndarray]) -> Scene | None:
        """One individual's episode as a scene of its own, or None if it has no body."""
        robot = self.robot.describe(genes, self.task.duration)
        if robot is None:
            return None
        # Left to itself, a body that lacks the stiffest material would get fewer substeps than when it evolved.
        physics = self.resolved().physics
        return Scene(plugins=self.plugins, robot=robot, world=self.world, task=self._measuring_task(), physics=physics)

    def _measuring_task(self) -> Task:
        """The task with the fitness measure among its measures, if an episode has it and a file can name it."""
        chosen, measures = self.fitness.measure, self.task.measures
        if chosen in measures or chosen not in self.task.known_measures() or chosen.startswith(PYTHON):
            return self.task
        return self.task.model_copy(update={"measures": (*measures, chosen)})


def _unknown_measure(name: str, known: Sequence[str]) -> str:
    """What is wrong with a measure's name."""
    if name.startswith(PYTHON):
        return (
            f"'{clipped(name)}' is a function in Python, which no file holds: give it again, from Python, as `fitness` "
            "of vsr.evolve or vsr.load"
        )
    return f"unknown measure '{clipped(name)}'{suggest(name, known)}"


Complaints = tuple[tuple[tuple[str, ...], str], ...]
"""Where something does not fit, and why."""


@memoize
def _settled(
    body: BodyEncoding, world: World, task: Task, physics: Physics, evaluation: EvaluationOptions
) -> tuple[World, Task, Physics, EvaluationOptions, Complaints]:
    """All of these with the defaults for such bodies, and what speaks against such episodes."""
    world, task, physics, against = apply_defaults(body, world, task, physics)
    cells, materials = body.possible.shape, _materials(body, evaluation)
    evaluation = evaluation.for_voxels(body)
    return world, task, physics, evaluation, (*against, *check_episode(body, materials, cells, world, task, physics))


@memoize
def _schedule(
    body: BodyEncoding, world: World, task: Task, physics: Physics, evaluation: EvaluationOptions
) -> Schedule:
    return plan(body, _materials(body, evaluation), world, task, physics)


@memoize
def _against_evaluation(
    body: BodyEncoding, world: World, task: Task, physics: Physics, evaluation: EvaluationOptions
) -> Complaints:
    """Issues of the evaluation with these robots or their world."""
    found = [(("evaluation", *path), reason) for path, reason in evaluation.issues()]
    constant = [name for name in evaluation.randomize.scaled if name not in ENGINES[body.engine].scales]
    if constant:
        text = f"{body.engine} masses have no {' and no '.join(constant)} of their own: leave it out"
        found.append((("evaluation", "randomize"), text))
    sandy = world.is_loose or any(ground.is_loose for ground in evaluation.terrains)
    if sandy and (evaluation.terrains or evaluation.randomize.gravity):
        name = "terrains" if evaluation.terrains else "randomize"
        found.append((("evaluation", name), "sand lies in one world only, as it has settled: leave it out"))
    if evaluation.beds > 1 and not world.is_loose:
        found.append((("evaluation", "beds"), "there are no grains: leave it out, or take `world.terrain: sand`"))
    if not evaluation.terrains or sandy:
        return tuple(found)
    if world.terrain is None or "terrain" in task.overrides(body.engine, body.voxel_side, body.dimension).world:
        text = "there are no other grounds in free space, or for a task that brings its own: leave it out"
        return (*found, (("evaluation", "terrains"), text))
    materials, cells = _materials(body, evaluation), body.possible.shape
    own = check_episode(body, materials, cells, world, task, physics)
    for number, ground in enumerate(evaluation.terrains):
        path = ("evaluation", "terrains", str(number))
        if ground.in_3d != world.terrain.in_3d:
            kinds = "lines and height fields cannot be used together"
            found.append((path, f"'{ground.type}' and '{world.terrain.type}' given; {kinds}"))  # pyright: ignore[reportAttributeAccessIssue]
            continue
        other = world.model_copy(update={"terrain": ground})
        against = check_episode(body, materials, cells, other, task, physics)
        found += [(path, reason) for where, reason in against if (where, reason) not in own]
    return tuple(found)


def _materials(body: BodyEncoding, evaluation: EvaluationOptions) -> list[Material]:
    """All that bodies may be made of, in the start in which each is stiffest."""
    materials = list(body.materials.values())
    return [*materials, *map(evaluation.randomize.stiffened, materials)] if evaluation.randomize.scaled else materials


def grid_name(experiment: Experiment) -> str:
    """Cells along x, y (and z): '5x5'."""
    return "x".join(map(str, experiment.robot.body.possible.shape[::-1]))
