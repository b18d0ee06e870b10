"""How long a traced program takes: its operations are counted, and weighted by their time on this device.

Nothing is computed and no array is made to count them. Counts are one device's share. The rounds of a loop that ends by
itself are unknown unless it counts up to a number; it counts once, as does the longest branch of a choice; robots
simulated in parts count all. CPUs are timed; for accelerators the constants are an H200's.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from vsr.experiments.formatting import count, duration_text
from vsr.experiments.population import ONE_OF_PARTS

LONG = frozenset(
    (
        "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log",
        "log1p", "logistic", "pow", "erf", "erf_inv", "cbrt", "rem", "random_bits", "threefry2x32",
    )
)  # fmt: skip
"""Operations that take as long as many plain ones ..."""
WEIGHT_OF_LONG = 12.0
"""... about this number."""
IN_TABLES = ("gather", "scatter", "sort", "dynamic_slice", "dynamic_update_slice", "top_k", "argmax", "argmin", "cum")
"""How names of operations on tables begin ..."""
WEIGHT_IN_TABLES = 8.0
"""... and how many plain ones they take, for every number that is read or written."""
WEIGHT_IN_PRODUCTS = 0.5
"""Of a multiplication and an addition in a product of matrices."""


@dataclass(frozen=True)
class Operations:
    """Of a program on one device."""

    plain: float = 0.0
    """operations, in plain ones such as additions"""
    steps: float = 0.0
    """how often some operation begins, on however many numbers"""
    kernels: float = 0.0
    """calls of kernels that are written by hand"""
    in_kernels: float = 0.0
    """operations in those"""

    def __add__(self, other: Operations) -> Operations:
        return Operations(*(mine + theirs for mine, theirs in zip(self._all, other._all, strict=True)))

    def times(self, factor: float) -> Operations:
        """The same operations, repeated."""
        return Operations(*(factor * number for number in self._all))

    @property
    def _all(self) -> tuple[float, ...]:
        return self.plain, self.steps, self.kernels, self.in_kernels


def operations_of(jaxpr: Any) -> Operations:
    """Of a program as `jax.make_jaxpr` gives it."""
    found = Operations()
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        found += _of_equation(equation)
    return found


def _of_equation(equation: Any) -> Operations:
    name, parameters = equation.primitive.name, equation.params
    if name == "cond":
        return max((operations_of(branch) for branch in parameters["branches"]), key=lambda found: found.plain)
    if name == "kernel":
        inner = operations_of(parameters["kernel"].program)
        programs = max(FEW, parameters["programs"] * (parameters["worlds"] or 1))
        return Operations(kernels=1.0, in_kernels=programs * inner.plain)
    inside = [value for value in parameters.values() if hasattr(value, "eqns") or hasattr(value, "jaxpr")]
    if inside:
        once = sum((operations_of(jaxpr) for jaxpr in inside), Operations())
        called = str(parameters.get("name", ""))
        if called.startswith(ONE_OF_PARTS):
            return once.times(int(called.removeprefix(ONE_OF_PARTS)))
        return once.times({"scan": parameters.get("length", 1), "while": _rounds(parameters)}.get(name, 1))
    return Operations(plain=_plain(equation), steps=1.0)


def _rounds(parameters: Any) -> int:
    """Of a `while`, if its condition is that a counter, which begins with 0, is below a number; else 1."""
    conditions = parameters["cond_jaxpr"].jaxpr.eqns if "cond_jaxpr" in parameters else ()
    if len(conditions) == 1 and conditions[0].primitive.name == "lt":
        bound = conditions[0].invars[1]
        if isinstance(bound, Literal) and np.ndim(bound.val) == 0:
            return max(1, int(bound.val))
    return 1


def _plain(equation: Any) -> float:
    name = equation.primitive.name
    written = max((_size(variable) for variable in equation.outvars), default=0)
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        along = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
        return WEIGHT_IN_PRODUCTS * written * along
    read = max((_size(variable) for variable in equation.invars), default=0)
    if name.startswith("reduce"):
        return float(read)
    if name.startswith(IN_TABLES):
        return WEIGHT_IN_TABLES * (read if name.startswith(("sort", "cum", "arg")) else min(read, written) or written)
    return (WEIGHT_OF_LONG if name in LONG else 1.0) * written


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


NUMBERS, ROUNDS, TIMED = 4096, 200, 15
"""Of what is timed: numbers that stay in a cache, how often three operations on them are done, and how many times."""
SHARE = 0.23
"""Time of an operation in a compiled simulation over one that is timed: 0.20 to 0.24 were measured (Neoverse-N1)."""
FEW = 128
"""Programs of a kernel up to which it takes as long as this many, since each computes one operation after the other."""
KERNEL, IN_KERNEL, LAUNCH, ON_ACCELERATOR = 1.0e-6, 1.0e-12, 0.3e-6, 2.0e-12
"""Of an H200 [s]: a kernel written by hand and an operation in it; a step and an operation of any other program."""


def seconds_of(operations: Operations) -> float:
    """How long a program should take on one device."""
    if jax.default_backend() == "cpu":
        return SHARE * seconds_of_operation() * operations.plain
    in_kernels = KERNEL * operations.kernels + IN_KERNEL * operations.in_kernels
    return in_kernels + LAUNCH * operations.steps + ON_ACCELERATOR * operations.plain


def time_lines(seconds: float, generations: int) -> list[tuple[str, str]]:
    """How long a run should take, from the time of a generation [s], as commands print it."""
    device = f"{count(jax.device_count())} {jax.default_backend()} device{'s' if jax.device_count() > 1 else ''}"
    whole = f"about {duration_text(seconds * generations)}, after compiling"
    return [("time of a generation", f"about {duration_text(seconds)} on {device}"), ("time of the run", whole)]


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
