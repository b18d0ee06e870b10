"""The base of every optimizer's settings: frozen plain data that checks its domains when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict


class Settings(BaseModel):
    """Frozen, strict; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def descriptors(self) -> tuple[str, ...]:
        """Names of the measures that describe behavior to the search; none by default."""
        return ()

    @property
    def needs_gradients(self) -> bool:
        """Whether evaluations have gradients of the fitness; False by default."""
        return False

    @property
    def elite_archives(self) -> Mapping[str, Any]:
        """Descriptions (`vsr.evo.archives.Archive`) of the archives that it keeps as `SearchSummary.archive`."""
        return {}

    @property
    def front_objectives(self) -> tuple[Any, ...]:
        """Objectives beside the fitness (`vsr.evo.nsga2.Objective`) in the `Front` that it keeps as its archive."""
        return ()

    @property
    def metrics(self) -> Mapping[str, str]:
        """Meaning of the numbers that it reports of itself (`SearchSummary.metrics`), by name, as a sentence."""
        return {}


class Registry(dict[str, type[Settings]]):
    """Optimizers by name; as `vsr.spec.Registry`, which a search does not know: a name has one owner."""

    def __setitem__(self, name: str, kind: type[Settings]) -> None:
        origins = [f"{one.__module__}.{one.__qualname__}" for one in (self.get(name, kind), kind)]
        if origins[0] != origins[1]:
            raise ValueError(f"the optimizer '{name}' exists: {origins[0]}; register {origins[1]} under another name")
        super().__setitem__(name, kind)


Size = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
"""How many individuals."""

Share = Annotated[float, Strict(), Field(ge=0, le=1)]
"""A part of a whole."""
