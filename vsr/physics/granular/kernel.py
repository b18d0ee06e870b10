"""Contacts of grains answered in a GPU kernel: one launch an iteration, a lane for every grain.

A lane reads where its neighbors are and how they move, mostly from the cache, answers for its own side of every
contact and adds up. Both sides compute from the same numbers (vsr.physics.granular.contact), so nothing is exchanged
within a launch, momentum is kept, and a run repeats to the last bit. Impulses stay where they are, in the slots of the
list. The last launch of a step also moves the grains.

Worlds of a batch are an axis of the launch's grid. What robots and free bodies do between two iterations is plain JAX.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, Table, kernel_call, load, power_of_two, program_id, store
from vsr.compute.vector import Vector, dot, join, minus, plus, split, times
from vsr.environment.surfaces import combined_friction
from vsr.physics.granular.bodies import moment
from vsr.physics.granular.cells import difference
from vsr.physics.granular.contact import (
    NEVER,
    Pairs,
    answered,
    at_surface,
    pair_contact,
    rolled,
    share_across,
    shift,
    wanted_parting,
    wanted_return,
)
from vsr.physics.granular.encounter import Encounter
from vsr.physics.granular.model import SLOP, GrainModel, PairNumbers, each, inertia_factor
from vsr.physics.granular.solver import Solved, numbers_of_pairs, share_of_body
from vsr.sdf import Ridge
from vsr.terrain.surface import by_numbers

LANES = 128
"""Grains of one program."""
TOGETHER = {2: 3, 3: 5}
"""Neighbors that are read at once, in 2-D and 3-D."""


class _Of(NamedTuple):
    """Numbers of grains: the same for all, (), or of each, (n,)."""

    radius: Any
    mass: Any
    friction: Any


class _KernelBody(NamedTuple):
    """One body as grains touch it in a step."""

    gap: Any
    """[m], (n,); None of ground that a lane works out for itself"""
    normal: Any
    """(dimension, n); None likewise"""
    ground: Any
    """a convex terrain by the numbers of its lines; None of other bodies"""
    friction: Any
    """of its surface, ()"""
    share: Any
    """impulse over speed [kg], () or (n,)"""


class _Fixed(NamedTuple):
    """What a launch reads and no iteration changes."""

    position: Any
    """(dimension, n)"""
    velocity: Any
    """at the start of the step [m/s], (dimension, n)"""
    weight: Any
    """velocity that gravity takes in a step [m/s], ()"""
    spin: Any
    """at the start of the step, (1 or 3, n); or None"""
    neighbor: Any
    """(slots, n)"""
    neighbors: Any
    """how many of a grain's slots are used, the first of them, (n,)"""
    pair: Any
    """PairNumbers, (slots, n) or () each"""
    own: _Of
    rolling: Any
    """coefficient of rolling friction, (); or None"""
    duration: Any
    """[s], ()"""
    rate: Any
    """1 / duration [1/s], ()"""
    bodies: tuple[_KernelBody, ...]


class _Now(NamedTuple):
    """What every iteration changes: impulses as in GrainState, and how grains move under them."""

    impulse: Any
    rolling: Any
    body_impulse: Any
    velocity: Any
    """(dimension, n)"""
    spin: Any
    """(1 or 3, n); or None"""


class _Outside(NamedTuple):
    """What an iteration gets from robots and bodies that move."""

    velocity: Any
    """that robots give to grains [m/s], (dimension, n); None if there are none"""
    spin: Any
    speeds: tuple[Any, ...]
    """of each body where it is touched [m/s], (dimension, n); None of those at rest"""


class _Moved(NamedTuple):
    """What only the last launch gives."""

    position: Any
    received: Any
    received_turning: Any


@dataclass(frozen=True)
class _Plan:
    """What the program depends on."""

    count: int
    """grains"""
    dimension: int
    slots: int
    turning: int
    """components of spin, 0 if grains do not turn"""
    free: tuple[bool, ...]
    """of each body, whether it moves freely"""
    last: bool
    interpret: bool


def solve(encounter: Encounter, *, interpret: bool) -> Solved:
    """A step, one launch an iteration."""
    grains, state = encounter.grains, encounter.state
    known = _known(encounter)
    velocity, spin = encounter.start
    now = _Now(
        impulse=state.impulse,
        rolling=state.rolling,
        body_impulse=state.body_impulse if encounter.solids else None,
        velocity=join(velocity, 0),
        spin=None if spin is None else join(spin, 0),
    )
    robots = tuple(split(contacts.impulse, 0) for contacts in state.robots)
    moved = None
    for iteration in range(grains.iterations):
        robots, outside = _outside(encounter, robots, now)
        now, moved = _launch(
            grains, known, now, outside, _plan(encounter, iteration + 1 == grains.iterations, interpret)
        )
    assert moved is not None
    return Solved(
        position=moved.position,
        velocity=now.velocity,
        spin=now.spin,
        received=moved.received,
        received_turning=moved.received_turning,
        impulse=now.impulse,
        rolling=now.rolling,
        body_impulse=now.body_impulse if encounter.solids else state.body_impulse,
        robots=tuple(join(part, 0) for part in robots),
    )


def _plan(encounter: Encounter, last: bool, interpret: bool) -> _Plan:
    grains, spin = encounter.grains, encounter.state.spin
    return _Plan(
        count=grains.count,
        dimension=grains.dimension,
        slots=grains.slots,
        turning=0 if spin is None else spin.shape[0],
        free=tuple(body.is_free for body in encounter.solids),
        last=last,
        interpret=interpret,
    )


def _known(encounter: Encounter) -> _Fixed:
    grains, state = encounter.grains, encounter.state
    dtype = state.position.dtype
    own = _Of(*(each(number, state) for number in (grains.radius, grains.mass, grains.friction)))
    bodies = tuple(_kernel_body(encounter, number, dtype) for number in range(len(encounter.solids)))
    return _Fixed(
        position=state.position,
        velocity=state.velocity,
        weight=jnp.asarray(encounter.duration * encounter.environment.gravity, dtype),
        spin=state.spin,
        neighbor=state.neighbor,
        neighbors=state.neighbors,
        pair=numbers_of_pairs(grains, state),
        own=own,
        rolling=grains.rolling,
        duration=jnp.asarray(encounter.duration, dtype),
        rate=jnp.asarray(encounter.rate, dtype),
        bodies=bodies,
    )


def _kernel_body(encounter: Encounter, number: int, dtype: Any) -> _KernelBody:
    """A body of the step."""
    body, touched = encounter.solids[number], encounter.touches[number]
    shape, friction, share = body.shape, jnp.asarray(body.friction, dtype), share_of_body(encounter, number)
    line = shape.ground.line if isinstance(shape, Ridge) else None
    if line is not None and line.convex:
        return _KernelBody(None, None, by_numbers(line), friction, share)
    wide = partial(jnp.broadcast_to, shape=(encounter.grains.count,))
    return _KernelBody(wide(touched.gap), jnp.stack([wide(part) for part in touched.normal]), None, friction, share)


def _outside(encounter: Encounter, robots: tuple[Vector, ...], now: _Now) -> tuple[tuple[Vector, ...], _Outside]:
    """Robots' contacts after one more answer, and what grains feel of robots and bodies in this iteration."""
    speeds = encounter.speeds_of_bodies(split(now.body_impulse, 1)) if encounter.solids else ()
    surfaces = tuple(
        None if speed is None else jnp.stack([jnp.broadcast_to(part, (encounter.grains.count,)) for part in speed])
        for speed in speeds
    )
    if not robots:
        return robots, _Outside(None, None, surfaces)
    spin = None if now.spin is None else split(now.spin, 0)
    robots = encounter.against_robots(robots, split(now.velocity, 0), spin)
    velocity, turning = encounter.gained(robots)
    return robots, _Outside(join(velocity, 0), None if turning is None else join(turning, 0), surfaces)


# Compiled, so that it is translated once, however often it is called.
@partial(jax.jit, static_argnames=("plan",))
def _launch(grains: GrainModel, known: _Fixed, now: _Now, outside: _Outside, plan: _Plan) -> tuple[_Now, _Moved | None]:
    # Of the model the program itself uses only what is static; its numbers are among those known.
    bare = replace(grains, **dict.fromkeys(("start", "radius", "mass", "friction", "bodies")))
    lanes = LANES if not plan.interpret else max(WARP, min(1024, power_of_two(plan.count)))
    kept, changing = (now.impulse, now.rolling, now.body_impulse), (now.velocity, now.spin)
    moved = _Moved(known.position, known.position, known.spin) if plan.last else None
    inputs, places = jax.tree.flatten((kept, changing, known, outside))
    results, shape = jax.tree.flatten((kept, changing, moved))
    # Numbers that are the same for all grains travel together; scalars of their own cost a launch each.
    numbers = [leaf for leaf in inputs if leaf.ndim == 0]
    arrays = [leaf for leaf in inputs if leaf.ndim]
    single = tuple(leaf.ndim == 0 for leaf in inputs)

    def program(*references: Any) -> None:
        together, *tables = references[: len(arrays) + 1]
        every, many = iter(range(len(numbers))), iter(tables)
        filled = [together[next(every)] if alone else next(many) for alone in single]
        written = references[len(arrays) + 1 :]
        _program(bare, plan, lanes, jax.tree.unflatten(places, filled), jax.tree.unflatten(shape, written))

    in_place = len(jax.tree.leaves(kept))
    after = kernel_call(
        program,
        programs=-(-plan.count // lanes),
        lanes=lanes,
        results=results,
        aliases={1 + place: place for place in range(in_place)},
        interpret=plan.interpret,
        name="answer_contacts",
    )(jnp.stack(numbers), *arrays)
    (impulse, rolling, bodies), (velocity, spin), moved = jax.tree.unflatten(shape, after)
    return _Now(impulse, rolling, bodies, velocity, spin), moved


class _Lanes(NamedTuple):
    """Grains of a program, or one neighbor of each."""

    row: Array
    """of the grain in all arrays; always one that is there"""
    active: Array
    """whether a lane has something to say"""

    def number(self, given: Any) -> Any:
        """A number of grains; one that is the same for all stays as it is."""
        return load(given.at[self.row]) if _is_table(given) else given

    def vector(self, given: Any) -> Vector:
        """Of (components, grains)."""
        return tuple(load(given.at[part, self.row]) for part in range(given.shape[0]))

    def kept(self, given: Any, slot: Any) -> Vector:
        """What was kept in a slot, of (slots, components, grains); nothing where a lane has nothing to say."""
        return tuple(load(given.at[slot, part, self.row], mask=self.active, other=0) for part in range(given.shape[1]))

    def put(self, given: Any, values: Vector, *slot: Any) -> None:
        """Into (components, grains), or a slot of such."""
        for part, value in enumerate(values):
            store(given.at[(*slot, part, self.row)], value, mask=self.active)


def _is_table(given: Any) -> bool:
    return isinstance(given, Table)


class _Neighbor(NamedTuple):
    """What lanes read of one of their neighbors."""

    lanes: _Lanes
    pair: PairNumbers
    position: Vector
    velocity: Vector
    spin: Vector | None
    impulse: Vector
    rolling: Vector | None


def _program(grains: GrainModel, plan: _Plan, lanes: int, inputs: Any, results: Any) -> None:
    """One more answer of all contacts of a program's grains."""
    _, (velocity_before, spin_before), known, outside = inputs
    (impulse, rolling, body_impulse), (velocity_after, spin_after), moved = results
    lane = program_id() * lanes + jnp.arange(lanes, dtype=jnp.int32)
    # Lanes beyond the last grain read of it what they like, but keep and write nothing.
    own, mine = _Lanes(jnp.minimum(lane, plan.count - 1), lane < plan.count), _Lanes(lane, lane < plan.count)
    still = jnp.zeros(lanes, jnp.float32)
    here, velocity = own.vector(known.position), own.vector(velocity_before)
    spin = None if spin_before is None else own.vector(spin_before)
    numbers = _Of(*(own.number(number) for number in known.own))
    used, together = own.number(known.neighbors), TOGETHER[plan.dimension]
    nothing: Vector = (still,) * plan.dimension
    sums = nothing, nothing if plan.last else (), (still,) * plan.turning

    def read(slot: Any, using: _Lanes, place: Array) -> _Neighbor:
        listed = _Lanes(place, using.active)
        return _Neighbor(
            lanes=using,
            impulse=using.kept(impulse, slot),
            rolling=None if rolling is None else using.kept(rolling, slot),
            pair=PairNumbers(*(_in_slot(using, number, slot) for number in known.pair)),
            position=listed.vector(known.position),
            velocity=listed.vector(velocity_before),
            spin=None if spin_before is None else listed.vector(spin_before),
        )

    def answer_slots(turn: Any, sums: tuple[Vector, Vector, Vector]) -> tuple[Vector, Vector, Vector]:
        """Contacts with some neighbors; sums: impulse, way out, turning impulse."""
        slots = [turn * together + number for number in range(together)]
        # All reads come before the first write, and all places before what is there, so that none waits for another.
        users = [_Lanes(lane, mine.active & (slot < used)) for slot in slots]
        places = [
            load(known.neighbor.at[slot, lane], mask=using.active, other=own.row)
            for slot, using in zip(slots, users, strict=True)
        ]
        others = [read(*given) for given in zip(slots, users, places, strict=True)]
        for slot, other in zip(slots, others, strict=True):
            given, resisted, apart, turned = _pair_answer(
                grains, plan, here, velocity, spin, numbers, other, known.rate, known.rolling
            )
            other.lanes.put(impulse, given, slot)
            if rolling is not None and resisted is not None:
                other.lanes.put(rolling, resisted, slot)
            push, out, turning = sums
            sums = plus(push, given), plus(out, apart), plus(turning, turned)
        return sums

    sums = jax.lax.fori_loop(0, (jnp.max(used) + together - 1) // together, answer_slots, sums)
    push, out, turn = sums
    for number, body in enumerate(known.bodies):
        speed = None if outside.speeds[number] is None else own.vector(outside.speeds[number])
        share = own.number(body.share)
        if body.ground is None:
            touched = body._replace(gap=own.number(body.gap), normal=own.vector(body.normal), share=share)
        else:
            gap, normal = _over_ground(body.ground, here, numbers.radius)
            touched = body._replace(gap=gap, normal=normal, ground=None, share=share)
        before = mine.kept(body_impulse, number)
        given, apart, turned = _body_answer(
            grains, plan, plan.free[number], velocity, spin, numbers, touched, speed, before, known.rate
        )
        mine.put(body_impulse, given, number)
        push, out, turn = plus(push, given), plus(out, apart), plus(turn, turned)
    *level, up = own.vector(known.velocity)
    falling = (*level, up - known.weight)
    after = tuple(v + part / numbers.mass for v, part in zip(falling, push, strict=True))
    if outside.velocity is not None:
        after = plus(after, own.vector(outside.velocity))
    mine.put(velocity_after, after)
    if spin_after is not None:
        inertia = inertia_factor(plan.dimension) * numbers.mass * numbers.radius * numbers.radius
        turned = tuple(w + part / inertia for w, part in zip(own.vector(known.spin), turn, strict=True))
        mine.put(spin_after, turned if outside.spin is None else plus(turned, own.vector(outside.spin)))
    if moved is not None:
        mine.put(moved.position, plus(plus(here, times(known.duration, after)), out))
        mine.put(moved.received, push)
        if plan.turning:
            mine.put(moved.received_turning, turn)


def _in_slot(lanes: _Lanes, number: Any, slot: Any) -> Any:
    """A number of pairs: of each, or the same for all."""
    return load(number.at[slot, lanes.row], mask=lanes.active, other=1) if _is_table(number) else number


def _pair_answer(
    grains: GrainModel,
    plan: _Plan,
    here: Vector,
    velocity: Vector,
    spin: Vector | None,
    numbers: _Of,
    other: _Neighbor,
    rate: Any,
    coefficient: Any,
) -> tuple[Vector, Vector | None, Vector, Vector]:
    """Of contacts with one neighbor: impulse, rolling impulse, way out of it, and turning impulse.

    A lane without a neighbor is its own: the normal is 0, the bias is NEVER, and all of this comes to 0 by itself.
    """
    active, pair = other.lanes.active, other.pair
    between = difference(grains.box, here, other.position)
    squared = jnp.where(active, dot(between, between), 1)
    inverse = jax.lax.rsqrt(squared)
    normal, distance = times(inverse, between), squared * inverse
    model = replace(grains, friction=numbers.friction if pair.friction is None else pair.friction)
    pairs, apart = pair_contact(model, pair, numbers.radius, normal, distance, ~active, rate)
    relative = minus(
        at_surface(velocity, spin, normal, -numbers.radius), at_surface(other.velocity, other.spin, normal, pair.far)
    )
    given = answered(other.impulse, relative, pairs)
    apart = apart if plan.last else ()
    if spin is None or other.spin is None or other.rolling is None:
        return given, None, apart, ()
    press, smaller = dot(given, normal), jnp.minimum(numbers.radius, pair.far)
    resisted = rolled(other.rolling, minus(spin, other.spin), press, pairs.share, smaller, coefficient)
    return given, resisted, apart, plus(times(-numbers.radius, moment(normal, given)), resisted)


def _over_ground(ground: Any, here: Vector, radius: Any) -> tuple[Array, Vector]:
    """Gap [m] and normal."""
    distance, normal = Ridge(ground).distance_and_normal(here)
    return distance - radius, normal


def _body_answer(
    grains: GrainModel,
    plan: _Plan,
    free: bool,
    velocity: Vector,
    spin: Vector | None,
    numbers: _Of,
    body: _KernelBody,
    speed: Vector | None,
    before: Vector,
    rate: Any,
) -> tuple[Vector, Vector, Vector]:
    """Of contacts with one body: impulse, way out of it, and turning impulse."""
    slop = SLOP * grains.largest
    bias = wanted_return(body.gap, slop, rate) if free else wanted_parting(body.gap, rate)
    pairs = Pairs(
        normal=body.normal,
        bias=jnp.where(body.gap > grains.skin, NEVER, bias),
        friction=combined_friction(numbers.friction, body.friction),
        share=body.share,
        share_across=share_across(grains, body.share),
    )
    relative = at_surface(velocity, spin, body.normal, -numbers.radius)
    relative = relative if speed is None else minus(relative, speed)
    given = answered(before, relative, pairs)
    turned = times(-numbers.radius, moment(body.normal, given)) if plan.turning else ()
    apart = times(shift(body.gap, slop), body.normal) if plan.last else ()
    return given, apart, turned
