"""From genes to fitness: episodes of all individuals of all seeds, in one or several trials.

Pure functions of arrays. An individual in one start is one robot; robots are shared out among all devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.episode import scenario_of
from vsr.evo import Evaluation
from vsr.evo.population import WORST
from vsr.evo.variation import where_individuals
from vsr.experiments.descriptors import describe
from vsr.experiments.encodings import Genes
from vsr.experiments.experiment import Experiment
from vsr.experiments.learning import learn, seeds_of
from vsr.experiments.perturbation import (
    FRESH_BEDS,
    MOST_TRIALS,
    Perturbation,
    aggregate_trials,
    perturbations_of,
    rollout_from,
)
from vsr.experiments.policies import learn_policies
from vsr.experiments.population import on_all_devices, robots_at_once
from vsr.gradients import rollout_truncated
from vsr.physics.failure import first_of
from vsr.tasks import Summary
from vsr.world.build import build_beds, build_systems

UNDISTURBED = Perturbation()
When = Array
"""Which seed, and which of its generations, (2,): the key of trials, if every generation has its own."""
FIRST_LOOK, SECOND_LOOK = 0, 1
FRESH = 2 * MOST_TRIALS
"""Fresh trials come after so many: after those of the search, and after those of `vsr refine`."""
LAST_GENERATION = 2**32 - 1
"""Stands for the generation of the first fresh trial, where every generation has its own environment."""


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
        if start.bed is not None:
            beds = experiment.bed_numbers(fresh=factor > 1)
            systems = build_beds(experiment.world, experiment.robot.body, regular, dtype, beds)
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
    again = second_trials(experiment, len(genes), jax.tree.leaves(genes[0])[0].shape[0], when)
    assert again is not None
    return confirm_leaders(experiment, at_once, genes, evaluations, again)[0]


def evaluate_once(
    experiment: Experiment, at_once: int, genes: tuple[Genes, ...], when: tuple[When, ...] | None = None
) -> tuple[Evaluation, ...]:
    """The same without the second look at leaders."""
    everyone = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *genes)
    options = experiment.evaluation
    size = jax.tree.leaves(everyone)[0].shape[0]
    drawn = draw(experiment, options.trials, size, when, FIRST_LOOK)
    learning, born, compared = experiment.learning, everyone, False
    if learning is not None and learning.method == "ppo":
        learned = learn_policies(
            experiment,
            learning.ppo,
            learning.environment_steps,
            seeds_of(born),
            born,
            drawn.trials,
            drawn.keys,
            drawn.count,
            len(genes),
        )
        everyone = {**born, "controller": learned}
        compared = learning.in_one_round and not experiment.learns_together
    elif learning is not None:

        def tried(robots: Genes, copies: int) -> Evaluation:
            differentiable = learning.method == "gradient"
            return evaluate_in_trials(
                experiment, at_once, robots, drawn.repeated(copies), differentiable=differentiable
            )

        everyone = learn(learning, born, tried)
    if compared:
        evaluation = _better_of(experiment, at_once, born, everyone, drawn)
    else:
        evaluation = evaluate_in_trials(
            experiment, at_once, everyone, drawn, differentiable=experiment.optimizer.needs_gradients
        )
        evaluation = replace(evaluation, learned=None if learning is None else everyone)
    descriptors = [evaluation.measures[name] for name in experiment.optimizer.descriptors]
    evaluation = replace(evaluation, descriptors=jnp.stack(descriptors, -1) if descriptors else None)
    leaves, structure = jax.tree.flatten(evaluation)
    parts = zip(*(jnp.split(leaf, len(genes)) for leaf in leaves), strict=True)
    return tuple(structure.unflatten(part) for part in parts)


def _better_of(experiment: Experiment, at_once: int, born: Genes, learned: Genes, drawn: Drawn) -> Evaluation:
    """Of individuals who keep what they have learned if they are fitter by it.

    All are simulated together: on a GPU an episode of twice the robots takes hardly longer.
    """
    both, twice = (
        jax.tree.map(lambda one, other: jnp.concatenate([one, other]), *pair)
        for pair in ((born, learned), (drawn[1:], drawn[1:]))
    )
    evaluation = evaluate_in_trials(experiment, at_once, both, Drawn(drawn.count, *twice))
    before, after = jnp.split(evaluation.fitness, 2)
    choose = where_individuals(after > before)
    return jax.tree.map(lambda leaf: choose(*jnp.split(leaf, 2)[::-1]), replace(evaluation, learned=both))


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
        perturbations_of,
        options.jitter,
        count,
        dtype,
        randomize=options.randomize,
        grounds=1 + len(options.terrains),
        beds=options.beds,
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
    single = _evaluate_each(experiment, at_once, everyone, drawn, factor, differentiable=differentiable)
    return _aggregated(experiment, single, drawn.count)


def _evaluate_each(
    experiment: Experiment, at_once: int, everyone: Genes, drawn: Drawn, factor: int, *, differentiable: bool = False
) -> Evaluation:
    """Of every individual in every trial, (size * trials,)."""
    robots = jax.tree.map(lambda leaf: jnp.repeat(leaf, drawn.count, 0), everyone)
    evaluation = evaluation_of(experiment, factor, differentiable=differentiable)
    return on_all_devices(lambda robot: evaluation(*robot), (robots, drawn.trials, drawn.keys), at_once)


def _aggregated(experiment: Experiment, single: Evaluation, trials: int) -> Evaluation:
    """Of individuals, (size,), from those of each of their trials, (size * trials,)."""
    if trials == 1:
        return single
    size = single.fitness.shape[0] // trials
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


class Trials(NamedTuple):
    """Trials of the second look, as data: the same program serves the search and its last look."""

    perturbations: Perturbation
    """of all individuals that are looked at, of all seeds, each (seeds * individuals * trials,)"""
    when: Array | None
    """of each, where the task has an environment for every generation, (seeds * individuals * trials, 2)"""


def leader_count(experiment: Experiment, size: int) -> int:
    """How many of a population of this size are re-checked."""
    refine = experiment.evaluation.refine
    return 0 if refine is None else min(size, math.ceil(refine.top * size))


def second_trials(experiment: Experiment, seeds: int, size: int, when: tuple[When, ...] | None) -> Trials | None:
    """Those in which a search looks again at its leaders; size: of a population. None if it does not. Pure."""
    refine = experiment.evaluation.refine
    if refine is None:
        return None
    robots = seeds * leader_count(experiment, size)
    drawn = draw(experiment, refine.trials, robots, when, SECOND_LOOK)
    moments = None if when is None or not experiment.task.resamples else jnp.stack(when)
    each = robots * refine.trials
    return Trials(
        _completed(experiment, drawn.trials, each),
        None if moments is None else jnp.repeat(moments, each // seeds, 0),
    )


def fresh_trials(experiment: Experiment, seeds: int, size: int) -> list[Trials]:
    """For every call of the second look that confirms the best robots, each of which takes all places of its seed.

    Trials follow each other as in `confirmed`, and are the same for all seeds. size: of a population.
    """
    options = experiment.evaluation
    refine, confirm = options.refine, options.confirm
    assert refine is not None
    assert confirm is not None
    places = leader_count(experiment, size) * refine.trials
    calls = -(-confirm.trials // places)
    dtype, grounds = jnp.dtype(experiment.physics.precision), 1 + len(options.terrains)
    every = perturbations_of(
        options.fresh_jitter, calls * places, dtype, randomize=options.randomize, grounds=grounds, after=FRESH
    )
    every = _completed(experiment, every, calls * places)
    if every.bed is not None:
        every = every._replace(bed=options.beds + jnp.arange(calls * places) % FRESH_BEDS)
    found = []
    for call in range(calls):
        which = slice(call * places, (call + 1) * places)
        own = jax.tree.map(lambda leaf, which=which: jnp.tile(leaf[which], seeds), every)
        moments = np.stack([np.zeros(places), LAST_GENERATION - np.arange(which.start, which.stop)], -1)
        when = jnp.tile(jnp.asarray(moments, jnp.uint32), (seeds, 1)) if experiment.task.resamples else None
        found.append(Trials(own, when))
    return found


def confirmed(experiment: Experiment, found: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fitness of every seed's best robot, and the lower and upper quartile of its trials, each (seeds,).

    found: of each of its places, (seeds, places), of every call.
    """
    confirm = experiment.evaluation.confirm
    assert confirm is not None
    fitness = np.concatenate([np.asarray(one) for one in found], 1)[:, : confirm.trials]
    middle = np.asarray(aggregate_trials(experiment.evaluation.aggregate, jnp.asarray(fitness)))
    # One of the trials, since nothing lies between a failure and another trial.
    low, high = np.quantile(fitness, 0.25, 1, method="lower"), np.quantile(fitness, 0.75, 1, method="higher")
    return middle, low, high


def _completed(experiment: Experiment, trials: Perturbation, size: int) -> Perturbation:
    """With every quantity that fresh trials change, so that all trials of the second look have one form."""
    dtype = jnp.dtype(experiment.physics.precision)
    plain = {"higher": 0, **dict.fromkeys(("frequency", "damping", "friction"), 1)}
    missing: dict[str, Any] = {
        name: jnp.full(size, value, dtype) for name, value in plain.items() if getattr(trials, name) is None
    }
    if trials.number is None:
        missing["number"] = jnp.zeros(size, jnp.uint32)
    if trials.bed is None and len(experiment.bed_numbers(fresh=True)) > 1:
        missing["bed"] = jnp.zeros(size, jnp.int32)
    return trials._replace(**missing)


def confirm_leaders(
    experiment: Experiment,
    at_once: int,
    genes: tuple[Genes, ...],
    evaluations: tuple[Evaluation, ...],
    trials: Trials,
) -> tuple[tuple[Evaluation, ...], Array]:
    """Re-check every seed's fittest with smaller time steps; also gives the fitness in every trial, (seeds, places).

    Their confirmed fitness is the worse of both values. The others lose as much as the fittest did in the median, and
    stay below the best of those that were checked, so that the leader is always a checked one. If all of those fail,
    so does the generation.
    """
    refine = experiment.evaluation.refine
    assert refine is not None
    fitness = jnp.stack([one.fitness for one in evaluations])
    seeds, size = fitness.shape
    count = leader_count(experiment, size)
    chosen = jnp.argsort(-fitness, axis=1)[:, :count]
    grown = [own if one.learned is None else one.learned for own, one in zip(genes, evaluations, strict=True)]
    places = (chosen + size * jnp.arange(seeds)[:, None]).reshape(-1)
    leaders = jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[places], *grown)
    # Fewer robots than before, and no part is to be filled up with copies; on the CPU one seed's number decides.
    robots = count * refine.trials * (1 if jax.default_backend() == "cpu" else seeds)
    fewer = min(at_once, robots_at_once(robots, experiment.robot.body.possible.size))
    keys = None if trials.when is None else jax.vmap(generation_key)(trials.when)
    drawn = Drawn(refine.trials, trials.perturbations, keys)
    single = _evaluate_each(experiment, fewer, leaders, drawn, refine.factor)
    again = _aggregated(experiment, single, refine.trials)
    assert again.failure is not None

    def settled(fitness: Array, failure: Array, chosen: Array, again: Array, failed: Array) -> tuple[Array, Array]:
        """Fitness and failures of one seed; chosen: which were re-checked; again, failed: what came of it, (count,)."""
        return (
            confirmed_fitness(fitness, chosen, again),
            failure.at[chosen].set(first_of(failure[chosen], failed)),
        )

    failures: list[Any] = [one.failure for one in evaluations]
    checked = (part.reshape(seeds, count) for part in (again.fitness, again.failure))
    after = jax.vmap(settled)(fitness, jnp.stack(failures), chosen, *checked)
    confirmed = tuple(
        replace(one, fitness=fitness, failed=~jnp.isfinite(fitness), failure=failure)
        for one, fitness, failure in zip(evaluations, *after, strict=True)
    )
    return confirmed, single.fitness.reshape(seeds, -1)


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
