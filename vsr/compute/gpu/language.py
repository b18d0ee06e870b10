"""The language of the GPU kernels: JAX functions of lanes, with memory that lanes read and write.

A kernel is a Python function of `Table`s. It runs once for each *program*, in as many lanes as it asks for. An array in
it has an entry in each lane along its last axis, and may have a few axes before; a number is the same in all lanes.
Everything of JAX that works entry by entry may be used, with loops, conditions and reductions; memory is read by `load`
and written by `store`, in the order in which the function says so. Scratch tables belong to a program, hold nothing at
first, and are how lanes exchange what they found: they wait for each other where it is needed, and may `add` to the
same entries. Of all other memory a lane must not read what another lane writes; and programs do not see each other.

On an NVIDIA GPU the function becomes CUDA C (vsr.compute.gpu.cuda), which NVRTC compiles in a fraction of a second.
Elsewhere, or on demand, plain JAX interprets it (vsr.compute.gpu.interpreter).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax._src import effects  # no public name has what says that an equation must stay, though nobody uses its result
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import batching, mlir

from vsr.compute.xla import tracing_a_kernel

WARP = 32
"""Lanes that go together; how many a program has is a multiple of it."""
PROCESSES = "VSR_GPU_PROCESSES"
"""Environment variable: how many processes like this one share the GPU. Each then leaves room for the others."""


class _Memory(effects.Effect):
    """An equation writes."""


_MEMORY = _Memory()
effects.control_flow_allowed_effects.add_type(_Memory)


@dataclass(frozen=True)
class Place:
    """Entries of a table, one or one in each lane."""

    table: Table
    indices: tuple[Any, ...]


@dataclass(frozen=True)
class _At:
    table: Table

    def __getitem__(self, indices: Any) -> Place:
        return Place(self.table, indices if isinstance(indices, tuple) else (indices,))


@dataclass(frozen=True)
class Table:
    """Memory of the device, or of one program."""

    number: int
    """inputs first, then results, then scratch"""
    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def flat(self) -> Table:
        """The same memory with one axis."""
        return replace(self, shape=(size_of(self),))

    @property
    def at(self) -> _At:
        return _At(self)

    def __getitem__(self, indices: Any) -> Array:
        return load(self.at[indices])

    def __setitem__(self, indices: Any, value: Any) -> None:
        store(self.at[indices], value)


load_p = Primitive("kernel_load")
store_p = Primitive("kernel_store")
add_p = Primitive("kernel_add")
program_p = Primitive("kernel_program")
anyone_p = Primitive("kernel_anyone")
rank_p = Primitive("kernel_rank")
store_p.multiple_results = add_p.multiple_results = rank_p.multiple_results = True


def load(place: Place, mask: Any = None, other: Any = 0) -> Array:
    """Entries of a table; other: what a lane gets for which the mask does not hold."""
    table, indices = place.table, _indices(place)
    masked = () if mask is None else (mask, jnp.asarray(other, table.dtype))
    return load_p.bind(*indices, *masked, table=table)


def store(place: Place, value: Any, mask: Any = None) -> None:
    """Write entries of a table, where the mask holds. Of lanes that write the same entry any may win."""
    table, masked = place.table, () if mask is None else (mask,)
    store_p.bind(*_indices(place), jnp.asarray(value, table.dtype), *masked, table=table)


def add(place: Place, value: Any, mask: Any) -> None:
    """Add whole numbers to entries of a scratch table, where the mask holds: in any order, so that the sum is the same.

    An array of lanes must have an entry for each of them: one that is shorter repeats its last entry, which then counts
    several times.
    """
    table = place.table
    assert np.issubdtype(table.dtype, np.integer), f"sums of {table.dtype} depend on the order"
    add_p.bind(*_indices(place), jnp.asarray(value, table.dtype), mask, table=table)


def program_id() -> Array:
    """Which of the programs this is."""
    return program_p.bind()


def anyone(mask: Array) -> Array:
    """Whether a mask holds in any of the lanes that go together; where kernels are interpreted, in any lane at all.

    For conditions that spare lanes what is of no use to them. Lanes must not wait for each other in such a condition.
    """
    return anyone_p.bind(mask)


def rank(mask: Array) -> tuple[Array, Array]:
    """For every entry of a mask how often it holds in the entries before, and how often it holds in all.

    For lists: entries for which the mask holds get the numbers 0, 1, 2, ...
    """
    before, total = rank_p.bind(mask)
    return before, total


def power_of_two(least: int) -> int:
    """The first that is not below a number."""
    return 1 << (max(1, least) - 1).bit_length()


def _indices(place: Place) -> list[Any]:
    if len(place.indices) != place.table.ndim:
        raise TypeError(f"{len(place.indices)} indices for a table of {place.table.ndim} axes")
    return [np.int32(index) if isinstance(index, int) else index for index in place.indices]


@load_p.def_abstract_eval
def _(*operands: Any, table: Table) -> ShapedArray:
    return ShapedArray(np.broadcast_shapes(*(operand.shape for operand in operands)), table.dtype)


@store_p.def_effectful_abstract_eval
@add_p.def_effectful_abstract_eval
def _(*_: Any, table: Table) -> tuple[list[Any], set[Any]]:
    return [], {_MEMORY}


@program_p.def_abstract_eval
def _() -> ShapedArray:
    return ShapedArray((), np.dtype(np.int32))


@anyone_p.def_abstract_eval
def _(_: Any) -> ShapedArray:
    return ShapedArray((), np.dtype(bool))


@rank_p.def_abstract_eval
def _(mask: Any) -> list[ShapedArray]:
    return [ShapedArray(mask.shape, np.dtype(np.int32)), ShapedArray((), np.dtype(np.int32))]


@dataclass(frozen=True, eq=False)
class Kernel:
    """What a kernel's text and its interpretation depend on."""

    name: str
    function: Callable[..., None]
    lanes: int
    tables: tuple[Table, ...]
    """of inputs, results and scratch"""
    inputs: int
    results: int
    aliases: tuple[tuple[int, int], ...]
    """inputs and the results that have their memory"""
    resident: int | None = None
    """programs that a multiprocessor shall hold at once if there are enough; None leaves it to the assembler"""

    @property
    def scratch(self) -> tuple[Table, ...]:
        return self.tables[self.inputs + self.results :]

    @cached_property
    def program(self) -> ClosedJaxpr:
        """Traced when somebody asks for it: not for one robot before it is known how many there are."""
        with tracing_a_kernel():
            return jax.make_jaxpr(lambda: self.function(*self.tables) or ())()


def kernel_call(
    function: Callable[..., None],
    *,
    programs: int,
    lanes: int,
    results: Sequence[Any],
    scratch: Sequence[Any] = (),
    aliases: dict[int, int] | None = None,
    resident: int | None = None,
    name: str,
    interpret: bool,
) -> Callable[..., list[Array]]:
    """From arrays to what the kernel writes; `vmap` runs more programs.

    function: of tables of inputs, results and scratch; results, scratch: shapes and types;
    aliases: from inputs to the results that shall have their memory, so that what is not written stays as it was;
    resident: see Kernel.
    """
    assert lanes % WARP == 0, f"a kernel cannot have {lanes} lanes"

    def call(*inputs: Array) -> list[Array]:
        shapes = [(leaf.shape, np.dtype(leaf.dtype)) for leaf in (*inputs, *results, *scratch)]
        tables = tuple(Table(number, tuple(shape), dtype) for number, (shape, dtype) in enumerate(shapes))
        same = tuple((aliases or {}).items())
        kernel = Kernel(name, function, lanes, tables, len(inputs), len(results), same, resident)
        by_all = (0,) * len(inputs)
        return kernel_p.bind(*inputs, kernel=kernel, programs=programs, worlds=None, shared=by_all, interpret=interpret)

    return call


kernel_p = Primitive("kernel")
"""worlds: how many there are, None for one without an axis of worlds; shared: by how many of them in a row an entry of
each input is, 0 for an input without an axis of worlds, the same for all."""
kernel_p.multiple_results = True


@kernel_p.def_impl
def _(*inputs: Any, **parameters: Any) -> Any:
    return jax.jit(partial(kernel_p.bind, **parameters))(*inputs)


@kernel_p.def_abstract_eval
def _(*_: Any, kernel: Kernel, worlds: int | None, **__: Any) -> list[ShapedArray]:
    tables = kernel.tables[kernel.inputs : kernel.inputs + kernel.results]
    return [ShapedArray((*before(worlds), *table.shape), table.dtype) for table in tables]


def before(worlds: int | None) -> tuple[int, ...]:
    """Axes before those of one world."""
    return () if worlds is None else (worlds,)


def _batched(
    inputs: Sequence[Any], axes: Sequence[Any], *, worlds: int | None, shared: tuple[int, ...], **parameters: Any
) -> tuple[Any, Any]:
    """All worlds of all batches are one axis; what is the same in all of them, or in one batch, is not repeated."""
    size = next(value.shape[axis] for value, axis in zip(inputs, axes, strict=True) if axis is not None)
    one = worlds or 1

    def merged(value: Array, axis: int | None, by: int) -> tuple[Array, int]:
        if axis is None and by == 0:
            return value, 0
        value = jnp.broadcast_to(value, (size, *value.shape)) if axis is None else jnp.moveaxis(value, axis, 0)
        return (value.reshape(-1, *value.shape[2:]), by) if by else (value, one)

    values, flags = zip(*(merged(*given) for given in zip(inputs, axes, shared, strict=True)), strict=True)
    after = kernel_p.bind(*values, worlds=size * one, shared=flags, **parameters)
    return [value.reshape(size, *before(worlds), *value.shape[1:]) for value in after], [0] * len(after)


batching.primitive_batchers[kernel_p] = _batched


def _interpreted(*inputs: Any, kernel: Kernel, programs: int, worlds: int | None, shared: Any, interpret: bool) -> Any:
    from vsr.compute.gpu.interpreter import interpret_kernel

    run = partial(interpret_kernel, kernel, programs)
    if worlds is None:
        return run(*inputs)
    inputs = tuple(jnp.repeat(value, by, 0) if by > 1 else value for value, by in zip(inputs, shared, strict=True))
    return jax.vmap(run, [0 if by else None for by in shared])(*inputs)


def _launched(*inputs: Any, interpret: bool, **parameters: Any) -> Any:
    if interpret:
        return _interpreted(*inputs, interpret=interpret, **parameters)
    from vsr.compute.gpu.launch import launch

    return launch(*inputs, **parameters)


mlir.register_lowering(kernel_p, mlir.lower_fun(_interpreted, multiple_results=True))
mlir.register_lowering(kernel_p, mlir.lower_fun(_launched, multiple_results=True), platform="cuda")


def size_of(table: Table) -> int:
    """Its entries."""
    return math.prod(table.shape)
