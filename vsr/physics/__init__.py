"""Mechanics of one robot: springs, limits, actuation, contact, and `advance`, which strings substeps together."""

from vsr.physics.advance import advance
from vsr.physics.model import Environment, Model, State

__all__ = ["Environment", "Model", "State", "advance"]
