"""The schedule of an episode: its time steps, substeps and control intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vsr.compute.implementation import Implementation


@dataclass(frozen=True)
class Schedule:
    """How an episode is cut into steps. Static: each schedule is compiled once."""

    duration: float
    """[s]; rounded up to whole time steps"""
    time_step: float = 1 / 60
    """[s]"""
    control_every: int = 2
    """time steps from one control call to the next (c + 1 of the 2D-VSR-Sim paper)"""
    substeps: int = 6
    """integration steps in a time step"""
    implementation: Implementation = "auto"
    """of the engine"""
    monitor_energy: bool = False
    """whether spurious energy gain is looked for, as where materials hardly damp (vsr.physics.energy_monitor)"""

    @property
    def steps(self) -> int:
        """Time steps of the whole episode."""
        return max(1, math.ceil(self.duration / self.time_step - 1e-6))

    @property
    def calls(self) -> int:
        """Control steps of the whole episode."""
        return self.steps // self.control_every

    @property
    def remainder(self) -> int:
        """Time steps after the last control call."""
        return self.steps % self.control_every

    @property
    def interval(self) -> float:
        """From one control call to the next [s]."""
        return self.control_every * self.time_step

    @property
    def substep(self) -> float:
        """[s]"""
        return self.time_step / self.substeps

    @property
    def total_time(self) -> float:
        """[s], a whole number of time steps."""
        return self.steps * self.time_step
