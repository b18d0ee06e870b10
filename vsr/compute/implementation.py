"""The implementation of `advance` that runs: chosen by device and precision, or forced."""

from __future__ import annotations

import importlib.util
from typing import Literal

import jax
import jax.numpy as jnp

Implementation = Literal["auto", "xla", "fused", "interpreted", "differentiable"]
KERNELS = ("fused", "interpreted")
"""Those that are GPU kernels."""


def chosen(
    implementation: Implementation, dtype: jnp.dtype | type = jnp.float32, obstacle: str | None = None
) -> Implementation:
    """The implementation to use; raises ValueError if the one asked for cannot run here.

    obstacle: why the kernel cannot do what is asked of it, wherever it runs.
    """
    if implementation == "interpreted" and obstacle:
        raise ValueError(f"'interpreted' cannot run: {obstacle}; use 'auto' or 'xla'")
    obstacle = obstacle or _obstacle(jnp.dtype(dtype))
    if implementation == "auto":
        return "xla" if obstacle else "fused"
    if implementation == "fused" and obstacle:
        raise ValueError(f"'fused' cannot run here: {obstacle}; use 'auto' or 'xla'")
    return implementation


def _obstacle(dtype: jnp.dtype) -> str | None:
    """Why the fused kernel cannot run, if so."""
    if jax.default_backend() not in ("gpu", "cuda"):
        return f"it needs an NVIDIA GPU, and jax computes on the {jax.default_backend()}"
    if importlib.util.find_spec("jax.experimental.pallas.triton") is None:
        return f"jax {jax.__version__} no longer has Pallas for Triton, which it is written in"
    if dtype != jnp.float32:
        return f"it computes in float32, and {dtype.name} was asked for"
    return None
