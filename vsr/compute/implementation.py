"""The implementation of `advance` that runs: chosen by device and precision, or forced."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from vsr.compute.gpu.nvrtc import library

Implementation = Literal["auto", "xla", "fused", "interpreted", "differentiable"]
KERNELS = ("fused", "interpreted")
"""Those that are GPU kernels."""
OLDEST_CAPABILITY = 7.0
"""Of GPUs that have barriers of a warp; NVRTC of CUDA 13 begins with 7.5."""


def chosen(
    implementation: Implementation, dtype: jnp.dtype | type = jnp.float32, obstacle: str | None = None
) -> Implementation:
    """The implementation to use; raises ValueError if the one asked for cannot run here.

    obstacle: why the kernel cannot do what is asked of it, wherever it runs.
    """
    if implementation == "interpreted" and obstacle:
        raise ValueError(f"'interpreted' cannot run: {obstacle}; use 'auto' or 'xla'")
    obstacle = obstacle or why_plain(jnp.dtype(dtype))
    if implementation == "auto":
        return "xla" if obstacle else "fused"
    if implementation == "fused" and obstacle:
        raise ValueError(f"'fused' cannot run here: {obstacle}; use 'auto' or 'xla'")
    return implementation


def why_plain(dtype: jnp.dtype) -> str | None:
    """Why kernels cannot run here, and plain JAX does."""
    if jax.default_backend() not in ("gpu", "cuda"):
        return f"it needs an NVIDIA GPU, and jax computes on the {jax.default_backend()}"
    gpu = jax.local_devices()[0]
    if "rocm" in gpu.client.platform_version.lower():
        return "it needs an NVIDIA GPU, and this one is AMD's"
    if float(getattr(gpu, "compute_capability", 0)) < OLDEST_CAPABILITY:
        return f"it needs compute capability {OLDEST_CAPABILITY}, and this GPU has {gpu.compute_capability}"
    if library() is None:
        return "it is compiled by NVRTC, which is not installed: pip install 'jax[cuda12]' or 'jax[cuda13]'"
    if dtype != jnp.float32:
        return f"it computes in float32, and {dtype.name} was asked for"
    return None
