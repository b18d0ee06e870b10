"""Parameters of an environment that differ between copies, for policies that must not depend on one of them."""

from __future__ import annotations

from typing import Annotated

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import AfterValidator, Field

from vsr.randomization import DomainRandomization, rising
from vsr.spec import Count, Real

MOST_DELAY = 64
"""Steps, for each of which a state keeps an action."""

Delay = Annotated[Count, Field(ge=0, le=MOST_DELAY)]
Deviation = Annotated[Real, Field(ge=0)]


class Randomization(DomainRandomization):
    """Intervals from which the parameters of a copy are drawn, such as `friction: [0.5, 2]`; null for none."""

    delay: Annotated[tuple[Delay, Delay], AfterValidator(rising)] | None = None
    """of actions [environment steps], a whole number"""
    action_noise: Annotated[tuple[Deviation, Deviation], AfterValidator(rising)] | None = None
    """standard deviation of what is added to every control value, in each step"""
    observation_noise: Annotated[tuple[Deviation, Deviation], AfterValidator(rising)] | None = None
    """standard deviation of what is added to every number of an observation, in its unit"""

    def draw(self, key: Array, dtype: jnp.dtype) -> dict[str, Array]:
        """A value for each interval, uniformly; delays include both ends."""
        drawn = {}
        for number, (name, (low, high)) in enumerate(self.given.items()):
            own = jax.random.fold_in(key, number)
            if name == "delay":
                drawn[name] = jax.random.randint(own, (), low, high + 1)
            else:
                drawn[name] = jax.random.uniform(own, (), dtype, low, high)
        return drawn

    @property
    def most_delay(self) -> int:
        """Actions that a state must keep."""
        return self.delay[1] if self.delay else 0
