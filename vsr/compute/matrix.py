"""Products of matrices with all digits: by default some GPUs round what goes into them to ten bits."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
"""As `@`."""
