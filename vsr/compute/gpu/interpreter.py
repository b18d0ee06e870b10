"""Kernels (vsr.compute.gpu.language) in plain JAX: one program after the other, all lanes at once.

What nobody wrote is not a number, and so is what lies outside of a table; writing there does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from vsr.compute.gpu.language import Kernel, Table, add_p, anyone_p, load_p, program_p, rank_p, store_p
from vsr.compute.loops import scan_counts

Memory = tuple[Array, ...]


def interpret_kernel(kernel: Kernel, programs: int, *inputs: Array) -> list[Array]:
    """What the kernel writes."""
    first, last = kernel.inputs, kernel.inputs + kernel.results
    shared_with = {result: number for number, result in kernel.aliases}
    results = [
        inputs[shared_with[number]] if number in shared_with else _nothing(table)
        for number, table in enumerate(kernel.tables[first:last])
    ]
    same = {number: first + result for number, result in kernel.aliases}

    def one(program: Array, results: list[Array]) -> list[Array]:
        memory = (*inputs, *results, *map(_nothing, kernel.scratch))
        interpreter = _Interpreter(program.astype(jnp.int32), same)
        _, memory = interpreter.evaluate(kernel.program.jaxpr, kernel.program.consts, [], memory)
        return list(memory[first:last])

    return jax.lax.fori_loop(0, programs, one, results)


def _nothing(table: Table) -> Array:
    return jnp.full(table.shape, jnp.nan if jnp.issubdtype(table.dtype, jnp.floating) else 0, table.dtype)


class _Interpreter:
    def __init__(self, program: Array, same: dict[int, int]) -> None:
        """same: from tables to those that have their memory."""
        self.program, self.same = program, same

    def evaluate(
        self, jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any], memory: Memory
    ) -> tuple[list[Any], Memory]:
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            results, memory = self.equation(equation, [value(atom) for atom in equation.invars], memory)
            known.update(zip(equation.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars], memory

    def equation(self, equation: Any, values: list[Any], memory: Memory) -> tuple[list[Any], Memory]:
        primitive, parameters = equation.primitive, equation.params
        if primitive is program_p:
            return [self.program], memory
        if primitive is anyone_p:
            return [values[0].any()], memory
        if primitive is rank_p:
            mask = values[0].astype(jnp.int32)
            return [jnp.cumsum(mask) - mask, jnp.sum(mask)], memory
        if primitive is load_p:
            return [self.load(parameters["table"], values, memory)], memory
        if primitive in (store_p, add_p):
            return [], self.store(parameters["table"], values, memory, primitive is add_p)
        if primitive.name in _CONTROL and touches_memory(equation):
            return _CONTROL[primitive.name](self, parameters, values, memory)
        inner = called(equation)
        if inner is not None:
            return self.closed(inner, values, memory)
        outcome = primitive.bind(*values, **parameters)
        return list(outcome) if primitive.multiple_results else [outcome], memory

    def closed(self, closed: ClosedJaxpr, values: Sequence[Any], memory: Memory) -> tuple[list[Any], Memory]:
        return self.evaluate(closed.jaxpr, closed.consts, values, memory)

    def load(self, table: Table, values: list[Any], memory: Memory) -> Any:
        indices, masked = tuple(values[: table.ndim]), values[table.ndim :]
        whole = memory[self.place(table)].reshape(table.shape)
        found = whole.at[indices].get(mode="fill", wrap_negative_indices=False)
        return jnp.where(masked[0], found, masked[1]) if masked else found

    def store(self, table: Table, values: list[Any], memory: Memory, to_sum: bool) -> Memory:
        *indices, value = values[: table.ndim + 1]
        for mask in values[table.ndim + 1 :]:
            indices[0] = jnp.where(mask, indices[0], -1)
        where = self.place(table)
        entries = memory[where].reshape(table.shape).at[tuple(indices)]
        change = entries.add if to_sum else entries.set
        after = change(value, mode="drop", wrap_negative_indices=False).reshape(memory[where].shape)
        return *memory[:where], after, *memory[where + 1 :]

    def place(self, table: Table) -> int:
        return self.same.get(table.number, table.number)

    def scan(self, parameters: Any, values: list[Any], memory: Memory) -> tuple[list[Any], Memory]:
        constants, carried = split_scan(parameters, values)

        def again(_: Any, state: Any) -> Any:
            return self.closed(parameters["jaxpr"], [*constants, *state[0]], state[1])

        after, memory = jax.lax.fori_loop(0, parameters["length"], again, (list(carried), memory))
        return after, memory

    def repeat(self, parameters: Any, values: list[Any], memory: Memory) -> tuple[list[Any], Memory]:
        first, second = parameters["cond_nconsts"], parameters["cond_nconsts"] + parameters["body_nconsts"]

        def goes_on(state: Any) -> Any:
            return self.closed(parameters["cond_jaxpr"], [*values[:first], *state[0]], state[1])[0][0]

        def again(state: Any) -> Any:
            return self.closed(parameters["body_jaxpr"], [*values[first:second], *state[0]], state[1])

        after, memory = jax.lax.while_loop(goes_on, again, (values[second:], memory))
        return after, memory

    def choose(self, parameters: Any, values: list[Any], memory: Memory) -> tuple[list[Any], Memory]:
        index, *operands = values
        branches = [
            lambda memory, closed=closed: self.closed(closed, operands, memory) for closed in parameters["branches"]
        ]
        return jax.lax.switch(index.astype(jnp.int32), branches, memory)


_ACCESS = {load_p: "r", store_p: "w", add_p: "a"}
_CONTROL = {"scan": _Interpreter.scan, "while": _Interpreter.repeat, "cond": _Interpreter.choose}


def split_scan(parameters: Any, values: list[Any]) -> tuple[list[Any], list[Any]]:
    """Constants and carried values of a loop that goes through no arrays."""
    constants, carried = scan_counts(parameters)
    assert constants + carried == len(values), "a loop in a kernel cannot go through arrays"
    return values[:constants], values[constants:]


def called(equation: Any) -> ClosedJaxpr | None:
    """What a call of a function computes."""
    inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
    if equation.primitive.name in _CONTROL or inner is None:
        return None
    return inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())


def touches_memory(equation: Any) -> bool:
    """Whether anything in a loop or condition reads or writes memory, or is of this language in another way."""
    return any(
        inner.primitive in (load_p, store_p, add_p, program_p, anyone_p, rank_p) or touches_memory(inner)
        for part in _parts(equation)
        for inner in part.eqns
    )


def accesses(jaxpr: Jaxpr) -> Iterator[tuple[Table, str]]:
    """Tables that are read (r), written (w) and added to (a) anywhere in it."""
    for equation in jaxpr.eqns:
        if equation.primitive in _ACCESS:
            yield equation.params["table"], _ACCESS[equation.primitive]
        for part in _parts(equation):
            yield from accesses(part)


def lane_sizes(jaxpr: Jaxpr) -> Iterator[int]:
    """Of its arrays of lanes: those that count them."""
    for equation in jaxpr.eqns:
        aval: Any = equation.outvars[0].aval if equation.primitive.name == "iota" else None
        if aval is not None and len(aval.shape) == 1:
            yield aval.shape[0]
        for part in _parts(equation):
            yield from lane_sizes(part)


def _parts(equation: Any) -> list[Jaxpr]:
    inner = called(equation)
    parts = [inner] if inner else [equation.params.get(name) for name in ("jaxpr", "cond_jaxpr", "body_jaxpr")]
    return [part.jaxpr for part in (*parts, *equation.params.get("branches", ())) if part is not None]
