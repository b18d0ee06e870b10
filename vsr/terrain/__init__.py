"""The ground: described shapes and the array form that physics asks for height and normal."""

from vsr.terrain.base import AnyTerrain, chosen, together
from vsr.terrain.blocks import BlockGround, Blocks, Columns
from vsr.terrain.field import HeightField, field_surface
from vsr.terrain.sand import Sand
from vsr.terrain.shapes import (
    TERRAINS,
    AnyGround,
    Bumpy,
    Downhill,
    Flat,
    Ground,
    Heights,
    Hilly,
    Polyline,
    Steppy,
    Uneven,
    Uphill,
)
from vsr.terrain.surface import Terrain, surface

TERRAINS |= {"sand": Sand, "columns": Columns, "blocks": BlockGround}

__all__ = [
    "TERRAINS",
    "AnyGround",
    "AnyTerrain",
    "BlockGround",
    "Blocks",
    "Bumpy",
    "Columns",
    "Downhill",
    "Flat",
    "Ground",
    "HeightField",
    "Heights",
    "Hilly",
    "Polyline",
    "Sand",
    "Steppy",
    "Terrain",
    "Uneven",
    "Uphill",
    "chosen",
    "field_surface",
    "surface",
    "together",
]
