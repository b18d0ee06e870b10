"""MAP-Elites: search that fills archives with individuals that differ, each the fittest of its kind.

One archive or several at once, for example of body, brain and behavior. Parents are drawn evenly among the elites of
all archives, or of one; children come from crossover or mutation as in µ + λ, and each tries its cell in every archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, Strict, model_validator

from vsr.evo.archives import ARCHIVE_METRICS, AnyArchive, Archive, Elites, archive_metrics, insert, nobody
from vsr.evo.diversity import gene_spread
from vsr.evo.operators import flat_draw
from vsr.evo.population import NO_PARENT, WORST, Population, best, concatenate, offspring, take, with_fitness
from vsr.evo.protocol import Evaluation, Sampler, SearchSummary
from vsr.evo.settings import Settings, Share, Size
from vsr.evo.variation import cross_or_mutate, where_individuals

EVERY = "all"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Illumination:
    """A search between two generations."""

    key: Array
    """of the whole search; each generation folds its number in"""
    generation: Array
    """evaluations so far, in generations, ()"""
    archives: dict[str, Elites]


class MapElites(Settings):
    """Archives of elites that differ, the fittest of each kind (MAP-Elites)."""

    type: Literal["map_elites"] = "map_elites"
    population_size: Size = 40
    """children in a generation"""
    archives: Annotated[dict[str, AnyArchive], Field(min_length=1, max_length=16)]
    """by name: grid or cvt, with the descriptors that distinguish individuals"""
    parents: str = EVERY
    """the archive from which parents are drawn, or all: each parent from any of them, with equal chances"""
    random_generations: Annotated[int, Strict(), Field(ge=1, le=100_000)] = 1
    """generations of random individuals before parents are drawn"""
    crossover_rate: Share = 0.8
    """share of children made by crossover; the others by mutation"""
    sigma: Annotated[float, Strict(), Field(ge=0, le=1e6)] = 0.15
    """standard deviation of the mutation"""
    resampling_rate: Share = 0.1
    """chance of a gene that is a kind (voxel_kinds) to be resampled by mutation, which adds noise to all others"""
    qd_offset: Annotated[float, Strict()] = 0.0
    """fitness from which the QD score counts, so that an elite never lowers it; at or below the worst that occurs"""

    @model_validator(mode="after")
    def _named(self) -> MapElites:
        if self.parents != EVERY and self.parents not in self.archives:
            raise ValueError(f"parents: '{self.parents}' given; archives are {', '.join(self.archives)}, or all")
        if EVERY in self.archives:
            raise ValueError("an archive cannot be called 'all', which stands for every one")
        return self

    @property
    def descriptors(self) -> tuple[str, ...]:
        named = (axis.measure for archive in self.archives.values() for axis in archive.axes)
        return tuple(dict.fromkeys(named))

    @property
    def elite_archives(self) -> Mapping[str, Archive]:
        return self.archives

    @property
    def metrics(self) -> Mapping[str, str]:
        return ARCHIVE_METRICS

    def start(self, key: Array, sample: Sampler) -> Illumination:
        like = jax.eval_shape(partial(self._fresh, sample), key, jnp.int32(0))
        empty = {name: nobody(archive, like) for name, archive in self.archives.items()}
        return Illumination(key, jnp.int32(0), empty)

    def ask(self, state: Illumination, sample: Sampler) -> Population:
        for_fresh, for_children = jax.random.split(jax.random.fold_in(state.key, state.generation))
        bred = (state.generation >= self.random_generations) & self._breeding(state).any()
        return jax.lax.cond(
            bred,
            lambda: self._children(for_children, state, sample),
            lambda: self._fresh(sample, for_fresh, state.generation),
        )

    def tell(self, state: Illumination, asked: Population, evaluation: Evaluation) -> Illumination:
        asked = with_fitness(asked, evaluation.fitness, evaluation.failed)
        assert evaluation.descriptors is not None
        column = {name: evaluation.descriptors[:, place] for place, name in enumerate(self.descriptors)}
        archives = {
            name: insert(archive, state.archives[name], asked, _columns(column, archive))
            for name, archive in self.archives.items()
        }
        return Illumination(state.key, state.generation + 1, archives)

    def summary(self, state: Illumination) -> SearchSummary:
        everyone = reduce(concatenate, (elites.members for elites in state.archives.values()))
        leader, there = best(everyone), everyone.fitness > WORST

        metrics = {
            f"{name}.{metric}": value
            for name, elites in state.archives.items()
            for metric, value in archive_metrics(elites, self.qd_offset).items()
        }
        return SearchSummary(
            best=leader,
            median=jnp.nanmedian(jnp.where(there, everyone.fitness, jnp.nan)),
            spread=gene_spread(everyone.genes, there),
            members=jax.tree.map(where_individuals(there), everyone, leader),  # the best stands in empty cells
            archive=state.archives,
            metrics=metrics,
        )

    def _fresh(self, sample: Sampler, key: Array, generation: Array) -> Population:
        parents = jnp.full((self.population_size, 2), NO_PARENT)
        return offspring(sample(key, self.population_size), parents, generation * self.population_size, generation)

    def _breeders(self, state: Illumination) -> list[Elites]:
        return [elites for name, elites in state.archives.items() if self.parents in (EVERY, name)]

    def _breeding(self, state: Illumination) -> Array:
        """Whether there is a parent, of each archive that breeds."""
        return jnp.stack([elites.filled.any() for elites in self._breeders(state)])

    def _children(self, key: Array, state: Illumination, sample: Sampler) -> Population:
        drawing, choice, mixing, noise = jax.random.split(key, 4)
        breeders = self._breeders(state)
        everyone = reduce(concatenate, (elites.members for elites in breeders))
        first, second = _drawn(drawing, breeders, 2 * self.population_size).reshape(2, -1)
        parents = take(everyone, first), take(everyone, second)
        genes, ids = cross_or_mutate(
            (choice, mixing, noise), *parents, self.crossover_rate, self.sigma, sample, self.resampling_rate
        )
        return offspring(genes, ids, state.generation * self.population_size, state.generation)


def _columns(column: dict[str, Array], archive: Any) -> Array:
    """The descriptors of one archive, (size, axes)."""
    return jnp.stack([column[axis.measure] for axis in archive.axes], -1)


def _drawn(key: Array, archives: list[Elites], count: int) -> Array:
    """Places of elites in all archives in a row: any archive with equal chances, then any of its elites, (count,)."""
    which, who = jax.random.split(key)
    share = flat_draw(jax.random.uniform, who, (count,))
    candidates, offset = [], 0
    for elites in archives:
        filled = elites.filled
        in_order = jnp.argsort(~filled, stable=True)  # filled cells first
        number = jnp.minimum((share * filled.sum()).astype(jnp.int32), jnp.maximum(filled.sum() - 1, 0))
        candidates.append(offset + in_order[number])
        offset += filled.size
    drawn = jax.random.randint(which, (count,), 0, len(archives))
    return jnp.take_along_axis(jnp.stack(candidates), drawn[None], 0)[0]
