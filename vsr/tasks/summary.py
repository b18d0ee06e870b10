"""What is known of an episode when it is over: what measures are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax import Array

from vsr.tasks.gait import Gait


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Summary:
    """One robot's episode."""

    start: Array
    """center at the start [m], (dimension,)"""
    end: Array
    """center at the end [m], (dimension,)"""
    box: Array
    """sides of the initial bounding box [m], (dimension,)"""
    total_time: Array
    """[s], ()"""
    mean_height: Array
    """mean over control steps of the center's height [m], ()"""
    mean_squared_control: Array
    """mean over control calls and voxels of the squared control value, ()"""
    failure: Array
    """why the episode is no use, 0 if it is (vsr.physics.failure), ()"""
    broken_springs: Array | None = None
    """how many springs broke, (); None if none can"""
    ended: Array | None = None
    """whether the task was over before its time, (); None if it cannot be"""
    gait: Gait | None = None
    """how it walked; None if no measure asked for it"""
    account: Any = None
    """what the task accumulated (`Task.accumulate`)"""

    @property
    def failed(self) -> Array:
        """Whether the episode is no use, ()."""
        return self.failure > 0
