"""Fluid that fills voxels instead of springs. A chamber is a face-connected set of voxels of one fluid material."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from vsr.spec import Real, Spec

WATER = 1000.0
"""Density of a liquid that says nothing else [kg/m³]."""
DEFAULT_PRESSURE = (0.0, 1000.0)
"""That a pump gives, lowest and highest [Pa]."""
DEFAULT_ADDED_VOLUME = (-0.2, 0.2)
"""That a pump moves, over the volume at rest."""

Limits = tuple[Real, Real]


class Fluid(Spec):
    """What a chamber holds, how it is driven, and what closes it."""

    kind: Literal["liquid", "gas"] = "liquid"
    """a liquid keeps its volume, a gas follows the gas law, where volume is what is driven"""
    density: Annotated[Real, Field(ge=0)] | None = None
    """[kg/m³]; if absent 1000 for a liquid, and 0, no weight, for a gas"""
    drive: Literal["pressure", "volume"] = "pressure"
    """what a control value sets: -1 the highest, 0 none, 1 the lowest pressure, or volume added"""
    pressure: Limits | None = None
    """lowest and highest at the port, above that outside [Pa]; if absent 0 and 1000, and none where volume is driven"""
    added_volume: Limits | None = None
    """lowest and highest, over the volume at rest; if absent -0.2 and 0.2, and none where pressure is driven"""
    port: Real = 0.0
    """height in the world at which the pressure is that of the pump [m]"""
    bulk_modulus: Annotated[Real, Field(gt=0)] = 1e5
    """of a driven volume, and of its limits [Pa]: the volume gives way by the pressure over this"""
    outside_pressure: Annotated[Real, Field(gt=0)] = 101325.0
    """of the air around [Pa], for the gas law"""
    membrane: Literal["neighbors", "own", "none"] = "neighbors"
    """what closes faces to the outside: springs as the solid voxels around the chamber have them, as this material has
    them, or nothing"""
    depth: Annotated[Real, Field(gt=0)] = 1.0
    """of the fluid of a 2-D body across its plane [m], where solids are counted per meter; without meaning in 3-D"""

    @field_validator("pressure", "added_volume")
    @classmethod
    def _around_nothing(cls, limits: Limits | None) -> Limits | None:
        if limits is not None and not limits[0] <= 0 <= limits[1]:
            raise ValueError(f"{list(limits)} given; the lowest must be at most 0 and the highest at least 0")
        return limits

    @model_validator(mode="after")
    def _possible(self) -> Fluid:
        if self.added_volume is not None and self.added_volume[0] <= -1:
            raise ValueError(f"added_volume {list(self.added_volume)} would empty the chamber: above -1")
        if self.pressure is not None and self.kind == "gas" and self.pressure[0] <= -self.outside_pressure:
            raise ValueError(
                f"pressure {list(self.pressure)} is less than nothing: above -{self.outside_pressure:g}, that outside"
            )
        return self

    @property
    def mass_density(self) -> float:
        """[kg/m³]."""
        if self.density is not None:
            return self.density
        return WATER if self.kind == "liquid" else 0.0

    @property
    def pressure_limits(self) -> Limits | None:
        """Lowest and highest [Pa]; None if there are none."""
        return DEFAULT_PRESSURE if self.pressure is None and self.drive == "pressure" else self.pressure

    @property
    def volume_limits(self) -> Limits | None:
        """Lowest and highest added, over the volume at rest; None if there are none."""
        return DEFAULT_ADDED_VOLUME if self.added_volume is None and self.drive == "volume" else self.added_volume
