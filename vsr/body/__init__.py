"""What a robot is made of, as a researcher describes it: materials and shapes. No arrays of an engine."""

from vsr.body.engine_kinds import ENGINE_KINDS, EngineName
from vsr.body.fluid import Fluid
from vsr.body.kinds import KINDS
from vsr.body.material import Material
from vsr.body.shape import Body
from vsr.body.springs import Group

__all__ = ["ENGINE_KINDS", "KINDS", "Body", "EngineName", "Fluid", "Group", "Material"]
