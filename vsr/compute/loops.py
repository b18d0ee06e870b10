"""Loops that are quick to trace: what happens in a turn is traced once, and batched once.

To batch a loop, JAX must know which of the carried values differ between worlds. It finds out by batching a turn again
and again, until no more of them do; inside another loop each of these rounds is made again and again, too. Here it is
read off the equations of a turn beforehand (`ready`), and the first round is the last. The numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Jaxpr, Primitive, Var
from jax.interpreters import ad, batching, mlir

from vsr.compute.gradients import gradients_needed

Carry = TypeVar("Carry")
Sources = frozenset[int]
"""Inputs of a function, by number, of which a value is made."""


def ready(turn: Callable[[Carry], Any], start: Carry) -> tuple[Callable[[Carry], Any], Carry]:
    """A turn of a loop, to be traced once for all its uses, and the start with the batch axes that it will have.

    turn: from what is carried to the same after a turn, or to a tuple with that in the first place.
    """
    if gradients_needed():
        return turn, start
    turn = jax.jit(turn)
    closed = jax.make_jaxpr(turn)(start)
    carried, structure = jax.tree.flatten(start)
    carried = [jnp.asarray(leaf) for leaf in carried]
    constants, size = list(closed.consts), len(carried)
    sources = _sources(closed.jaxpr, [frozenset((size + number,)) for number in range(len(constants))], size)
    return turn, structure.unflatten(_alike.bind(*carried, *constants, sources=tuple(sources)))


def scan_counts(parameters: Any) -> tuple[int, int]:
    """Constants and carried values of a `scan` equation, by its parameters."""
    if "num_consts" in parameters:
        return parameters["num_consts"], parameters["num_carry"]
    constants, carried = [len(group) for group in parameters["ft_in"].unpack()][:2]  # jax 0.12
    return constants, carried


def _sources(jaxpr: Jaxpr, constants: Sequence[Sources], size: int) -> list[Sources]:
    """Of carried values after any number of turns, by what a turn computes; inputs are they and then constants."""
    found = [frozenset((number,)) for number in range(size)]
    while True:
        after = _outputs(jaxpr, constants, found)[:size]
        grown = [one | other for one, other in zip(found, after, strict=True)]
        if grown == found:
            return found
        found = grown


def _outputs(jaxpr: Jaxpr, constants: Sequence[Sources], inputs: Sequence[Sources]) -> list[Sources]:
    """Of what a function gives, by those of what it takes."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *inputs), strict=True))

    def of(atom: Any) -> Sources:
        return known.get(atom, frozenset()) if isinstance(atom, Var) else frozenset()

    for equation in jaxpr.eqns:
        given = [of(atom) for atom in equation.invars]
        known.update(zip(equation.outvars, _of_equation(equation, given), strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _of_equation(equation: Any, given: list[Sources]) -> list[Sources]:
    """Of its results. Calls and loops are looked into; any result of whatever else is made of all operands."""
    name, parameters = equation.primitive.name, equation.params
    inner = parameters.get("jaxpr")
    if name == "jit":
        return _outputs(inner.jaxpr, [frozenset()] * len(inner.consts), given)
    if name == "scan":
        constants, size = scan_counts(parameters)
        rest = [*given[:constants], *given[constants + size :]]
        return _after_turns(inner, lambda now: [*rest[:constants], *now, *rest[constants:]], given[constants:][:size])
    if name == "while":
        first = parameters["cond_nconsts"]
        second = first + parameters["body_nconsts"]
        after = _after_turns(parameters["body_jaxpr"], lambda now: [*given[first:second], *now], given[second:])
        condition = parameters["cond_jaxpr"]
        (goes_on,) = _outputs(condition.jaxpr, [frozenset()] * len(condition.consts), [*given[:first], *after])
        return [one | goes_on for one in after] if goes_on else after
    everything = frozenset().union(*given)
    return [everything] * len(equation.outvars)


def _after_turns(closed: Any, inputs: Callable[[list[Sources]], list[Sources]], start: list[Sources]) -> list[Sources]:
    """Of what a loop carries, and of what else it gives; inputs: of a turn, by those of what is carried."""
    now = list(start)
    while True:
        after = _outputs(closed.jaxpr, [frozenset()] * len(closed.consts), inputs(now))
        grown = [one | other for one, other in zip(now, after[: len(now)], strict=True)]
        if grown == now:
            return [*now, *after[len(now) :]]
        now = grown


_alike = Primitive("alike")
"""The first operands, as many as there are `sources`; each has a batch axis if one of its sources has."""
_alike.multiple_results = True


@_alike.def_impl
def _first(*operands: Any, sources: tuple[Sources, ...]) -> list[Any]:
    return list(operands[: len(sources)])


@_alike.def_abstract_eval
def _(*operands: Any, sources: tuple[Sources, ...]) -> list[Any]:
    return list(operands[: len(sources)])


def _batched(operands: Sequence[Array], axes: Sequence[Any], *, sources: tuple[Sources, ...]) -> tuple[Any, Any]:
    size = next(value.shape[axis] for value, axis in zip(operands, axes, strict=True) if axis is not None)
    many = [any(axes[number] is not None for number in group) for group in sources]

    def at_front(value: Array, axis: int | None) -> Array:
        return jnp.broadcast_to(value, (size, *value.shape)) if axis is None else jnp.moveaxis(value, axis, 0)

    first = [at_front(value, axis) if own else value for value, axis, own in zip(operands, axes, many, strict=False)]
    after = _alike.bind(*first, *operands[len(sources) :], sources=sources)
    return after, [0 if own else None for own in many]


def _jvp(primals: Any, tangents: Any, *, sources: tuple[Sources, ...]) -> tuple[Any, Any]:
    return _alike.bind(*primals, sources=sources), list(tangents[: len(sources)])


batching.primitive_batchers[_alike] = _batched
ad.primitive_jvps[_alike] = _jvp
mlir.register_lowering(_alike, lambda _, *operands, sources: operands[: len(sources)])
