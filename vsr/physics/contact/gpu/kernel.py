"""Contacts in a GPU kernel: found and solved in one launch, in 2-D.

A warp has a world, a lane some of its vertices, voxels, corners of rigid bodies or pairs that are near each other. What
concerns a rigid body as a whole is computed in all lanes alike. Lanes add up what they found, or exchange it
through memory. Plain JAX (vsr.physics.contact.contact_step) is the reference: it needs a hundred launches for the same.
"""

from __future__ import annotations

import itertools
from functools import partial, reduce
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, kernel_call, store
from vsr.compute.vector import minus, plus
from vsr.physics.contact.gpu.bodies import InBlocks, OfBodies, Vertices
from vsr.physics.contact.gpu.corners import Corners, Neighbors, Pairs, corners_of, corners_of_ground
from vsr.physics.contact.gpu.lanes import Body, Lanes, Moves, Moving, Now, lanes_for
from vsr.physics.contact.gpu.solver import nothing_before, solved
from vsr.physics.contact.gpu.tables import Known, OnCarriers, Outcome, Plan, Pressed, Shared
from vsr.physics.contact.gpu.voxels import Voxels


@partial(jax.jit, static_argnames="plan")
def launch(known: Known, plan: Plan) -> Outcome:
    """One step's contacts of one world; `vmap` adds worlds as an axis of the grid."""
    arrays, places = jax.tree.flatten(known)
    # Numbers of the whole world travel together; scalars of their own cost a launch each.
    numbers = [leaf for leaf in arrays if leaf.ndim == 0]
    tables = [leaf for leaf in arrays if leaf.ndim]
    single = tuple(leaf.ndim == 0 for leaf in arrays)
    table = known.robots.table if isinstance(known.robots, OnCarriers) else None
    bodies, kind = known.bodies, known.inverse_mass.dtype
    results = Outcome(
        table,
        jax.ShapeDtypeStruct((2, plan.vertices), kind),
        jax.ShapeDtypeStruct((2, plan.vertices), kind),
        jax.ShapeDtypeStruct((2, plan.vertices), kind),
        None if bodies is None else (bodies.position, bodies.rotation, bodies.velocity, bodies.spin),
        known.kept,
        known.overflow,
    )
    wanted, shape = jax.tree.flatten(results)
    shared = _shared(plan, kind)

    def program(*references: Any) -> None:
        together, *inputs = references[: len(tables) + 1]
        every, many = iter(range(len(numbers))), iter(inputs)
        filled = [together[next(every)] if alone else next(many) for alone in single]
        written, exchanged = references[len(tables) + 1 : -len(shared)], Shared(*references[-len(shared) :])
        Program(plan, jax.tree.unflatten(places, filled), jax.tree.unflatten(shape, written), exchanged).run()

    after = kernel_call(
        program,
        programs=1,
        lanes=WARP,
        results=wanted,
        scratch=shared,
        # In place: what does not move at all stays as it was.
        aliases={} if table is None else {1 + [leaf is table for leaf in tables].index(True): 0},
        interpret=plan.interpret,
        name="meet",
    )(jnp.stack(numbers), *tables)
    return jax.tree.unflatten(shape, after)


def _shared(plan: Plan, kind: jnp.dtype) -> Shared:
    vertices, cells, points, candidates = plan.vertices, plan.cells, max(1, plan.points), max(1, plan.neighbors)
    shapes = Shared(
        position=(2, vertices),
        lever=(2, vertices),
        velocity=(2, vertices),
        outward=(2, vertices),
        load=(vertices,),
        middle=(2, cells),
        low=(2, cells),
        high=(2, cells),
        cell=(points,),
        vertex=(points,),
        touches=(points,),
        weight=(4, points),
        impulse=(2, points),
        near_vertex=(candidates,),
        near_cell=(candidates,),
    )
    numbers = "cell", "vertex", "near_vertex", "near_cell"
    return Shared(
        *(
            jax.ShapeDtypeStruct(shape, jnp.int32 if name in numbers else kind)
            for name, shape in shapes._asdict().items()
        )
    )


class Program:
    """The kernel at work on one world."""

    def __init__(self, plan: Plan, known: Known, written: Outcome, shared: Shared) -> None:
        self.plan, self.known, self.written = plan, known, written
        self.lanes = Lanes(plan, known, shared)

    def run(self) -> None:
        still = jnp.zeros(self.lanes.lane.shape, jnp.float32)
        bodies = tuple(self.body(number) for number in range(self.plan.bodies))
        numbers = range(self.plan.bodies)
        way = minus(self.lanes.place, self.lanes.vector(self.known.vertices))
        drift = Now(way, (still, still), tuple(map(self.drift, numbers)))
        moves = Now(self.lanes.velocity, (still, still), tuple(map(self.moving, numbers))), drift
        moves = self.with_bodies(bodies, moves) if bodies else self.solved(moves, self.groups(bodies))
        for number in numbers:
            self.move(number, moves[0].bodies[number], drift.bodies[number], moves[1].bodies[number])
        if self.known.may_touch is not None:
            moves = self.with_neighbors(moves)
        if self.known.ground_corners is not None:
            moves = self.with_corners_of_ground(moves)
        now, drifted = moves
        self.lanes.write(self.written.given, now.given)
        self.lanes.write(self.written.shift, drifted.given)
        self.lanes.write(self.written.vertices, plus(self.lanes.place, minus(drifted.nodes, way)))
        if self.written.table is not None:
            self.lanes.push(self.written.table, now.given, drifted.given)

    def with_bodies(self, bodies: tuple[Body, ...], moves: Moves) -> Moves:
        """After contacts of rigid bodies and with blocks of ground. Robots that nothing is near to cost little."""

        def apart(moves: Moves) -> Moves:
            for name in ("corners", "vertices"):
                self.forget(name)
            return self.solved(moves, self.groups(bodies))

        def close(moves: Moves) -> Moves:
            voxels = Voxels(self.lanes)
            vertices = Vertices(self.lanes, bodies, voxels.outward())
            corners = Corners(self.lanes, voxels, bodies)
            return self.solved(moves, self.groups(bodies, vertices, corners))

        return jax.lax.cond(self.is_near(), close, apart, moves)

    def is_near(self) -> Array:
        """Whether the boxes around the robots and around a rigid body, whose sides are along the axes, overlap."""
        corners, margin = corners_of(self.lanes, range(self.plan.bodies)), self.known.margin
        least = [jnp.min(jnp.where(self.lanes.exists, place, jnp.inf)) - margin for place in self.lanes.place]
        most = [jnp.max(jnp.where(self.lanes.exists, place, -jnp.inf)) + margin for place in self.lanes.place]

        def overlaps(own: Array, axis: int) -> Array:
            point = corners.point[axis]
            low = jnp.min(jnp.where(own > 0, point - corners.radius, jnp.inf))
            high = jnp.max(jnp.where(own > 0, point + corners.radius, -jnp.inf))
            return (low < most[axis]) & (high > least[axis])

        return reduce(or_, (overlaps(own, 0) & overlaps(own, 1) for own in corners.own))

    def groups(
        self, bodies: tuple[Body, ...], vertices: Vertices | None = None, corners: Corners | None = None
    ) -> dict[str, Any]:
        """Contacts in the order in which they are solved."""
        found = {}
        if self.plan.listed:
            found["bodies"] = OfBodies(self.lanes, bodies)
        if corners is not None:
            found["corners"] = corners
        if vertices is not None:
            found["vertices"] = vertices
        if self.known.blocks is not None:
            found["blocks"] = InBlocks(self.lanes)
        return found

    def solved(self, moves: Moves, groups: dict[str, Any], *, counts: tuple[int, int] | None = None) -> Moves:
        """After contacts, whose impulses are kept for the next step; counts: iterations, and those of shifts."""
        if not groups:
            return moves
        start = [self.kept(name, group) for name, group in groups.items()]
        counts = counts or (self.plan.iterations, self.plan.shifts)
        moves, found = solved(tuple(groups.values()), start, moves, *counts, self.plan.duration)
        for (name, group), impulses in zip(groups.items(), found, strict=True):
            if name in self.written.kept:
                group.keep(self.written.kept[name], impulses)
        return moves

    def with_neighbors(self, moves: Moves) -> Moves:
        """After contacts of vertices with voxels of other robots or of their own."""
        candidates, places = Neighbors(self.lanes), self.plan.neighbors
        self.written.overflow[0] = self.known.overflow[0] + jnp.maximum(candidates.found - places, 0)

        def resolve(moves: Moves) -> Moves:
            return self.among_voxels("voxels", candidates.pairs(), moves)

        def apart(moves: Moves) -> Moves:
            self.forget("voxels")
            return moves

        return jax.lax.cond(candidates.found > 0, resolve, apart, moves)

    def with_corners_of_ground(self, moves: Moves) -> Moves:
        """After contacts of the ground's corners with voxels."""
        listed = self.known.ground_corners

        def resolve(moves: Moves) -> Moves:
            return self.among_voxels("ground corners in voxels", corners_of_ground(self.lanes, listed), moves)

        return jax.lax.cond(listed.counts[0] > 0, resolve, lambda moves: moves, moves)

    def among_voxels(self, name: str, group: Pairs, moves: Moves) -> Moves:
        return self.solved(moves, {name: group}, counts=self.plan.counts_of_voxels)

    def body(self, number: int) -> Body:
        tables = self.known.bodies
        return Body(
            center=tuple(tables.position[number, part] for part in range(2)),
            radius=tables.radius[number],
            inverse_mass=tables.inverse_mass[number],
            inverse_inertia=tables.inverse_inertia[number],
            friction=tables.friction[number],
            restitution=tables.restitution[number],
        )

    def moving(self, number: int) -> Moving:
        """A body's motion before contact."""
        tables = self.known.bodies
        return Moving(tuple(tables.velocity[number, part] for part in range(2)), tables.spin[number, 0])

    def drift(self, number: int) -> Moving:
        """By how much a body has moved and turned in the step."""
        (x, y), spin = self.moving(number)
        duration = self.plan.duration
        fell = 0.0 if self.plan.fixed[number] else 0.5 * duration * self.known.gravity
        return Moving((duration * x, duration * (y + fell)), duration * spin)

    def move(self, number: int, moving: Moving, drift: Moving, drifted: Moving) -> None:
        """Write where a body is after contact, and how it moves (vsr.physics.contact.solids.pushed)."""
        tables = self.known.bodies
        position, rotation, velocity, spin = self.written.bodies
        angle, shift = drifted.spin - drift.spin, minus(drifted.velocity, drift.velocity)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        x, y = tables.rotation[number, 0, 0], tables.rotation[number, 1, 0]
        x, y = cosine * x - sine * y, sine * x + cosine * y
        size = jax.lax.rsqrt(x * x + y * y)
        x, y = size * x, size * y
        for row, values in enumerate(((x, -y), (y, x))):
            for column, value in enumerate(values):
                rotation[number, row, column] = value
        for part in range(2):
            position[number, part] = tables.position[number, part] + shift[part]
            velocity[number, part] = moving.velocity[part]
        spin[number, 0] = moving.spin

    def kept(self, name: str, group: Any) -> tuple[Pressed, ...]:
        """Impulses to begin with: those of the step before, or none."""
        return group.kept(self.known.kept[name]) if name in self.known.kept else nothing_before(group)

    def forget(self, name: str) -> None:
        """Nothing of a group touches: there is no impulse to begin the next step with."""
        for table in self.written.kept.get(name, ()):
            *others, last = table.shape
            lane = lanes_for(last)
            for place in itertools.product(*map(range, others)):
                store(table.at[(*place, lane)], jnp.zeros(lane.shape, jnp.float32), mask=lane < last)
