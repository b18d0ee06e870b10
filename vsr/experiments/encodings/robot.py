"""From an individual's genes to a robot: as arrays inside `jit`, and as the plain data that files hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import model_validator

from vsr.controllers import Controller, Hardware
from vsr.experiments.encodings.base import BodyEncoding, ControllerEncoding
from vsr.experiments.encodings.registry import BODIES, CONTROLLERS
from vsr.physics.engine import ENGINES, AnyModel
from vsr.robot import Body
from vsr.spec import OneOf, Spec, memoize, validation_error
from vsr.world.spec import Robot

Genes = dict[str, Array]
"""An individual's genes: one vector for the body and one for the controller."""


@dataclass(frozen=True)
class GeneSampler:
    """Random genes as a search draws them, and which of them it should try (vsr.evo.protocol.Sampler)."""

    robot: EvolvedRobot

    def __call__(self, key: Array, count: int) -> Genes:
        return self.robot.sample(key, count)

    def accepts(self, genes: Genes) -> Array:
        """Whether an individual is worth a try, ()."""
        return self.robot.body.accepts(genes["body"])

    @property
    def kinds(self) -> dict[str, bool]:
        """Which genes are numbers of kinds."""
        return {"body": self.robot.body.of_kinds, "controller": False}


class EvolvedRobot(Spec):
    """How genes become a robot."""

    body: Annotated[BodyEncoding, OneOf(BODIES, default="fixed")]
    """a fixed body, or how genes make one"""
    controller: Annotated[ControllerEncoding, OneOf(CONTROLLERS)]
    """how genes make the controller"""
    hardware: Hardware | None = None
    """noise, delay and rate limit of sensors and actuators; null for none of it"""

    @model_validator(mode="after")
    def _fits(self) -> EvolvedRobot:
        if issues := _symbol_issues(self.body, self.controller):
            raise validation_error(issues)
        return self

    @property
    def gene_count(self) -> int:
        """Numbers in one individual."""
        return self.body.gene_count + self.controller.gene_count(self.body)

    def sample(self, key: Array, count: int) -> Genes:
        """Random genes for a first population, each (count, ...)."""
        of_body, of_controller = jax.random.split(key)
        return {
            "body": self.body.sample(of_body, count),
            "controller": self.controller.sample(of_controller, count, self.body),
        }

    @property
    def sampling(self) -> GeneSampler:
        """For searches."""
        return GeneSampler(self)

    def build(
        self,
        genes: Genes,
        duration: float,
        dtype: jnp.dtype | type = jnp.float32,
        integrator: str | None = None,
    ) -> tuple[AnyModel, Controller]:
        """One individual as arrays.

        Pure; one compilation serves every body of the grid. duration: of the episode [s].
        """
        genes = jax.tree.map(lambda leaf: leaf.astype(dtype), genes)
        cells = self.body.decode(genes["body"])
        controller = self.controller.build(genes["controller"], cells, self.body, duration)
        if self.hardware is not None:
            controller = self.hardware.around(controller, cells.shape, dtype)
        return self.assemble(cells, dtype, integrator), controller

    def assemble(self, cells: Array, dtype: jnp.dtype | type, integrator: str | None) -> AnyModel:
        """The model of a body, by the material of every cell. Pure."""
        body, engine = self.body, ENGINES[self.body.engine]
        only = body.cells if isinstance(body, Body) else None
        table = engine.table(list(body.materials.values()), body.voxel_side, body.dimension, dtype, only)
        return engine.assemble(cells, table, body.voxel_side, layers=body.layers, integrator=integrator)

    def describe(self, genes: dict[str, np.ndarray], duration: float) -> Robot | None:
        """One individual as plain data, or None if its body has no voxel. duration: of the episode [s]."""
        body = self.body.describe(genes["body"])
        if body is None:
            return None
        controller = self.controller.describe(genes["controller"], body.cells, self.body, duration)
        return Robot(body=body, controller=controller, hardware=self.hardware)


@memoize
def _symbol_issues(body: BodyEncoding, controller: ControllerEncoding) -> list[tuple[tuple[str, ...], str]]:
    """Why a controller does not fit a body, if so."""
    issues = [(("controller", *path), reason) for path, reason in controller.check(body)]
    if not issues and not body.gene_count + controller.gene_count(body):
        issues = [(("controller",), "nothing evolves: neither this controller nor the body has genes")]
    return issues
