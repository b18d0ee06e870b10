"""Kernels (vsr.compute.gpu.language) launched from within compiled JAX programs, by what JAX's CUDA plugin has."""

from __future__ import annotations

import math
import os
import zlib
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxlib import gpu_triton  # which takes any PTX, not only Triton's

from vsr.compute.gpu.cuda import cuda_text, fits_on_chip
from vsr.compute.gpu.language import PROCESSES, WARP, Kernel, before
from vsr.compute.gpu.nvrtc import ptx

POINTER_ALIGNMENT = 16
MOST_RESIDENT = 8
"""Programs for which registers of a multiprocessor are set aside; where more wait, the assembler finds a balance."""


def compute_capability() -> int:
    """Of the GPU, 90 for 9.0."""
    return int(str(_gpu().compute_capability).replace(".", ""))


def launch(*inputs: Array, kernel: Kernel, programs: int, worlds: int | None, shared: tuple[int, ...]) -> list[Array]:
    """What the kernel writes, of all worlds."""
    count = programs * (worlds or 1)
    tables = kernel.tables[kernel.inputs : kernel.inputs + kernel.results]
    results = [jax.ShapeDtypeStruct((*before(worlds), *table.shape), table.dtype) for table in tables]
    if not fits_on_chip(kernel):
        results += [jax.ShapeDtypeStruct((count, *table.shape), table.dtype) for table in kernel.scratch]
    aliased = {number for number, _ in kernel.aliases} if worlds else set()
    filled = [
        _own(value, by, worlds or 1) if number in aliased else value
        for number, (value, by) in enumerate(zip(inputs, shared, strict=True))
    ]
    shared = tuple(1 if number in aliased else by for number, by in enumerate(shared))
    capability = compute_capability()
    # Few programs may have all registers, and so read ahead.
    resident = math.ceil(count * int(os.environ.get(PROCESSES, "1")) / _gpu().core_count)
    resident = kernel.resident if resident > (kernel.resident or MOST_RESIDENT) else resident
    code = ptx(cuda_text(kernel, programs, shared, resident), capability)
    compiled = gpu_triton.TritonKernel("program", kernel.lanes // WARP, 1, 0, code, "", capability)
    pointers = [gpu_triton.create_array_parameter(0, POINTER_ALIGNMENT)] * (len(inputs) + len(results))
    call = gpu_triton.TritonKernelCall(compiled, count, 1, 1, pointers)
    function: Any = jax.ffi.ffi_call("triton_kernel_call_ffi", results, input_output_aliases=dict(kernel.aliases))
    return function(*filled, opaque=zlib.compress(call.to_proto(kernel.name, b"")))[: kernel.results]


def _own(value: Array, by: int, worlds: int) -> Array:
    """With an entry for every world."""
    return jnp.repeat(value, by, 0) if by > 1 else value if by else jnp.broadcast_to(value, (worlds, *value.shape))


def _gpu() -> Any:
    return jax.local_devices(backend="cuda")[0]
