"""What a robot is made of: materials, shapes, and their assembly into a lattice of welded masses."""

from vsr.body.assembly import assemble, assemble_body, layers_needed
from vsr.body.material import Material
from vsr.body.points import assemble_point_body, assemble_points
from vsr.body.shape import Body
from vsr.physics.scaffolding import Group

__all__ = [
    "Body",
    "Group",
    "Material",
    "assemble",
    "assemble_body",
    "assemble_point_body",
    "assemble_points",
    "layers_needed",
]
