"""Variation: plain functions from a key and parents' genes to children's genes.

Genes are pytrees of arrays; all leaves of one individual together are its genes. `children` is always the leading axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def gaussian_mutation(key: Array, parents: Any, sigma: float) -> Any:
    """Add independent normal noise of standard deviation sigma to every gene."""

    def mutate(key: Array, leaf: Array) -> Array:
        return leaf + sigma * flat_draw(partial(jax.random.normal, dtype=leaf.dtype), key, leaf.shape)

    return _per_leaf(key, parents, mutate)


def extended_segment_crossover(key: Array, first: Any, second: Any, low: float = -1.0, high: float = 2.0) -> Any:
    """first + α (second - first), α uniform in [low, high[ for every gene on its own."""
    leaves, tree = jax.tree.flatten(first)
    keys = jax.random.split(key, len(leaves))

    def mix(key: Array, a: Array, b: Array) -> Array:
        alpha = flat_draw(partial(jax.random.uniform, dtype=a.dtype, minval=low, maxval=high), key, a.shape)
        return a + alpha * (b - a)

    return jax.tree.unflatten(tree, list(map(mix, keys, leaves, jax.tree.leaves(second))))


def redrawn(key: Array, parents: Any, fresh: Any, rate: float) -> Any:
    """Parents' genes, each with a chance that of a fresh individual instead."""
    leaves, tree = jax.tree.flatten(parents)
    keys = jax.random.split(key, len(leaves))

    def choose(key: Array, own: Array, new: Array) -> Array:
        return jnp.where(flat_draw(jax.random.uniform, key, own.shape) < rate, new, own)

    return jax.tree.unflatten(tree, list(map(choose, keys, leaves, jax.tree.leaves(fresh))))


def flat_draw(draw: Callable[[Array, tuple[int]], Array], key: Array, shape: tuple[int, ...]) -> Array:
    """Random numbers of a shape, drawn in a row: the generator compiles more than twice as fast for one axis."""
    return draw(key, (math.prod(shape),)).reshape(shape)


def _per_leaf(key: Array, genes: Any, change: Callable[[Array, Array], Array]) -> Any:
    leaves, tree = jax.tree.flatten(genes)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(tree, [change(k, leaf) for k, leaf in zip(keys, leaves, strict=True)])


def fingerprints(genes: Any) -> Array:
    """Two 32-bit hashes of each individual's genes, (size, 2): equal for equal genes, else different but by a chance of
    one in 2**64."""
    words = []
    for leaf in jax.tree.leaves(genes):
        leaf = jnp.where(leaf == 0, jnp.zeros((), leaf.dtype), leaf)  # -0 and 0 are equal
        bits = jax.lax.bitcast_convert_type(leaf, jnp.uint32)  # a number of 8 bytes becomes two words
        words.append(bits.reshape(leaf.shape[0], math.prod(bits.shape[1:])))
    flat = jnp.concatenate(words, axis=1)
    place = jnp.arange(flat.shape[1], dtype=jnp.uint32)
    return jnp.stack([_mix(flat, place, seed).sum(1, dtype=jnp.uint32) for seed in (0x9E3779B9, 0x85EBCA6B)], 1)


def _mix(words: Array, place: Array, seed: int) -> Array:
    """A different scrambling of each word for each place, so that permuted genes have other sums."""
    x = words ^ (place * jnp.uint32(0xC2B2AE35) + jnp.uint32(seed))
    for multiplier in (0x7FEB352D, 0x846CA68B):
        x = (x ^ (x >> 16)) * jnp.uint32(multiplier)
    return x ^ (x >> 15)


def duplicates(children: Any, others: Any) -> Array:
    """True for children whose genes another population or an earlier child already has, (children,)."""
    ours, theirs = fingerprints(children), fingerprints(others)
    among_others = (ours[:, None] == theirs[None]).all(-1).any(1)
    same = (ours[:, None] == ours[None]).all(-1)
    earlier = jnp.tril(same, k=-1).any(1)
    return among_others | earlier


def tournament(key: Array, fitness: Array, size: int, count: int) -> Array:
    """Places of the winners of `count` tournaments among `size` individuals drawn with replacement, (count,).

    The first drawn wins among equals.
    """
    drawn = flat_draw(partial(jax.random.randint, minval=0, maxval=fitness.shape[0]), key, (count, size))
    return jnp.take_along_axis(drawn, jnp.argmax(fitness[drawn], axis=1)[:, None], axis=1)[:, 0]


def truncation(fitness: Array, count: int) -> Array:
    """Places of the fittest, best first; among equals the earlier place comes first, (count,)."""
    return jnp.argsort(-fitness, stable=True)[:count]
