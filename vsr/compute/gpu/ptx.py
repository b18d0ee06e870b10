"""Single instructions of NVIDIA GPUs for the lanes of a kernel, and memory shared by the lanes of a program.

The compiler takes every instruction for a pure function of its operands and may move it. Where the order matters, as
with memory, a *token* (a number that means nothing) goes from one instruction to the next and so fixes the order.

Lanes of a program exchange floats in fields of slots. `SharedMemory` is the multiprocessor's own; `GlobalMemory` is the
device's, for programs that need more than there is and for the interpreter. Both give and take tokens, which the latter
does not need.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental.pallas import triton

WARP = 32
"""Lanes that go together."""
_KINDS = {jnp.dtype(jnp.float32): "f", jnp.dtype(jnp.int32): "r"}


def instruction(text: str, result: jnp.dtype | type, *arguments: Array) -> Array:
    """Run an instruction in every lane; $0 is its result, $1, $2, ... its arguments, all of one shape."""
    kinds = [_KINDS[jnp.dtype(argument.dtype)] for argument in arguments]
    (value,) = triton.elementwise_inline_asm(
        text,
        args=list(arguments),
        constraints=",".join(["=" + _KINDS[jnp.dtype(result)], *kinds]),
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(arguments[0].shape, result)],
    )
    return value


def reciprocal(values: Array) -> Array:
    """1 / values."""
    return instruction("rcp.approx.ftz.f32 $0, $1;", jnp.float32, values)


def inverse_root(values: Array) -> Array:
    """1 / sqrt(values)."""
    return instruction("rsqrt.approx.ftz.f32 $0, $1;", jnp.float32, values)


def root(values: Array) -> Array:
    """sqrt(values)."""
    return instruction("sqrt.approx.ftz.f32 $0, $1;", jnp.float32, values)


def negative(values: Array) -> Array:
    """-values, at no cost where the next instruction can take its operand negated."""
    return instruction("neg.f32 $0, $1;", jnp.float32, values)


def shared_memory(size: int, lanes: Array) -> Array:
    """Address of a number of bytes that all lanes of the program share, in every lane."""
    text = f"{{ .shared .align 16 .b8 memory[{size}]; mov.u32 $0, memory; }}"
    return instruction(text, jnp.int32, lanes)


def store_shared(address: Array, offset: int, value: Array, token: Array) -> Array:
    """Write a float; returns the next token."""
    return instruction(f"st.shared.f32 [$1+{offset}], $2; mov.u32 $0, $3;", jnp.int32, address, value, token)


def load_shared(address: Array, offset: int, token: Array) -> Array:
    """Read a float."""
    return instruction(f"ld.shared.f32 $0, [$1+{offset}];", jnp.float32, address, token)


def wait_for_all(token: Array) -> Array:
    """Wait until all lanes of the program are here; returns the next token."""
    wait = "bar.warp.sync 0xffffffff" if token.size == WARP else "bar.sync 0"
    return instruction(f"{wait}; mov.u32 $0, $1;", jnp.int32, token)


SHARED_BYTES = 48 * 1024
"""That a program may ask for."""
FLOAT_BYTES = 4


class SharedMemory:
    """Two tables, of clusters' motion and of forces, in one piece of shared memory."""

    def __init__(self, fields: tuple[int, int], slots: tuple[int, int], lanes: Array) -> None:
        self.slots = slots
        self.begin = 0, FLOAT_BYTES * fields[0] * slots[0]
        self.base = shared_memory(self.begin[1] + FLOAT_BYTES * fields[1] * slots[1], lanes)

    def store(self, table: int, slots: Array, values: Any, token: Array) -> Array:
        address = self._address(slots)
        for field, value in enumerate(values):
            token = store_shared(address, self._offset(table, field), value, token)
        return token

    def load(self, table: int, fields: list[int], slots: Array, token: Array) -> list[Array]:
        address = self._address(slots)
        return [load_shared(address, self._offset(table, field), token) for field in fields]

    def barrier(self, token: Array) -> Array:
        return wait_for_all(token)

    def _address(self, slots: Array) -> Array:
        return self.base + FLOAT_BYTES * slots

    def _offset(self, table: int, field: int) -> int:
        return self.begin[table] + FLOAT_BYTES * field * self.slots[table]


class GlobalMemory:
    """The same in arrays of the device, (programs, fields, slots)."""

    def __init__(self, tables: tuple[Any, Any], program: Array, interpret: bool) -> None:
        self.tables, self.program, self.interpret = tables, program, interpret

    def store(self, table: int, slots: Array, values: Any, token: Array) -> Array:
        for field, value in enumerate(values):
            triton.store(self.tables[table].at[self.program, np.int32(field), slots], value)
        return token

    def load(self, table: int, fields: list[int], slots: Array, token: Array) -> list[Array]:
        return [triton.load(self.tables[table].at[self.program, np.int32(i), slots]) for i in fields]

    def barrier(self, token: Array) -> Array:
        if not self.interpret:  # interpreted, a program runs alone and in order
            triton.debug_barrier()
        return token
