"""Python's garbage collection, put off while modules are loaded and programs are traced.

Most of what they make stays, and the collector would look at it again and again: a quarter of the time in which JAX
traces and lowers a program.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collection(*, loading: bool = False) -> Iterator[None]:
    """Without garbage collection, unless it is off anyway.

    loading: what is made meanwhile are modules, which are never garbage: no later collection looks at them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        if loading:
            gc.freeze()
    finally:
        gc.enable()
