"""Loops that know their batch axes beforehand: the same numbers, and no axis that is not needed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap

from vsr.compute.loops import ready
from vsr.compute.xla import repeat


def carried(seed):
    """A counter, what depends on the seed at once, and what does so after one and after two turns."""
    return jnp.int32(0), seed, jnp.float32(0), jnp.float32(1)


def turn_of(factor):
    def turn(now):
        count, first, second, third = now

        def again(number, one):  # a loop in the loop, whose condition depends on a count
            return one + 0.25 * number * second

        third = jax.lax.fori_loop(0, count % 3, again, third)
        second = jax.lax.fori_loop(0, 2, lambda _, one: 0.5 * one + factor * first, second)
        return count + 1, 0.9 * first, second, third

    return turn


def looped(seed, factor=1.0, prepare=ready):
    turn, start = prepare(turn_of(factor), carried(seed))
    return jax.lax.fori_loop(0, 5, lambda _, now: turn(now), start)


def test_a_loop_gives_the_same_numbers_alone_batched_and_differentiated():
    seeds = jnp.array([0.5, -2.0, 3.0])
    plain = [looped(seed, prepare=lambda turn, start: (turn, start)) for seed in seeds]
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *plain)
    jax.tree.map(np.testing.assert_array_equal, jax.vmap(looped)(seeds), expected)
    jax.tree.map(np.testing.assert_array_equal, jax.lax.map(looped, seeds), expected)
    slope = jax.jvp(lambda seed: looped(seed)[2], (seeds[0],), (jnp.float32(1),))[1]
    assert slope == pytest.approx(float(expected[2][0] / seeds[0]), rel=1e-5)  # linear in the seed


def shapes_of_loop(axes, *arguments):
    """Of what the batched loop carries besides the number of the turn."""
    equations = jax.make_jaxpr(jax.vmap(looped, axes))(*arguments).eqns
    (loop,) = [equation for equation in equations if equation.primitive.name == "scan"]
    return [var.aval.shape for var in loop.outvars[1:]]


def test_only_what_differs_gets_an_axis():
    assert shapes_of_loop(0, jnp.ones(3)) == [(), (3,), (3,), (3,)]
    assert shapes_of_loop((None, 0), jnp.float32(1), jnp.ones(3)) == [(), (), (3,), (3,)]  # by a constant of the turn


@pytest.mark.parametrize(("prepare", "rounds"), [(ready, 1), (lambda turn, start: (turn, start), 4)])
def test_a_turn_is_batched_once(prepare, rounds):
    """Unless made ready, it is batched until what differs has got from one carried value to the last, and once more."""
    batched = []

    @custom_vmap
    def one(value):
        return value

    @one.def_vmap
    def rule(axis_size, in_batched, value):
        batched.append(axis_size)
        return value, in_batched[0]

    def looped(seed):
        turn, start = prepare(lambda now: (one(seed), now[0], now[1]), (jnp.float32(0),) * 3)
        return jax.lax.fori_loop(0, 5, lambda _, now: turn(now), start)

    jax.make_jaxpr(jax.vmap(looped))(jnp.ones(3))
    assert len(batched) == rounds


def test_launches_in_one_turn_are_traced_once():
    traced = []

    def one(now):
        traced.append(None)
        return now * 0.5 + 1

    turn, start = ready(one, jnp.float32(3))
    after = jax.jit(lambda start: repeat(lambda _, now: turn(now), 0, 40, start))(start)
    assert float(after) == pytest.approx(2, rel=1e-6)
    assert len(traced) == 1
