"""From genes to robots."""

from experiments.encodings.base import BodyEncoding, ControllerEncoding
from experiments.encodings.registry import BODIES, CONTROLLERS
from experiments.encodings.robot import EvolvedRobot, Genes

__all__ = ["BODIES", "CONTROLLERS", "BodyEncoding", "ControllerEncoding", "EvolvedRobot", "Genes"]
