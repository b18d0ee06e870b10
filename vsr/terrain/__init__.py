"""The ground: described shapes and the array form that physics asks for height and normal."""

from vsr.terrain.blocks import BlockGround, Blocks, highest_of_blocks
from vsr.terrain.columns import Columns
from vsr.terrain.field import HeightField, field_surface, highest_of_field
from vsr.terrain.sand import Sand
from vsr.terrain.several import chosen, together
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
from vsr.terrain.surface import Terrain, highest_between, surface

TERRAINS |= {"sand": Sand, "columns": Columns, "blocks": BlockGround}

__all__ = [
    "TERRAINS",
    "AnyGround",
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
    "highest_between",
    "highest_of_blocks",
    "highest_of_field",
    "surface",
    "together",
]
