"""Arithmetic as GPUs do it best: a product and a sum in one instruction, and division by way of the reciprocal.

Pallas asks for every product and every sum to be rounded on its own, which costs twice the instructions. `with_fma`
takes a function of lanes, looks at what it computes, and computes the same with fused multiply-adds (rounded once, so
more precisely) and with the hardware's reciprocal (right to about one unit in the last place).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

from vsr.compute.gpu.ptx import instruction, inverse_root, negative, reciprocal, root


class _Term(NamedTuple):
    """A product, or a number to be negated, that nobody has asked for yet but to add something to it."""

    one: Any
    other: Any
    """None if it is not a product"""
    negative: bool


def with_fma(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of float32 lanes, with products and sums with_fma. It must be pure and free of loops."""

    def work(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        closed, shapes = jax.make_jaxpr(
            lambda *flat: function(*jax.tree.unflatten(structure, flat)), return_shape=True
        )(*leaves)
        results = _evaluate(closed.jaxpr, closed.consts, leaves)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return work


def _evaluate(jaxpr: Jaxpr, constants: Any, arguments: Any) -> list[Any]:
    """Compute what a jaxpr says, keeping terms back until it is known what becomes of them."""
    known: dict[Var, Any] = {}
    known.update(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def term(atom: Any) -> _Term:
        found = atom.val if isinstance(atom, Literal) else known[atom]
        return found if isinstance(found, _Term) else _Term(found, None, False)

    def value(atom: Any) -> Any:
        if isinstance(atom, Literal):
            return atom.val
        if isinstance(known[atom], _Term):
            known[atom] = _computed(known[atom], atom.aval.shape)
        return known[atom]

    for equation in jaxpr.eqns:
        name, atoms, (result, *_) = equation.primitive.name, equation.invars, equation.outvars
        kind: Any = result.aval
        inner, shape = _called(equation), kind.shape
        if inner is not None:
            outcomes = _evaluate(inner.jaxpr, inner.consts, [value(atom) for atom in atoms])
            known.update(zip(equation.outvars, outcomes, strict=True))
        elif shape != () and kind.dtype == jnp.float32 and name in _RULES and _applies(equation):
            terms = [term(atom) for atom in atoms]
            if name not in ("add", "sub"):  # which alone make use of a product
                terms = [
                    _Term(value(atom), None, False) if term(atom).other is not None else term(atom) for atom in atoms
                ]
            known[result] = _RULES[name](shape, *terms)
        else:
            outcome = equation.primitive.bind(*map(value, atoms), **equation.params)
            outcomes = outcome if equation.primitive.multiple_results else [outcome]
            known.update(zip(equation.outvars, outcomes, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _called(equation: Any) -> ClosedJaxpr | None:
    """What a call of a compiled function would compute."""
    inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
    return inner if isinstance(inner, ClosedJaxpr) and equation.primitive.name != "cond" else None


def _applies(equation: Any) -> bool:
    return equation.params.get("y", 2) == 2  # of powers, only squares


def _multiply(_: tuple[int, ...], left: _Term, right: _Term) -> _Term:
    return _Term(left.one, right.one, left.negative != right.negative)


def _square(_: tuple[int, ...], base: _Term, *__: Any) -> _Term:
    return _Term(base.one, base.one, False)


def _divide(shape: tuple[int, ...], left: _Term, right: _Term) -> _Term:
    return _Term(left.one, reciprocal(_lanes(right.one, shape)), left.negative != right.negative)


def _inverse_root(shape: tuple[int, ...], term: _Term) -> Array:
    return inverse_root(_factor(term, shape))


def _root(shape: tuple[int, ...], term: _Term) -> Array:
    return root(_factor(term, shape))


def _factor(term: _Term, shape: tuple[int, ...]) -> Array:
    """What is not a product, as lanes."""
    lanes = _lanes(term.one, shape)
    return negative(lanes) if term.negative else lanes


def _negate(_: tuple[int, ...], term: _Term) -> _Term:
    return _Term(term.one, None, not term.negative)


def _add(shape: tuple[int, ...], left: _Term, right: _Term) -> Any:
    if left.other is None and right.other is not None:
        left, right = right, left
    if left.other is not None:
        rest = right if right.other is None else _Term(right.one * right.other, None, right.negative)
        return _multiply_add(left, rest, shape)
    if left.negative:
        left, right = right, left
    if left.negative:
        return _Term(left.one + right.one, None, True)
    return left.one - right.one if right.negative else left.one + right.one


def _subtract(shape: tuple[int, ...], left: _Term, right: _Term) -> Any:
    return _add(shape, left, right._replace(negative=not right.negative))


_RULES: dict[str, Callable[..., Any]] = {
    "mul": _multiply,
    "square": _square,
    "integer_pow": _square,
    "div": _divide,
    "rsqrt": _inverse_root,
    "sqrt": _root,
    "neg": _negate,
    "add": _add,
    "sub": _subtract,
}


def _computed(term: _Term, shape: tuple[int, ...]) -> Array:
    if term.other is None:
        return _factor(term, shape)
    if not term.negative:
        return term.one * term.other
    text = "{ .reg .f32 n; neg.f32 n, $1; mul.rn.f32 $0, n, $2; }"
    return instruction(text, jnp.float32, _lanes(term.one, shape), _lanes(term.other, shape))


def _multiply_add(product: _Term, rest: _Term, shape: tuple[int, ...]) -> Array:
    one, addend, before = "$1", "$3", ""
    if product.negative:
        one, before = "n", before + "neg.f32 n, $1; "
    if rest.negative:
        addend, before = "m", before + "neg.f32 m, $3; "
    text = f"{{ .reg .f32 n, m; {before}fma.rn.f32 $0, {one}, $2, {addend}; }}"
    return instruction(text, jnp.float32, *(_lanes(part, shape) for part in (product.one, product.other, rest.one)))


def _lanes(value: Any, shape: tuple[int, ...]) -> Array:
    return jnp.broadcast_to(jnp.asarray(value, jnp.float32), shape)
