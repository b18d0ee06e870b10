"""Products of matrices with all digits: by default some GPUs round what goes into them to ten bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

F = TypeVar("F", bound=Callable[..., Any])
product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
"""As `@`."""


def exactly(function: F) -> F:
    """The same function, every product in it with all digits."""

    @wraps(function)
    def exact(*arguments: Any, **options: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **options)

    return exact  # pyright: ignore[reportReturnType]
