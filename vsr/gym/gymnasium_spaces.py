"""gymnasium, if it is there, and our spaces as its own."""

from __future__ import annotations

import numpy as np

from vsr.gym.spaces import Box

try:
    import gymnasium
except ImportError:
    raise ImportError("environments of gymnasium need it: pip install 'vsr[gym]'") from None

__all__ = ["gymnasium", "space_of"]


def space_of(box: Box, count: int | None = None) -> gymnasium.spaces.Box:
    """The same for gymnasium; count: of numbers, if fewer."""
    shape = box.shape if count is None else (count,)
    return gymnasium.spaces.Box(box.low, box.high, shape, np.dtype(box.dtype).type)
