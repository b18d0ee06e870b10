"""Evolution strategies of the package evosax behind our protocol: CMA-ES and its kin, and any other that it has.

evosax minimizes, so that it gets costs: fitness with the other sign, and for a failure more than the worst of its
generation. Strategies with a distribution begin at the mean of random individuals; those with a population begin with
an evaluated random one. Individuals have no parents: they come from all before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, Strict, field_validator, model_validator

from vsr.evo.diversity import gene_spread
from vsr.evo.population import NO_PARENT, WORST, Population, best, concatenate, offspring, with_fitness
from vsr.evo.protocol import Evaluation, Sampler, SearchSummary
from vsr.evo.settings import Settings

MISSING = "this search needs the package evosax: pip install 'voxel-soft-robots[es]'"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Strategy:
    """A search between two generations."""

    key: Array
    generation: Array
    """evaluations so far, in generations, ()"""
    inner: Any
    """the state of evosax"""
    population: Population
    """those evaluated last; before the first evaluation not to be used"""
    leader: Population
    """the fittest so far, (1,)"""


class _Strategy(Settings):
    """Shared parts of all strategies."""

    population_size: Annotated[int, Strict(), Field(ge=4, le=1_000_000)] = 40
    """individuals in a generation"""
    sigma: Annotated[float, Strict(), Field(gt=0, le=1e6)] = 0.15
    """standard deviation of the first generation around its mean, where the strategy has one"""

    @property
    def name(self) -> str:
        """Of the class in evosax."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _available(self) -> _Strategy:
        if not _strategies():
            raise ValueError(MISSING)
        return self

    def options(self) -> dict[str, Any]:
        """Arguments of the class in evosax."""
        return {}

    def start(self, key: Array, sample: Sampler) -> Strategy:
        first, rest = jax.random.split(key)
        genes = sample(first, self.population_size)
        algorithm, params = self._algorithm(genes)
        if self._has_distribution(algorithm):
            mean = jax.tree.map(lambda leaf: leaf.mean(0), genes)
            inner = algorithm.init(rest, mean, params)
        else:
            inner = algorithm.init(rest, genes, jnp.full(self.population_size, jnp.inf), params)
        nobody = offspring(genes, jnp.full((self.population_size, 2), NO_PARENT), jnp.int32(0), jnp.int32(0))
        inner = jax.tree.map(jnp.asarray, inner)
        return Strategy(rest, jnp.int32(0), inner, nobody, jax.tree.map(lambda leaf: leaf[:1], nobody))

    def ask(self, state: Strategy, sample: Sampler) -> Population:
        genes, _ = self._asked(state)
        parents = jnp.full((self.population_size, 2), NO_PARENT)
        return offspring(genes, parents, state.generation * self.population_size, state.generation)

    def tell(self, state: Strategy, asked: Population, evaluation: Evaluation) -> Strategy:
        asked = with_fitness(asked, evaluation.fitness, evaluation.failed)
        algorithm, params = self._algorithm(asked.genes)
        cost = costs(asked.fitness)
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.generation), 1)
        _, inner = self._asked(state)  # once more: evosax remembers what it asked
        following, _ = algorithm.tell(key, asked.genes, cost, inner, params)
        if not self._has_distribution(algorithm):
            begun = algorithm.init(state.key, asked.genes, cost, params)
            first = state.generation == 0
            following = jax.tree.map(lambda new, old: jnp.where(first, new, old), begun, following)
        before = jax.tree.map(lambda leaf: leaf[:1], asked)
        leader = jax.tree.map(lambda now, old: jnp.where(state.generation == 0, now, old), before, state.leader)
        following = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), following, state.inner)
        return Strategy(state.key, state.generation + 1, following, asked, best(concatenate(leader, asked)))

    def summary(self, state: Strategy) -> SearchSummary:
        members = state.population
        sound = jnp.where(members.fitness > WORST, members.fitness, jnp.nan)
        return SearchSummary(
            best=state.leader, median=jnp.nanmedian(sound), spread=gene_spread(members.genes), members=members
        )

    def _asked(self, state: Strategy) -> tuple[Any, Any]:
        """Genes to evaluate, and the state of evosax after it was asked for them."""
        algorithm, params = self._algorithm(state.population.genes)
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.generation), 0)
        genes, inner = algorithm.ask(key, state.inner, params)
        if not self._has_distribution(algorithm):
            first = state.generation == 0
            genes = jax.tree.map(lambda old, new: jnp.where(first, old, new), state.population.genes, genes)
        return genes, inner

    def _algorithm(self, genes: Any) -> tuple[Any, Any]:
        """The strategy for individuals like these, and its parameters."""
        like = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), genes)
        algorithm = _strategies()[self.name](population_size=self.population_size, solution=like, **self.options())
        params = algorithm.default_params
        if hasattr(params, "std_init"):
            params = params.replace(std_init=jnp.asarray(self.sigma, jnp.float32))
        return algorithm, params

    @staticmethod
    def _has_distribution(algorithm: Any) -> bool:
        return hasattr(algorithm, "get_mean")


class CMAES(_Strategy):
    """CMA-ES: a normal distribution whose whole covariance adapts; for up to some hundred genes."""

    type: Literal["cma_es"] = "cma_es"
    name: ClassVar[str] = "CMA_ES"


class SepCMAES(_Strategy):
    """sep-CMA-ES: CMA-ES with a standard deviation per gene only; for many genes."""

    type: Literal["sep_cma_es"] = "sep_cma_es"
    name: ClassVar[str] = "Sep_CMA_ES"


class SNES(_Strategy):
    """Separable natural evolution strategy."""

    type: Literal["snes"] = "snes"
    name: ClassVar[str] = "SNES"


class OpenES(_Strategy):
    """OpenAI-ES: opposite pairs around a mean that Adam takes along an estimated gradient."""

    type: Literal["open_es"] = "open_es"
    name: ClassVar[str] = "Open_ES"
    rate: Annotated[float, Strict(), Field(gt=0, le=1e6)] = 0.05
    """learning rate of Adam"""

    @field_validator("population_size")
    @classmethod
    def _pairs(cls, population_size: int) -> int:
        if population_size % 2:
            raise ValueError(f"{population_size} given; individuals come in opposite pairs: an even number")
        return population_size

    def options(self) -> dict[str, Any]:
        import optax

        return {"optimizer": optax.adam(self.rate), "std_schedule": optax.constant_schedule(self.sigma)}


class Evosax(_Strategy):
    """Any other strategy of evosax, by the name of its class, with its default parameters."""

    type: Literal["evosax"] = "evosax"
    algorithm: str = "DifferentialEvolution"
    """name of the class, such as DifferentialEvolution, PSO, LM_MA_ES, PGPE"""

    @field_validator("algorithm")
    @classmethod
    def _known(cls, name: str) -> str:
        known = _strategies()
        if known and name not in known:
            raise ValueError(f"evosax has no '{name}'; it has {', '.join(sorted(known))}")
        return name

    @property
    def name(self) -> str:
        return self.algorithm


def costs(fitness: Array) -> Array:
    """Costs for a minimizer: a failure costs a little more than the worst of the others, (size,)."""
    sound = fitness > WORST
    worst = jnp.where(sound, -fitness, -jnp.inf).max()
    least = jnp.where(sound, -fitness, jnp.inf).min()
    beyond = jnp.where(sound.any(), worst + jnp.maximum(worst - least, 1e-6), 0.0)
    return jnp.where(sound, -fitness, beyond)


@cache
def _strategies() -> dict[str, Any]:
    """Classes of evosax by name; none if it is not installed."""
    try:
        from evosax import algorithms
    except ImportError:
        return {}
    return {name: value for name, value in vars(algorithms).items() if isinstance(value, type)}
