"""Contacts in a GPU kernel: found and solved in one launch, with all that rigid bodies do in the step.

A warp has a world, a lane some of its vertices, voxels, corners of rigid bodies or pairs that are near each other. What
concerns a rigid body as a whole is computed in all lanes alike. Lanes add up what they found, or exchange it
through memory. Plain JAX (vsr.physics.contact.contact_step) is the reference: it needs a hundred launches for the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, kernel_call
from vsr.environment import Environment
from vsr.physics.contact.bodies import Bodies
from vsr.physics.contact.contact_step import Moves, moves_before, pushed_by_contacts
from vsr.physics.contact.gpu.bodies import among_bodies, in_blocks, masses_of, vertices_in_bodies
from vsr.physics.contact.gpu.corners import Neighbors, bodies_in_voxels, corners_of, corners_of_ground
from vsr.physics.contact.gpu.lanes import Group, Lanes, lanes_for, numbers_of, write, write_numbers
from vsr.physics.contact.gpu.tables import Known, Outcome, Plan, Shared
from vsr.physics.contact.gpu.voxels import Voxels
from vsr.physics.contact.solids import bodies_of, flown
from vsr.physics.contact.solver import Counts, Impulse, no_impulse, solve


@partial(jax.jit, static_argnames="plan")
def launch(known: Known, plan: Plan) -> Outcome:
    """One step's contacts of one world; `vmap` adds worlds as an axis of the grid."""
    arrays, places = jax.tree.flatten(known)
    # Numbers of the whole world travel together; scalars of their own cost a launch each.
    numbers = [leaf for leaf in arrays if leaf.ndim == 0]
    tables = [leaf for leaf in arrays if leaf.ndim]
    single = tuple(leaf.ndim == 0 for leaf in arrays)
    moving: tuple[Any, ...] = known.robots.moving
    bodies, kind = known.bodies, known.inverse_mass.dtype
    vectors = jax.ShapeDtypeStruct((plan.dimension, plan.vertices), kind)
    results = Outcome(
        moving,
        vectors,
        None if moving else vectors,
        vectors,
        None if bodies is None else bodies.state,
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
        aliases={1 + [leaf is one for leaf in tables].index(True): place for place, one in enumerate(moving)},
        interpret=plan.interpret,
        name="meet",
    )(jnp.stack(numbers), *tables)
    return jax.tree.unflatten(shape, after)


def _shared(plan: Plan, kind: jnp.dtype) -> Shared:
    vertices, cells, points, candidates = plan.vertices, plan.cells, max(1, plan.points), max(1, plan.neighbors)
    axes, bodies = plan.dimension, max(1, plan.bodies)
    shapes = Shared(
        position=(axes, vertices),
        lever=(axes, vertices),
        velocity=(axes, vertices),
        outward=(axes, vertices),
        load=(vertices,),
        middle=(axes, cells),
        low=(axes, cells),
        high=(axes, cells),
        center=(bodies, axes),
        rotation=(bodies, axes, axes),
        cell=(points,),
        vertex=(points,),
        touches=(points,),
        weight=(2**axes, points),
        impulse=(axes, points),
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
        self.plan, self.known, self.written, self.shared = plan, known, written, shared
        self.lanes = Lanes(plan, known, shared)

    def run(self) -> None:
        nodes, tables, duration = self.lanes.nodes, self.known.bodies, self.plan.duration
        way = nodes.position - self.lanes.of_vertices(self.known.vertices)
        if tables is None:
            moves = moves_before(self.lanes.velocity, way, None, None, duration)
            moves = self.solved(moves, self.groups(None))
        else:
            masses, before = masses_of(self.lanes), jax.tree.map(numbers_of, tables.state)
            after = flown(masses, before, Environment(gravity=self.known.gravity), duration)
            write_numbers(self.shared.center, after.position)
            write_numbers(self.shared.rotation, after.rotation)
            moves = drift = moves_before(self.lanes.velocity, way, before, after, duration)
            moves = self.with_bodies(bodies_of(masses, after), moves)
            shift = jax.tree.map(jnp.subtract, moves[1], drift[1])
            after = pushed_by_contacts(masses, after, moves[0], shift)
            jax.tree.map(write_numbers, self.written.bodies, after)
        if self.known.may_touch is not None:
            moves = self.with_neighbors(moves)
        if self.known.ground_corners is not None:
            moves = self.with_corners_of_ground(moves)
        now, drifted = moves
        self.lanes.write(self.written.given, now.given)
        self.lanes.write(self.written.vertices, nodes.position + (drifted.nodes - way))
        if self.written.robots:
            self.lanes.push(self.written.robots, now.given, drifted.given)
        else:
            self.lanes.write(self.written.shift, drifted.given)

    def with_bodies(self, bodies: Bodies, moves: Moves) -> Moves:
        """After contacts of rigid bodies and with blocks of ground. Robots that nothing is near to cost little."""

        def apart(moves: Moves) -> Moves:
            for name in ("corners", "vertices"):
                self.forget(name)
            return self.solved(moves, self.groups(bodies))

        def close(moves: Moves) -> Moves:
            voxels = Voxels(self.lanes)
            vertices = vertices_in_bodies(self.lanes, bodies, voxels.outward())
            return self.solved(moves, self.groups(bodies, vertices, bodies_in_voxels(self.lanes, voxels, bodies)))

        return jax.lax.cond(self.is_near(), close, apart, moves)

    def is_near(self) -> Array:
        """Whether the boxes around the robots and around a rigid body, whose sides are along the axes, overlap."""
        corners, margin = corners_of(self.lanes, range(self.plan.bodies)), self.known.margin
        place, exists = self.lanes.nodes.position, self.lanes.nodes.exists
        least = jnp.where(exists, place, jnp.inf).min(1) - margin
        most = jnp.where(exists, place, -jnp.inf).max(1) + margin
        own = corners.own > 0
        low = jnp.where(own, (corners.point - corners.radius)[:, None], jnp.inf).min(2)
        high = jnp.where(own, (corners.point + corners.radius)[:, None], -jnp.inf).max(2)
        return ((low < most[:, None]) & (high > least[:, None])).all(0).any()

    def groups(
        self, bodies: Bodies | None, vertices: Group | None = None, corners: Group | None = None
    ) -> dict[str, Group]:
        """Contacts in the order in which they are solved."""
        found = {}
        if bodies is not None and self.plan.listed:
            found["bodies"] = among_bodies(self.lanes, bodies)
        if corners is not None:
            found["corners"] = corners
        if vertices is not None:
            found["vertices"] = vertices
        if self.known.blocks is not None:
            found["blocks"] = in_blocks(self.lanes)
        return found

    def solved(self, moves: Moves, groups: dict[str, Group], *, counts: tuple[int, int] | None = None) -> Moves:
        """After contacts, whose impulses are kept for the next step; counts: iterations, and those of shifts."""
        if not groups:
            return moves
        kept, contacts = self.known.kept, [group.contact for group in groups.values()]
        passes = tuple(self.plan.passes if name == "bodies" else 1 for name in groups)
        often = Counts(*(counts or (self.plan.iterations, self.plan.shifts)), passes)

        def resolve(moves: Moves) -> tuple[Moves, tuple[Impulse, ...]]:
            start = [
                group.kept(kept[name]) if name in kept else no_impulse(group.contact) for name, group in groups.items()
            ]
            now, drift, found = solve(*moves, contacts, start, often, self.plan.duration)
            return (now, drift), found

        def apart(moves: Moves) -> tuple[Moves, tuple[Impulse, ...]]:
            return moves, tuple(map(no_impulse, contacts))

        touching = jnp.stack([contact.touches.any() for contact in contacts]).any()
        moves, found = jax.lax.cond(touching, resolve, apart, moves)
        for (name, group), impulse in zip(groups.items(), found, strict=True):
            if name in self.written.kept:
                group.keep(self.written.kept[name], impulse)
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

    def among_voxels(self, name: str, group: Group, moves: Moves) -> Moves:
        return self.solved(moves, {name: group}, counts=self.plan.counts_of_voxels)

    def forget(self, name: str) -> None:
        """Nothing of a group touches: there is no impulse to begin the next step with."""
        for table in self.written.kept.get(name, ()):
            lane, _, active = lanes_for(table.shape[-1])
            write(table, lane, jnp.zeros((*table.shape[:-1], lane.size)), active)
