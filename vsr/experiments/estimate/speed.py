"""From operations to seconds on this device.

On processors operations are timed. On accelerators the figures are an H200's.
"""

from __future__ import annotations

import time
from functools import cache

import jax
import numpy as np

from vsr.experiments.estimate.operations import Operations

NUMBERS, ROUNDS, TIMED = 4096, 200, 15
"""Of what is timed: numbers that stay in a cache, how often three operations on them are done, and how many times."""
SHARE = 0.23
"""Time of an operation in a compiled simulation over one that is timed: 0.20 to 0.24 were measured (Neoverse-N1)."""
KERNEL, IN_KERNEL, LAUNCH, ON_ACCELERATOR = 1.0e-6, 1.0e-12, 0.3e-6, 2.0e-12
"""Of an H200 [s]: a kernel written by hand and an operation in it; a step and an operation of any other program."""


def seconds_of(operations: Operations) -> float:
    """How long a program should take on one device."""
    if jax.default_backend() == "cpu":
        return SHARE * seconds_of_operation() * operations.plain
    in_kernels = KERNEL * operations.kernels + IN_KERNEL * operations.in_kernels
    return in_kernels + LAUNCH * operations.steps + ON_ACCELERATOR * operations.plain


@cache
def seconds_of_operation() -> float:
    """Of a plain operation on one number of an array, timed here [s]: the quickest of a few, whatever else runs."""
    numbers = np.linspace(0.5, 1.5, NUMBERS, dtype=np.float32)
    factor = np.full_like(numbers, 0.999)
    times = []
    for _ in range(TIMED):
        began = time.thread_time()
        for _ in range(ROUNDS):
            np.multiply(numbers, factor, out=numbers)
            np.sqrt(numbers, out=numbers)
            np.add(numbers, factor, out=numbers)
        times.append(time.thread_time() - began)
    return min(times) / (3 * ROUNDS * NUMBERS)
