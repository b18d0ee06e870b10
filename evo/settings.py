"""The base of every optimiser's settings: frozen plain data that checks its domains when it is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict


class Settings(BaseModel):
    """Frozen, strict; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def descriptors(self) -> tuple[str, ...]:
        """Names of the measures that describe behaviour to the search; none unless it says so."""
        return ()

    @property
    def wants_slopes(self) -> bool:
        """Whether evaluations are to have slopes of the fitness; not unless it says so."""
        return False


Size = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
"""How many individuals."""

Share = Annotated[float, Strict(), Field(ge=0, le=1)]
"""A part of a whole."""
