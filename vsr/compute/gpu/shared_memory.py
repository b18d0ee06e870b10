"""Where the lanes of a program exchange what they found: floats in fields of slots.

`SharedMemory` is the multiprocessor's own; `GlobalMemory` is the device's, for programs that need more than there is
and for the interpreter. Both give and take tokens (vsr.compute.gpu.ptx), which the latter does not need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.gpu.ptx import load_shared, shared_memory, store_shared, wait_for_all

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
