"""From genes to robots."""

from vsr.experiments.encodings.base import BodyEncoding, ControllerEncoding
from vsr.experiments.encodings.registry import BODIES, CONTROLLERS
from vsr.experiments.encodings.robot import EvolvedRobot, Genes

__all__ = ["BODIES", "CONTROLLERS", "BodyEncoding", "ControllerEncoding", "EvolvedRobot", "Genes"]
