"""The ground: described shapes and the array form that physics asks for height and normal."""

from vsr.terrain.shapes import (
    TERRAINS,
    Downhill,
    Flat,
    Ground,
    Hilly,
    Polyline,
    Steppy,
    Uneven,
    Uphill,
)
from vsr.terrain.surface import Terrain, highest_between, surface

__all__ = [
    "TERRAINS",
    "Downhill",
    "Flat",
    "Ground",
    "Hilly",
    "Polyline",
    "Steppy",
    "Terrain",
    "Uneven",
    "Uphill",
    "highest_between",
    "surface",
]
