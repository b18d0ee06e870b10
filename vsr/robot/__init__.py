"""What a robot is made of, as a researcher describes it: materials and shapes. No arrays of an engine."""

from vsr.robot.engine_kinds import ENGINE_KINDS, EngineName
from vsr.robot.fluid import Fluid
from vsr.robot.kinds import KINDS
from vsr.robot.material import Material
from vsr.robot.shape import Body
from vsr.robot.springs import Group

__all__ = ["ENGINE_KINDS", "KINDS", "Body", "EngineName", "Fluid", "Group", "Material"]
