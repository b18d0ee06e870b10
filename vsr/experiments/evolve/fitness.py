"""From genes to fitness: episodes of all individuals of all seeds, in one or several trials.

Pure functions of arrays. An individual in one start is one robot; robots are shared out among all devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.episode import scenario_of
from vsr.evo import Evaluation
from vsr.evo.population import WORST
from vsr.experiments.descriptors import describe
from vsr.experiments.encodings import Genes
from vsr.experiments.experiment import Experiment
from vsr.experiments.learning import learn
from vsr.experiments.perturbation import Perturbation, aggregate_trials, perturbations_of, rollout_from
from vsr.experiments.population import on_all_devices, robots_at_once
from vsr.gradients import rollout_truncated
from vsr.physics.failure import first_of
from vsr.tasks import Summary
from vsr.world.build import build_systems

UNDISTURBED = Perturbation()
When = Array
"""Which seed, and which of its generations, (2,): the key of trials, if every generation has its own."""
FIRST_LOOK, SECOND_LOOK = 0, 1


def search_measures(experiment: Experiment) -> tuple[str, ...]:
    """The measures that the search uses. No others are made while it runs: they would cost time."""
    return tuple(dict.fromkeys((experiment.fitness.measure, *experiment.optimizer.descriptors)))


def evaluation_of(
    experiment: Experiment, factor: int = 1, *, differentiable: bool = False
) -> Callable[..., Evaluation]:
    """The function from one individual's genes and a perturbation to its evaluation.

    factor: by which time steps are smaller;
    differentiable: whether it has gradients with respect to the controller's genes, through windows of the episode.
    """
    regular = experiment.schedule()
    schedule = replace(regular, substeps=factor * regular.substeps)
    dtype = jnp.dtype(experiment.physics.precision)
    goal, names = experiment.fitness, search_measures(experiment)
    of_episode = tuple(name for name in names if name in experiment.task.known_measures())
    # A task that names what is measured knows what it must look at on the way.
    task = experiment.task.model_copy(update={"measures": of_episode or experiment.task.measures})

    def worth(episode: Summary) -> Array:
        return goal.sign * task.evaluate(episode, (goal.measure,))[goal.measure]

    def life(genes: Genes, start: Perturbation, key: Array | None) -> tuple[Array, Evaluation]:
        """Mean fitness over windows, if there are any, and the evaluation."""
        environment = experiment.environment(dtype)
        if key is not None:
            environment = experiment.task.drawn(key, environment)
        model, controller = experiment.robot.build(
            genes, experiment.task.duration, dtype, experiment.physics.integrator
        )
        systems = build_systems(experiment.world, experiment.robot.body, regular, dtype)
        scenario = scenario_of(model, environment, schedule, task, controller.sensors, systems)
        if differentiable:
            length, count = experiment.evaluation.gradients.cut(schedule)
            roll = partial(rollout_truncated, worth=worth, length=length, count=count)
            episode, worths = rollout_from(scenario, controller, start, roll)
        else:
            episode, worths = rollout_from(scenario, controller, start), jnp.zeros(1)
        measures = {**describe(experiment.robot, genes, names), **task.evaluate(episode, of_episode)}
        return worths.mean(), Evaluation(
            fitness=jnp.where(episode.failed, WORST, goal.sign * measures[goal.measure]),
            failed=episode.failed,
            failure=episode.failure,
            measures=measures,
        )

    def evaluation(genes: Genes, start: Perturbation = UNDISTURBED, key: Array | None = None) -> Evaluation:
        if not differentiable:
            return life(genes, start, key)[1]
        of_controller = jax.grad(lambda own: life({**genes, "controller": own}, start, key), has_aux=True)
        gradients, evaluation = of_controller(genes["controller"])
        return replace(evaluation, gradients={"body": jnp.zeros_like(genes["body"]), "controller": gradients})

    return evaluation


def evaluate_all(
    experiment: Experiment, at_once: int, genes: tuple[Genes, ...], when: tuple[When, ...] | None = None
) -> tuple[Evaluation, ...]:
    """Evaluations of all seeds' individuals; when: one per seed, where trials are resampled."""
    evaluations = evaluate_once(experiment, at_once, genes, when)
    if experiment.evaluation.refine is None:
        return evaluations
    return confirm_leaders(experiment, at_once, genes, evaluations, when)


def evaluate_once(
    experiment: Experiment, at_once: int, genes: tuple[Genes, ...], when: tuple[When, ...] | None = None
) -> tuple[Evaluation, ...]:
    """The same without the second look at leaders."""
    everyone = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *genes)
    options = experiment.evaluation
    size = jax.tree.leaves(everyone)[0].shape[0]
    drawn = draw(experiment, options.trials, size, when, FIRST_LOOK)
    learning, born = experiment.learning, everyone
    if learning is not None:

        def tried(robots: Genes, copies: int) -> Evaluation:
            differentiable = learning.method == "gradient"
            return evaluate_in_trials(
                experiment, at_once, robots, drawn.repeated(copies), differentiable=differentiable
            )

        everyone = learn(learning, born, tried)
    evaluation = evaluate_in_trials(
        experiment, at_once, everyone, drawn, differentiable=experiment.optimizer.needs_gradients
    )
    evaluation = replace(evaluation, learned=None if learning is None else everyone)
    descriptors = [evaluation.measures[name] for name in experiment.optimizer.descriptors]
    evaluation = replace(evaluation, descriptors=jnp.stack(descriptors, -1) if descriptors else None)
    leaves, structure = jax.tree.flatten(evaluation)
    parts = zip(*(jnp.split(leaf, len(genes)) for leaf in leaves), strict=True)
    return tuple(structure.unflatten(part) for part in parts)


class Drawn(NamedTuple):
    """Trials that individuals of all seeds are evaluated in."""

    count: int
    """perturbations of each"""
    trials: Perturbation
    """each (size * count,)"""
    keys: Array | None
    """of the generations, for tasks that draw something of their own, (size * count,)"""

    def repeated(self, copies: int) -> Drawn:
        """For as many copies of every individual, side by side."""

        def repeat(leaf: Array) -> Array:
            return jnp.repeat(leaf.reshape(-1, self.count), copies, 0).reshape(-1)

        return self._replace(trials=jax.tree.map(repeat, self.trials), keys=jax.tree.map(repeat, self.keys))


def depends_on_generation(experiment: Experiment) -> bool:
    """Whether an evaluation depends on the generation."""
    return experiment.evaluation.resample == "every_generation" or experiment.task.resamples


def generation_key(when: When, look: int = FIRST_LOOK) -> Array:
    """Of what is random in a generation of a seed: another one for every generation, the same when a run is resumed."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(look), when[0]), when[1])


def draw(experiment: Experiment, count: int, size: int, when: tuple[When, ...] | None, look: int) -> Drawn:
    """A number of trials for each of a number of individuals, as many of every seed; look: the first or the second."""
    options, dtype = experiment.evaluation, jnp.dtype(experiment.physics.precision)
    of_one = partial(
        perturbations_of, options.jitter, count, dtype, randomize=options.randomize, grounds=1 + len(options.terrains)
    )

    def for_all(of_seeds: Any) -> Any:
        """From (seeds, count) to all individuals of all seeds in a row."""
        return jax.tree.map(lambda leaf: jnp.repeat(leaf, size // leaf.shape[0], 0).reshape(-1), of_seeds)

    if options.resample == "every_generation":
        assert when is not None
        trials = for_all(jax.vmap(lambda own: of_one(key=generation_key(own, look)))(jnp.stack(when)))
    else:
        trials = jax.tree.map(lambda leaf: jnp.tile(leaf, size), of_one())
    if not experiment.task.resamples:
        return Drawn(count, trials, None)
    assert when is not None
    keys = jax.vmap(generation_key)(jnp.stack(when))
    return Drawn(count, trials, jnp.repeat(keys, count * size // len(when)))


def evaluate_in_trials(
    experiment: Experiment,
    at_once: int,
    everyone: Genes,
    drawn: Drawn,
    factor: int = 1,
    *,
    differentiable: bool = False,
) -> Evaluation:
    """Of individuals, (size,), each from several trials; factor: by which time steps are smaller.

    differentiable: whether it has gradients; those of several trials are the mean of theirs.
    """
    trials = drawn.count
    size = jax.tree.leaves(everyone)[0].shape[0]
    robots = jax.tree.map(lambda leaf: jnp.repeat(leaf, trials, 0), everyone)
    evaluation = evaluation_of(experiment, factor, differentiable=differentiable)
    single = on_all_devices(lambda robot: evaluation(*robot), (robots, drawn.trials, drawn.keys), at_once)
    if trials == 1:
        return single
    by_individual = jax.tree.map(lambda leaf: leaf.reshape(size, trials, *leaf.shape[1:]), single)
    aggregate = experiment.evaluation.aggregate
    fitness = aggregate_trials(aggregate, by_individual.fitness)
    failed = ~jnp.isfinite(fitness)
    return Evaluation(
        fitness=fitness,
        failed=failed,
        failure=jnp.where(failed, by_individual.failure.max(-1), 0),
        measures={name: jnp.nanmedian(values, -1) for name, values in by_individual.measures.items()},
        gradients=jax.tree.map(lambda leaf: leaf.mean(1), by_individual.gradients),
    )


def confirm_leaders(
    experiment: Experiment,
    at_once: int,
    genes: tuple[Genes, ...],
    evaluations: tuple[Evaluation, ...],
    when: tuple[When, ...] | None = None,
) -> tuple[Evaluation, ...]:
    """Re-check every seed's fittest with smaller time steps.

    Their confirmed fitness is the worse of both values. The others lose as much as the fittest did in the median, and
    stay below the best of those that were checked, so that the leader is always a checked one. If all of those fail,
    so does the generation.
    """
    refine = experiment.evaluation.refine
    assert refine is not None
    fitness = jnp.stack([one.fitness for one in evaluations])
    seeds, size = fitness.shape
    count = min(size, math.ceil(refine.top * size))
    chosen = jnp.argsort(-fitness, axis=1)[:, :count]
    grown = [own if one.learned is None else one.learned for own, one in zip(genes, evaluations, strict=True)]
    places = (chosen + size * jnp.arange(seeds)[:, None]).reshape(-1)
    leaders = jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[places], *grown)
    # Fewer robots than before, and no part is to be filled up with copies; on the CPU one seed's number decides.
    robots = count * refine.trials * (1 if jax.default_backend() == "cpu" else seeds)
    fewer = min(at_once, robots_at_once(robots, experiment.robot.body.possible.size))
    drawn = draw(experiment, refine.trials, count * seeds, when, SECOND_LOOK)
    again = evaluate_in_trials(experiment, fewer, leaders, drawn, refine.factor)
    assert again.failure is not None

    def confirmed(evaluation: Evaluation, chosen: Array, fitness: Array, failure: Array) -> Evaluation:
        """Of one seed; of those that were re-checked, (count,): which they are, and what came of it."""
        assert evaluation.failure is not None
        fitness = confirmed_fitness(evaluation.fitness, chosen, fitness)
        failure = evaluation.failure.at[chosen].set(first_of(evaluation.failure[chosen], failure))
        return replace(evaluation, fitness=fitness, failed=~jnp.isfinite(fitness), failure=failure)

    results = (part.reshape(seeds, count) for part in (again.fitness, again.failure))
    return tuple(map(confirmed, evaluations, chosen, *results))


def confirmed_fitness(fitness: Array, chosen: Array, again: Array) -> Array:
    """Fitness of one seed's individuals, (size,), after some were re-checked.

    chosen: indices of those; again: their fitness with smaller time steps, negative infinity for a failure.
    """
    first = fitness[chosen]
    confirmed = jnp.minimum(first, again)
    # Losses of those that failed in either simulation do not count for the others.
    known = jnp.isfinite(first) & jnp.isfinite(again)
    loss = jnp.nan_to_num(jnp.nanmedian(jnp.where(known, first - confirmed, jnp.nan)))
    most = jnp.max(confirmed)
    below = jnp.nextafter(most, jnp.full_like(most, -jnp.inf))
    others = jnp.minimum(fitness - loss, below)
    return others.at[chosen].set(confirmed)
