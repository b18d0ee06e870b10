"""gymnasium, if it is there, and our spaces and limits as its own."""

from __future__ import annotations

import numpy as np

from vsr.envs.environment import Environment
from vsr.envs.spaces import Box

try:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec
except ImportError:
    raise ImportError("environments of gymnasium need it: pip install 'vsr[gym]'") from None

__all__ = ["WithLimit", "gymnasium", "space_of"]


def space_of(box: Box, count: int | None = None) -> gymnasium.spaces.Box:
    """The same for gymnasium; count: of numbers, if fewer."""
    shape = box.shape if count is None else (count,)
    return gymnasium.spaces.Box(box.low, box.high, shape, np.dtype(box.dtype).type)


class WithLimit:
    """The part of an environment that tells gymnasium how many steps its episodes have."""

    env: Environment
    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """As gymnasium made it, with the limit of this very environment, which depends on body and duration."""
        return self._spec

    @spec.setter
    def spec(self, given: EnvSpec | None) -> None:
        self._spec = given
        if given is not None:
            given.max_episode_steps = self.env.max_steps
