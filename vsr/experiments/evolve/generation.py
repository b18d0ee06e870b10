"""Whole generations on the device: ask, decode, simulate, tell, for all seeds of an experiment.

`compile_evolution` gives two functions of arrays. The host only learns what `GenerationStats` holds, once a generation.
Every seed has its own search, run by one program for all, so that a seed is the same alone and among others; the robots
of all seeds are simulated together, shared out among all devices (processor cores count as devices, see
experiments.devices), also those of other processes: then process 0 searches, and the others only evaluate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.evo import Evaluation, Population
from vsr.evo.diversity import distinct
from vsr.evo.population import failures, with_fitness
from vsr.experiments.collection import without_collection
from vsr.experiments.encodings import Genes
from vsr.experiments.encodings.base import BodyEncoding
from vsr.experiments.encodings.bodies import in_the_corner
from vsr.experiments.evolve.fitness import (
    UNDISTURBED,
    Trials,
    confirm_leaders,
    depends_on_generation,
    evaluate_once,
    evaluation_of,
    fresh_trials,
    search_measures,
    second_trials,
)
from vsr.experiments.evolve.stored_programs import Programs, compiled, programs_of, what_programs_depend_on
from vsr.experiments.experiment import Experiment
from vsr.experiments.hosts import broadcast, detect_peer_loss
from vsr.experiments.memory import memory_limit
from vsr.experiments.population import everywhere, robots_at_once
from vsr.experiments.run_time import Operations, operations_of
from vsr.experiments.storage.statistics import GenerationStats
from vsr.physics.failure import counted

SearchStates = tuple[Any, ...]
"""One per seed; only the optimizer knows what is inside."""


@dataclass(frozen=True)
class Evolution:
    """An experiment's search as compiled functions."""

    start: Callable[[], SearchStates]
    """all seeds before their first generation"""
    step: Callable[[SearchStates], tuple[SearchStates, tuple[GenerationStats, ...]]]
    """one generation of all seeds"""
    at_once: int
    """how many robots a device simulates together"""
    evaluate: Callable[..., tuple[Evaluation, ...]]
    """evaluates individuals in `step`: genes, one population per seed, and the generation (see evaluate_all)"""
    confirm: Callable[..., list[Array]] | None = None
    """looks at the best robot of every seed in fresh trials: genes, (seeds, ...) each, and a function that is called
    before every look; what comes of them is read by `fitness.confirmed`"""
    were_kept: bool = False
    """whether an earlier run compiled its programs"""


def start(experiment: Experiment, key: Array) -> Any:
    """One seed's search before its first generation. Pure."""
    return experiment.search.start(key, experiment.robot.sampling)


def ask(experiment: Experiment, search: Any) -> Population:
    """One seed's individuals to evaluate. Pure."""
    return experiment.search.ask(search, experiment.robot.sampling)


def tell(experiment: Experiment, search: Any, asked: Population, evaluation: Evaluation) -> tuple[Any, GenerationStats]:
    """One seed's search after an evaluation. Pure."""
    assert evaluation.failure is not None
    following = experiment.search.tell(search, asked, evaluation)
    asked = with_fitness(asked, evaluation.fitness, evaluation.failed)
    summary = experiment.search.summary(following)
    return following, GenerationStats(
        best=summary.best.fitness[0],
        median=summary.median,
        failed=failures(asked),
        failures=counted(evaluation.failure),
        best_genes=jax.tree.map(lambda leaf: leaf[0], summary.best.genes),
        best_id=summary.best.id[0],
        id=asked.id,
        parents=asked.parents,
        fitness=asked.fitness,
        spread=summary.spread,
        bodies=body_count(experiment.robot.body, summary.members.genes["body"]),
        metrics={**summary.metrics, **_cost(experiment)},
    )


def _cost(experiment: Experiment) -> dict[str, Array]:
    """Cost of a generation, where individuals learn or have gradients, so that it is not one episode each."""
    if experiment.learning is None and not experiment.optimizer.needs_gradients:
        return {}
    episodes = experiment.episodes()
    seconds = episodes * experiment.schedule().total_time
    found = {"episodes": jnp.float32(episodes), "simulated_seconds": jnp.float32(seconds)}
    learning = experiment.learning
    if learning is not None and learning.method == "ppo":
        found["environment_steps"] = jnp.float32(experiment.optimizer.population_size * learning.steps_taken)
    return found


def body_count(encoding: BodyEncoding, genes: Array) -> Array:
    """How many different bodies genes make, wherever they lie in the grid, (); genes: (size, ...). Pure."""
    if not encoding.gene_count:
        return jnp.int32(1)
    return distinct(jax.vmap(lambda own: in_the_corner(encoding.decode(own)))(genes))


def search_shapes(experiment: Experiment) -> Any:
    """Shapes of one seed's search."""
    return jax.eval_shape(partial(start, experiment), _key_shape())


def evaluation_shapes(experiment: Experiment, asked: Population) -> Evaluation:
    """Shapes of one seed's evaluation."""

    def like(number: Array, genes: Genes) -> Evaluation:
        descriptors = [number] * len(experiment.optimizer.descriptors)
        return Evaluation(
            fitness=number,
            failed=jnp.isnan(number),
            failure=jnp.isnan(number).astype(jnp.int32),
            measures=dict.fromkeys(search_measures(experiment), number),
            descriptors=jnp.stack(descriptors, -1) if descriptors else None,
            gradients=genes if experiment.optimizer.needs_gradients else None,
            learned=None if experiment.learning is None else genes,
        )

    return jax.eval_shape(like, asked.fitness, asked.genes)


def _key_shape() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


Counted = Callable[[Operations], object]
"""Called with the operations of a generation's evaluation as soon as they are known, before it is compiled."""


def _ignore(operations: Operations) -> None:
    """Nobody asks for them."""


def compile_evolution(experiment: Experiment, counted: Counted = _ignore) -> Evolution:
    """The compiled search."""
    limit, described = memory_limit(), what_programs_depend_on(experiment)
    found = programs_of(described, limit, lambda: _compile(described, limit, counted))
    counted(found.operations)
    on_all, home = everywhere(), jax.devices()[0]

    def at_home(program: Callable[..., Any], *asked: Any) -> Any:
        return jax.device_put(program(*jax.device_put(asked, on_all)), home)

    return _evolution(experiment, found, at_home)


def compile_led_evolution(experiment: Experiment, limit: float, counted: Counted = _ignore) -> Evolution:
    """For process 0 of several: it searches, all of them evaluate; limit: memory of each device [bytes]."""
    made = _compile(experiment, limit, counted)

    def together(program: Callable[..., Any], *asked: Any) -> Any:
        shared = broadcast(asked)
        with detect_peer_loss():
            return jax.tree.map(lambda result: result.addressable_data(0), program(*shared))

    return _evolution(experiment, made, together)


def compile_led_evaluation(experiment: Experiment, limit: float) -> Callable[[bool], None]:
    """For the other processes: their part of an evaluation, or of a last look, that process 0 has begun."""
    looks = _compile_evaluation(experiment, limit).programs
    genes = asked_genes(experiment)
    again = _second_shapes(experiment)
    evaluation = genes, again, *when_shapes(experiment)
    last_look = genes, _evaluations_of(experiment, genes), again

    def take_part(last: bool) -> None:
        nothing = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), last_look if last else evaluation)
        shared = broadcast(nothing)
        with detect_peer_loss():
            jax.block_until_ready((looks[1] if last else _looked(*looks))(*shared))

    return take_part


def _looked(first: Any, second: Any = None) -> Callable[..., tuple[Evaluation, ...]]:
    """Both programs as one function of genes, trials of the second, and, where it matters, seeds and generations."""

    def looked(genes: Any, again: Trials | None, *when: Any) -> tuple[Evaluation, ...]:
        found = first(genes, *when)
        return found if second is None else second(genes, found, again)[0]

    return looked


def _evaluations_of(experiment: Experiment, genes: Sequence[Genes]) -> tuple[Evaluation, ...]:
    """Shapes of all seeds' evaluations."""
    asked = jax.eval_shape(partial(ask, experiment), search_shapes(experiment))
    return (evaluation_shapes(experiment, asked),) * len(genes)


def _second_shapes(experiment: Experiment) -> Trials | None:
    """Shapes of the trials of the second look."""
    seeds, size = len(experiment.seeds), experiment.optimizer.population_size
    return jax.eval_shape(partial(second_trials, experiment, seeds, size), *(when_shapes(experiment) or (None,)))


def _evolution(experiment: Experiment, made: Programs, call: Callable[..., Any]) -> Evolution:
    """call: runs a program with its arguments on all devices."""
    start_one, ask, tell, *looks = made.programs
    trials_of, *looks = looks if len(looks) > 1 else (lambda *_: None, *looks)
    look = _looked(*looks)
    drawn_anew = depends_on_generation(experiment)
    never_anew = None if drawn_anew else jax.device_get(trials_of(None))

    def evaluation(genes: tuple[Genes, ...], *births: Any) -> tuple[Evaluation, ...]:
        return call(look, genes, trials_of(*births) if drawn_anew else never_anew, *births)

    def confirm(best: Genes, announce: Callable[[], object] = lambda: None) -> list[Array]:
        size = experiment.optimizer.population_size
        genes = copies_of_best(best, len(experiment.seeds), size)
        evaluations = tuple(
            replace(
                jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), one),
                learned=None if one.learned is None else own,
            )
            for one, own in zip(_evaluations_of(experiment, genes), genes, strict=True)
        )
        found = []
        for trials in fresh_trials(experiment, len(experiment.seeds), size):
            announce()
            found.append(call(looks[1], genes, evaluations, trials)[1])
        return found

    def when(seed: int, asked: Population) -> Array | None:
        return jnp.stack([jnp.uint32(seed), asked.birth.max().astype(jnp.uint32)]) if drawn_anew else None

    def begin() -> SearchStates:
        return tuple(start_one(np.uint32(seed)) for seed in experiment.seeds)

    def step(searches: SearchStates) -> tuple[SearchStates, tuple[GenerationStats, ...]]:
        everyone = tuple(map(ask, searches))
        births = [when(seed, asked) for seed, asked in zip(experiment.seeds, everyone, strict=True)]
        evaluations = evaluation(tuple(asked.genes for asked in everyone), *((tuple(births),) if drawn_anew else ()))
        following = list(map(tell, searches, everyone, evaluations))
        return tuple(search for search, _ in following), tuple(stats for _, stats in following)

    last = None if experiment.evaluation.confirm is None else confirm
    return Evolution(begin, step, made.at_once, evaluation, last, made.were_kept)


def copies_of_best(best: Mapping[str, Any], seeds: int, size: int) -> tuple[Genes, ...]:
    """Populations of copies, one for every seed; best: (seeds, ...) each."""

    def copies(own: Any, seed: int) -> Any:
        return np.stack([own[seed]] * size)

    return tuple({part: copies(own, seed) for part, own in best.items()} for seed in range(seeds))


def _compile(experiment: Experiment, limit: float, counted: Counted) -> Programs:
    """To start, ask, tell, draw trials of the second look if there is one, and look; limit: see Programs, [bytes]."""
    with ThreadPoolExecutor() as threads, without_collection():
        compiling: list[Future[Any]] = []

        def search() -> None:
            """Begin to compile what runs for a moment in a generation."""
            # Of its time to compile a quarter is worth more than its speed.
            options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else {}
            lowered = [*_lowered_search(experiment), *_lowered_trials(experiment)]
            compiling.extend(threads.submit(compiled, program, compiler_options=options) for program in lowered)

        looks = _compile_evaluation(experiment, limit, counted, meanwhile=search)
        return looks._replace(programs=[*(one.result() for one in compiling), *looks.programs])


def _lowered_search(experiment: Experiment) -> list[Any]:
    """The programs to start, ask and tell, not yet compiled."""
    search = search_shapes(experiment)
    asked = jax.eval_shape(partial(ask, experiment), search)

    def begin(seed: Array) -> Any:
        return start(experiment, jax.random.key(seed))

    return [
        jax.jit(begin).lower(jax.ShapeDtypeStruct((), jnp.uint32)),
        jax.jit(partial(ask, experiment)).lower(search),
        jax.jit(partial(tell, experiment)).lower(search, asked, evaluation_shapes(experiment, asked)),
    ]


def _lowered_trials(experiment: Experiment) -> list[Any]:
    """The program that draws trials of the second look, if there is one."""
    if experiment.evaluation.refine is None:
        return []
    program = partial(second_trials, experiment, len(experiment.seeds), experiment.optimizer.population_size)
    return [jax.jit(program).lower(*(when_shapes(experiment) or (None,)))]


def program_digest(experiment: Experiment) -> str:
    """SHA-256 of what is computed: the search and the evaluation of one individual, as JAX lowers them.

    The number of devices, of seeds and of robots that are simulated at once is no part of it.
    """
    genes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), asked_genes(experiment)[0])
    keys = (_key_shape(),) if experiment.task.resamples else ()
    evaluate = evaluation_of(experiment, differentiable=experiment.optimizer.needs_gradients)
    alone = jax.jit(lambda own, *key: evaluate(own, UNDISTURBED, *key)).lower(genes, *keys)
    digest = hashlib.sha256()
    for program in (*_lowered_search(experiment), alone):
        digest.update(program.as_text().encode())
    return digest.hexdigest()


def _compile_evaluation(
    experiment: Experiment,
    limit: float,
    counted: Counted = _ignore,
    meanwhile: Callable[[], object] = lambda: None,
) -> Programs:
    """The programs to evaluate and to look again, and how many robots run at once.

    If the robots of a device together need too much memory, they are simulated in parts. The second look at leaders is
    a program of its own, so that both are compiled side by side. meanwhile: is called as soon as both have begun.
    """
    genes, when, most = asked_genes(experiment), when_shapes(experiment), most_at_once(experiment)
    asked: dict[Callable[..., Any], tuple[Any, ...]] = {evaluate_once: (genes, *when)}
    operations: list[Operations] = []

    def traced(look: Callable[..., Any], at_once: int) -> Any:
        program = jax.jit(partial(look, experiment, at_once), in_shardings=everywhere(), out_shardings=everywhere())
        return program.trace(*asked[look])

    def begin(look: Callable[..., Any]) -> Any:
        found = traced(look, most)
        operations.append(operations_of(found.jaxpr))
        if look is evaluate_once and experiment.evaluation.refine is not None:
            asked[confirm_leaders] = genes, found.out_info, _second_shapes(experiment)
        else:
            counted(total())
        return threads.submit(compiled, found.lower())

    def total() -> Operations:
        return sum(operations, Operations())

    def finished(look: Callable[..., Any], begun: Any) -> tuple[Any, int]:
        def program_for(at_once: int) -> Any:
            return begun.result() if at_once == most else compiled(traced(look, at_once).lower())

        return within_memory(program_for, most, limit)

    with ThreadPoolExecutor() as threads:
        begun: dict[Callable[..., Any], Any] = {evaluate_once: begin(evaluate_once)}
        if confirm_leaders in asked:
            begun[confirm_leaders] = begin(confirm_leaders)
        meanwhile()
        programs, at_once = zip(*(finished(*look) for look in begun.items()), strict=True)
    return Programs(programs, at_once[0], total())


def asked_genes(experiment: Experiment) -> tuple[Genes, ...]:
    """Shapes of what is evaluated in a generation."""
    asked = jax.eval_shape(partial(ask, experiment), search_shapes(experiment))
    return (asked.genes,) * len(experiment.seeds)


def when_shapes(experiment: Experiment) -> tuple[tuple[jax.ShapeDtypeStruct, ...], ...]:
    """Shapes of what is informed of seeds and generations, where evaluations depend on them."""
    return (
        ((jax.ShapeDtypeStruct((2,), jnp.uint32),) * len(experiment.seeds),)
        if depends_on_generation(experiment)
        else ()
    )


def within_memory(compile_for: Callable[[int], Any], at_once: int, limit: float) -> tuple[Any, int]:
    """The program compiled for as many robots at once as need no more than the limit [bytes], and their number."""
    while True:
        program = compile_for(at_once)
        analysis = program.memory_analysis()
        needed = 0 if analysis is None else analysis.temp_size_in_bytes
        if needed <= limit or at_once == 1:
            return program, at_once
        at_once = max(1, int(0.9 * at_once * limit / needed))


def most_at_once(experiment: Experiment) -> int:
    """How many robots a device simulates together, if memory allows.

    On the CPU the number depends on one seed's population only, so that a seed among others is the same as alone.
    """
    seeds = 1 if jax.default_backend() == "cpu" else len(experiment.seeds)
    robots = experiment.optimizer.population_size * seeds * experiment.evaluation.trials
    return robots_at_once(robots, experiment.robot.body.possible.size)
