"""Single instructions of NVIDIA GPUs for the lanes of a kernel, and memory shared by the lanes of a program.

The compiler takes every instruction for a pure function of its operands and may move it. Where the order matters, as
with memory, a *token* (a number that means nothing) goes from one instruction to the next and so fixes the order.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
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
