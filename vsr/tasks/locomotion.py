"""Locomotion: travel as far as possible along x (paper, section 2.5)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from vsr.spec import Seconds, Spec, unknown_names
from vsr.tasks.measures import MEASURES, USUAL
from vsr.tasks.placement import Placement


class Locomotion(Spec):
    """Move along x for a given time; several measures may be taken at once."""

    type: Literal["locomotion"] = "locomotion"
    duration: Seconds = 60.0
    """[s]"""
    placement: Placement = Placement()
    """where the robot starts"""
    measures: tuple[str, ...] = Field(default=USUAL, min_length=1)
    """what is measured"""

    @field_validator("measures")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in names if name not in MEASURES]
        if unknown:
            raise unknown_names(unknown, MEASURES, "measure")
        return names
