"""Contacts with rigid bodies and blocks of ground in a GPU kernel: found and solved in one launch, in 2-D.

A warp has a world, a lane some of its vertices. What concerns rigid bodies alone is computed in all lanes alike; what
they exchange are sums over vertices. Plain JAX (vsr.physics.objects.resolving) is the reference: it needs a hundred
launches for the same.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from vsr.compute.gpu.ptx import WARP
from vsr.compute.vector import Vector, dot, plus, times
from vsr.physics.objects.fused.bodies import OfBodies
from vsr.physics.objects.fused.corners import Corners
from vsr.physics.objects.fused.moving import Body, Moving, Nodes, Now, lanes_for
from vsr.physics.objects.fused.solver import solved
from vsr.physics.objects.fused.tables import Known, Outcome, Plan, Pressed
from vsr.physics.objects.fused.vertices import InBlocks, Vertices


def launch(known: Known, plan: Plan) -> Outcome:
    """One step's contacts of one world; `vmap` adds worlds as an axis of the grid."""
    arrays, places = jax.tree.flatten(known)
    # Numbers of the whole world travel together; scalars of their own cost a launch each.
    numbers = [leaf for leaf in arrays if leaf.ndim == 0]
    tables = [leaf for leaf in arrays if leaf.ndim]
    single = tuple(leaf.ndim == 0 for leaf in arrays)
    bodies = known.bodies
    results = Outcome(
        known.velocity,
        known.velocity,
        None if bodies is None else (bodies.position, bodies.rotation, bodies.velocity, bodies.spin),
        known.kept,
    )
    wanted, shape = jax.tree.flatten(results)

    def program(*references: Any) -> None:
        together, *inputs = references[: len(tables) + 1]
        every, many = iter(range(len(numbers))), iter(inputs)
        filled = [together[next(every)] if alone else next(many) for alone in single]
        written = references[len(tables) + 1 :]
        Program(plan, jax.tree.unflatten(places, filled), jax.tree.unflatten(shape, written)).run()

    after = pl.pallas_call(
        program,
        grid=(1,),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in wanted],
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=plan.interpret,
        name="meet_bodies",
    )(jnp.stack(numbers), *tables)
    return jax.tree.unflatten(shape, after)


class Program:
    """The kernel at work on one world."""

    def __init__(self, plan: Plan, known: Known, written: Outcome) -> None:
        self.plan, self.known, self.written = plan, known, written
        self.lane = lanes_for(max(WARP, plan.vertices))
        self.row, self.held = jnp.minimum(self.lane, plan.vertices - 1), self.lane < plan.vertices

    def run(self) -> None:
        known, plan = self.known, self.plan
        nodes = Nodes(
            self.lane,
            self.vector(known.position),
            self.number(known.inverse_mass),
            self.vector(known.lever),
            self.number(known.inverse_inertia),
            self.held & (self.number(known.surface) > 0),
            self.number(known.friction),
            self.number(known.restitution),
        )
        still = jnp.zeros(self.lane.shape, jnp.float32)
        bodies = tuple(self.body(number) for number in range(plan.bodies))
        now = Now(self.vector(known.velocity), (still, still), tuple(map(self.fallen, range(plan.bodies))))
        groups = self.groups(nodes, bodies)
        start = tuple(self.kept(name, group) for name, group in groups.items())
        now, found = solved(tuple(groups.values()), start, now, plan)
        for reference, values in ((self.written.given, now.given), (self.written.velocity, now.nodes)):
            self.write(reference, values)
        for number, moving in enumerate(now.bodies):
            self.move(number, moving)
        for (name, group), impulses in zip(groups.items(), found, strict=True):
            if name in self.written.kept:
                group.keep(self.written.kept[name], impulses)

    def groups(self, nodes: Nodes, bodies: tuple[Body, ...]) -> dict[str, Any]:
        """Contacts in the order in which they are solved."""
        known, plan, found = self.known, self.plan, {}
        if plan.listed:
            found["bodies"] = OfBodies(self, bodies)
        if bodies:
            if plan.flat:
                found["corners"] = Corners(self, nodes, bodies)
            found["vertices"] = Vertices(self, nodes, bodies)
        if known.blocks is not None:
            found["blocks"] = InBlocks(self, nodes)
        return found

    # What is read and written

    def number(self, table: Any) -> Array:
        return triton.load(table.at[self.row])

    def vector(self, table: Any) -> Vector:
        return tuple(triton.load(table.at[part, self.row]) for part in range(2))

    def write(self, table: Any, values: Vector) -> None:
        for part, value in enumerate(values):
            triton.store(table.at[part, self.lane], value, mask=self.held)

    def body(self, number: int) -> Body:
        tables = self.known.bodies
        turn = [[tables.rotation[number, row, column] for column in range(2)] for row in range(2)]
        center = tuple(tables.position[number, part] for part in range(2))

        def turned(table: Any, place: int) -> Vector:
            x, y = (table[number, place, part] for part in range(2))
            return tuple(row[0] * x + row[1] * y for row in turn)

        normals = tuple(turned(tables.normal, face) for face in range(self.plan.faces))
        return Body(
            center=center,
            corners=tuple(plus(center, turned(tables.corner, corner)) for corner in range(self.plan.corners)),
            normals=normals,
            offsets=tuple(tables.offset[number, face] + dot(normal, center) for face, normal in enumerate(normals)),
            radius=tables.radius[number],
            inverse_mass=tables.inverse_mass[number],
            inverse_inertia=tables.inverse_inertia[number],
            friction=tables.friction[number],
            restitution=tables.restitution[number],
        )

    def fallen(self, number: int) -> Moving:
        """A body's motion after the step's gravity."""
        tables = self.known.bodies
        x, y = (tables.velocity[number, part] for part in range(2))
        fall = 0.0 if self.plan.fixed[number] else self.plan.duration * self.known.gravity
        return Moving((x, y - fall), tables.spin[number, 0])

    def move(self, number: int, moving: Moving) -> None:
        """Write where a body is after the step, and how it moves (vsr.physics.objects.solids.moved)."""
        tables, duration = self.known.bodies, self.plan.duration
        position, rotation, velocity, spin = self.written.bodies
        angle = duration * moving.spin
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        x, y = tables.rotation[number, 0, 0], tables.rotation[number, 1, 0]
        x, y = cosine * x - sine * y, sine * x + cosine * y
        size = jax.lax.rsqrt(x * x + y * y)
        x, y = size * x, size * y
        for row, values in enumerate(((x, -y), (y, x))):
            for column, value in enumerate(values):
                rotation[number, row, column] = value
        for part in range(2):
            position[number, part] = tables.position[number, part] + duration * moving.velocity[part]
            velocity[number, part] = moving.velocity[part]
        spin[number, 0] = moving.spin

    def kept(self, name: str, group: Any) -> tuple[Pressed, ...]:
        """Impulses to begin with: those of the step before, or none."""
        if name in self.known.kept:
            return group.kept(self.known.kept[name])
        return tuple(Pressed(part.depth * 0, times(0.0, part.normal)) for part in group.contacts)
