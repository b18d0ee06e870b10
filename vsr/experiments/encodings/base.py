"""Encodings: the functions from genes to a body, and from genes to a controller for a body.

Both kinds are plain data with pure functions of gene vectors, so that decoding a population is a `vmap` inside `jit`.
Each also turns one individual's genes back into the plain description that files hold.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from vsr.controllers import Controller, ControllerSpec
from vsr.evo.operators import flat_draw
from vsr.physics.engine import ENGINES
from vsr.robot import Body, Material
from vsr.robot.engine_kinds import EngineName
from vsr.robot.shape import drawing
from vsr.sensors import Sensor
from vsr.spec import Real, Spec

Complaints = list[tuple[tuple[str, ...], str]]
"""A validation issue: where (path inside the component) and why."""

Symbol = Annotated[str, Field(min_length=1, max_length=1)]
"""The symbol of a material in drawings of bodies."""


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if not bounds[0] < bounds[1]:
        raise PydanticCustomError("rising", "Input should be two numbers, the smaller first")
    return bounds


Range = Annotated[tuple[Real, Real], AfterValidator(_rising)]
"""Lower and upper bound."""

FULL_TURN: tuple[float, float] = (-math.pi, math.pi)


class BodyEncoding(ABC):
    """From genes to a grid of materials. Mixed into a description that has the fields below."""

    materials: dict[str, Material]
    voxel_side: float
    engine: EngineName

    @property
    @abstractmethod
    def possible(self) -> np.ndarray:
        """True where some genes put a voxel, (rows, columns) or (levels, rows, columns), the lowest first."""

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.possible.ndim

    @property
    def layers(self) -> int:
        """Layers that every body of this kind fits in (see vsr.physics.contract)."""
        return ENGINES[self.engine].most_layers(self.dimension)

    @property
    @abstractmethod
    def gene_count(self) -> int:
        """Length of the gene vector."""

    @abstractmethod
    def sample(self, key: Array, count: int) -> Array:
        """Random genes for a first population, (count, gene_count)."""

    @abstractmethod
    def decode(self, genes: Array) -> Array:
        """Material index of every cell, negative where empty, like `possible`. Pure."""

    of_kinds: ClassVar[bool] = False
    """whether genes are numbers of kinds, between which nothing lies"""

    def accepts(self, genes: Array) -> Array:
        """Whether a search that asks should try these genes, (). Pure."""
        return jnp.ones((), bool)

    def describe(self, genes: np.ndarray) -> Body | None:
        """The body as plain data on its whole grid, or None if it has no voxel."""
        cells = np.asarray(jax.jit(self.decode)(genes))
        if not (cells >= 0).any():
            return None
        return Body(
            shape=drawing(cells, list(self.materials)),
            materials=self.materials,
            voxel_side=self.voxel_side,
            engine=self.engine,
        )


class ControllerEncoding(Spec):
    """From genes to a controller of whatever body the other genes make."""

    def check(self, body: BodyEncoding) -> Complaints:
        """Issues of the controller with the bodies."""
        return []

    @abstractmethod
    def gene_count(self, body: BodyEncoding) -> int:
        """Length of the gene vector."""

    @abstractmethod
    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        """Random genes for a first population, (count, gene_count)."""

    @abstractmethod
    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> Controller:
        """The controller as arrays. Pure in genes and cells; duration: of the episode [s]."""

    @abstractmethod
    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> ControllerSpec:
        """The controller as plain data."""


def uniform(key: Array, count: int, genes: int, bounds: tuple[float, float]) -> Array:
    """Independent uniform genes, (count, genes)."""
    return flat_draw(partial(jax.random.uniform, minval=bounds[0], maxval=bounds[1]), key, (count, genes))


def check_symbols(names: tuple[str, ...], body: BodyEncoding, where: str) -> Complaints:
    """Issues: symbols that stand for no material."""
    known = ", ".join(map(repr, body.materials))
    unknown = (name for name in names if name not in body.materials)
    return [((where,), f"there is no material {name!r}; the materials are {known}") for name in unknown]


def driven(passive: tuple[str, ...], body: BodyEncoding) -> np.ndarray:
    """1 for materials that are driven, 0 for passive ones, (materials,)."""
    return np.array([symbol not in passive for symbol in body.materials], float)


def restrict_sensor(sensor: Sensor, present: np.ndarray) -> Sensor:
    """The sensor without voxels that a body does not have; present: True where it has one."""
    if sensor.voxels is None:
        return sensor
    return sensor.model_copy(update={"voxels": tuple(place for place in sensor.voxels if present[place[::-1]])})
