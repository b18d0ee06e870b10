"""Contacts of grains answered in a GPU kernel, a lane for every grain: one launch a step, or one an iteration.

A lane reads where its neighbors are and how they move, mostly from the cache, answers for its own side of every
contact and adds up. Both sides compute from the same numbers (vsr.physics.granular.contact), so nothing is exchanged
within a launch, momentum is kept, and a run repeats to the last bit. Impulses stay where they are, in the slots of the
list. The last launch of a step also moves the grains.

Worlds of a batch are an axis of the launch's grid. A small world is one program, which answers again and again and
moves the grains. Robots' contacts are functions of arrays in it, the same that plain JAX runs
(vsr.compute.gpu.turns.Inside). Of a large world a program has some grains and answers once; robots and bodies are plain
JAX between two launches, and so they are where bodies move freely.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, Table, kernel_call, load, power_of_two, program_id, store
from vsr.compute.gpu.turns import Entries, Inside, room
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

LANES, MOST_LANES = 128, 1024
"""Grains of one program: of a large world, and at most of a small one."""
ENTRIES = 3
"""Of an array of robots' contacts, in a lane of a small world's program."""
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
    """What only the end of a step gives."""

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


class _Sums(NamedTuple):
    """What all contacts of a grain with grains and bodies come to."""

    push: Vector
    """[N s]"""
    out: Vector
    """how far it is moved out of them [m]; nothing but at the end of a step"""
    turn: Vector
    """[N m s]"""


class _OnChip(NamedTuple):
    """Scratch tables of a program that has a world."""

    standing: Any
    """contacts with robots, as through a step"""
    impulses: Any
    """of these, (dimension, m) for each robot"""
    moving: Any
    """velocity and spin of grains, (components, n)"""
    gained: Any
    """what robots give to these; None without robots"""
    exchange: Any
    """for functions of arrays"""


class _Robots(NamedTuple):
    """Robots' part in a step, as functions of arrays."""

    begin: Inside
    """contacts, their impulses, and how grains move under all impulses kept"""
    answer: Inside
    """the impulses after one more answer, and what they give to grains; of all that"""
    end: Inside
    """states of robots, and the impulses; of contacts and impulses"""

    @classmethod
    def of(cls, encounter: Encounter) -> _Robots:
        def begin() -> Any:
            contact = replace(encounter, standing=encounter.stands())
            impulses = tuple(split(contacts.impulse, 0) for contacts in contact.state.robots)
            return contact.standing, impulses, contact.start

        def answer(standing: Any, impulses: Any, moving: tuple[Vector, Vector | None]) -> Any:
            contact = replace(encounter, standing=standing)
            impulses = contact.against_robots(impulses, *moving)
            return impulses, contact.gained(impulses)

        def end(standing: Any, impulses: Any) -> Any:
            robots = replace(encounter, standing=standing).robots_after(impulses)
            return tuple(robot.state for robot in robots), tuple(join(part, 0) for part in impulses)

        known = jax.eval_shape(begin)
        return cls(Inside(begin), Inside(answer, *known), Inside(end, *known[:2]))


def solve(encounter: Encounter, *, interpret: bool) -> Solved:
    """A step."""
    if encounter.grains.count <= MOST_LANES and not any(body.is_free for body in encounter.solids):
        robots = _Robots.of(encounter)
        if all(part.is_small for part in robots):
            return _by_one_launch(encounter, robots, interpret)
    return _by_a_launch_each(encounter, interpret)


def _by_one_launch(encounter: Encounter, robots: _Robots, interpret: bool) -> Solved:
    """All iterations in a program."""
    grains, state, plan = encounter.grains, encounter.state, _plan(encounter, True, interpret)
    known, bare, iterations = _known(encounter), _bare(grains), grains.iterations
    entries = max(part.largest for part in robots) if encounter.robots else 1
    lanes = WARP * math.ceil(min(max(grains.count, entries / ENTRIES), MOST_LANES) / WARP)
    with_robots = bool(encounter.robots)
    kept = state.impulse, state.rolling, state.body_impulse if encounter.solids else None
    moving, pushes = (state.velocity, state.spin), tuple(contacts.impulse for contacts in state.robots)
    numbers, arrays, put_together = _taken_apart((kept, known, _surfaces(encounter, state.body_impulse)))
    first = [*itertools.accumulate((len(part.numbers) for part in robots), initial=len(numbers))]
    numbers += [number for part in robots for number in part.numbers.values()]
    constants = [[*part.arrays.values()] for part in robots]
    changed = [leaf for place, leaf in enumerate(robots.end.shapes) if place not in robots.end.known]
    results, structure = jax.tree.flatten((kept, moving, _moved_like(known), changed))
    scratch, on_chip = jax.tree.flatten(
        _OnChip(
            standing=jax.tree.unflatten(robots.begin.structure, robots.begin.shapes)[0],
            impulses=pushes,
            moving=moving,
            gained=moving if with_robots else (None, None),
            exchange=room([part.plan for part in robots], lanes),
        )
    )

    def program(*tables: Table) -> None:
        each = iter(tables)
        together, given = next(each), _first(each, len(arrays))
        own = [_first(each, len(part)) for part in constants]
        kept, after, moved, changed = jax.tree.unflatten(structure, _first(each, len(results)))
        here: _OnChip = jax.tree.unflatten(on_chip, [*each])
        _, known, speeds = put_together(together, given)
        begin, answer, end = (
            partial(part, lanes, Entries(together, number), mine, here.exchange)
            for part, number, mine in zip(robots, first, own, strict=False)
        )
        standing = [Entries(table.flat, 0) for table in jax.tree.leaves(here.standing)]
        impulses, moving, gained = map(_rows, (here.impulses, here.moving, here.gained))
        begin([], [*standing, *impulses, *moving])

        def iteration(_: Any, sums: _Sums) -> _Sums:
            if with_robots:
                answer([*standing, *impulses, *moving], [*impulses, *gained])
            outside = _Outside(here.gained[0], here.gained[1], speeds)
            sums, now = _answers(bare, plan, lanes, here.moving, known, outside, kept)
            _write(plan, lanes, here.moving, now)
            return sums

        sums = jax.lax.fori_loop(0, iterations, iteration, _nothing(plan, lanes))
        velocity, spin = (() if table is None else _own(plan, lanes).vector(table) for table in here.moving)
        _write(plan, lanes, after, (velocity, spin))
        _move(plan, lanes, known, velocity, sums, moved)
        tables_after = iter(changed)
        written = [None if place in robots.end.known else Entries(next(tables_after).flat, 0) for place in every_result]
        end([*standing, *impulses], written)

    every_result = range(len(robots.end.shapes))
    found = kernel_call(
        program,
        programs=1,
        lanes=lanes,
        results=results,
        scratch=scratch,
        aliases={1 + place: place for place in range(len(jax.tree.leaves(kept)))},
        interpret=interpret,
        resident=2 if lanes <= 512 else 1,
        name="step_grains",
    )(jnp.stack(numbers), *arrays, *itertools.chain(*constants))
    (impulse, rolling, bodies), (velocity, spin), moved, changed = jax.tree.unflatten(structure, found)
    written = iter(changed)
    states, pushes = jax.tree.unflatten(
        robots.end.structure,
        [robots.end.known[place] if place in robots.end.known else next(written) for place in every_result],
    )
    return Solved(
        position=moved.position,
        velocity=velocity,
        spin=spin,
        received=moved.received,
        received_turning=moved.received_turning,
        impulse=impulse,
        rolling=rolling,
        body_impulse=state.body_impulse if bodies is None else bodies,
        robots=pushes,
        pushed=tuple(robot._replace(state=after) for robot, after in zip(encounter.robots, states, strict=True)),
    )


def _first(tables: Iterator[Table], count: int) -> list[Table]:
    return [*itertools.islice(tables, count)]


def _rows(tables: Any) -> list[Entries]:
    """Of all tables, one after the other."""
    return [
        Entries(table.flat, row * table.shape[1]) for table in jax.tree.leaves(tables) for row in range(table.shape[0])
    ]


def _by_a_launch_each(encounter: Encounter, interpret: bool) -> Solved:
    """One launch an iteration."""
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
        pushed=encounter.robots_after(robots),
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
    surfaces = _surfaces(encounter, now.body_impulse)
    if not robots:
        return robots, _Outside(None, None, surfaces)
    spin = None if now.spin is None else split(now.spin, 0)
    robots = encounter.against_robots(robots, split(now.velocity, 0), spin)
    velocity, turning = encounter.gained(robots)
    return robots, _Outside(join(velocity, 0), None if turning is None else join(turning, 0), surfaces)


def _surfaces(encounter: Encounter, impulses: Any) -> tuple[Any, ...]:
    """Speed of each body where grains touch it [m/s], (dimension, n); None of those at rest."""
    if not encounter.solids:
        return ()
    return tuple(
        None if speed is None else jnp.stack([jnp.broadcast_to(part, (encounter.grains.count,)) for part in speed])
        for speed in encounter.speeds_of_bodies(split(impulses, 1))
    )


def _bare(grains: GrainModel) -> GrainModel:
    """What programs use of the model itself is static; its numbers are among those known."""
    return replace(grains, **dict.fromkeys(("start", "radius", "mass", "friction", "bodies")))


def _moved_like(known: _Fixed) -> _Moved:
    return _Moved(known.position, known.position, known.spin)


def _taken_apart(values: Any) -> tuple[list[Any], list[Any], Callable[[Table, Sequence[Table]], Any]]:
    """Numbers that are the same for all grains, and arrays; and what puts tables together again.

    The numbers travel together; scalars of their own cost a launch each.
    """
    leaves, structure = jax.tree.flatten(values)
    single = [leaf.ndim == 0 for leaf in leaves]

    def together(numbers: Table, tables: Sequence[Table]) -> Any:
        every, many = iter(range(sum(single))), iter(tables)
        return structure.unflatten([numbers[next(every)] if alone else next(many) for alone in single])

    return [leaf for leaf in leaves if leaf.ndim == 0], [leaf for leaf in leaves if leaf.ndim], together


# Compiled, so that it is translated once, however often it is called.
@partial(jax.jit, static_argnames=("plan",))
def _launch(grains: GrainModel, known: _Fixed, now: _Now, outside: _Outside, plan: _Plan) -> tuple[_Now, _Moved | None]:
    bare = _bare(grains)
    lanes = LANES if not plan.interpret else max(WARP, min(1024, power_of_two(plan.count)))
    kept, changing = (now.impulse, now.rolling, now.body_impulse), (now.velocity, now.spin)
    numbers, arrays, put_together = _taken_apart((kept, changing, known, outside))
    results, shape = jax.tree.flatten((kept, changing, _moved_like(known) if plan.last else None))

    def program(together: Table, *tables: Table) -> None:
        _, before, known, outside = put_together(together, tables[: len(arrays)])
        kept, after, moved = jax.tree.unflatten(shape, tables[len(arrays) :])
        sums, now = _answers(bare, plan, lanes, before, known, outside, kept)
        _write(plan, lanes, after, now)
        if moved is not None:
            _move(plan, lanes, known, now[0], sums, moved)

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


def _own(plan: _Plan, lanes: int) -> _Lanes:
    """The program's grains. Lanes beyond the last grain read of it what they like, but keep and write nothing."""
    lane = program_id() * lanes + jnp.arange(lanes, dtype=jnp.int32)
    return _Lanes(jnp.minimum(lane, plan.count - 1), lane < plan.count)


def _nothing(plan: _Plan, lanes: int) -> _Sums:
    still = jnp.zeros(lanes, jnp.float32)
    return _Sums((still,) * plan.dimension, (still,) * plan.dimension if plan.last else (), (still,) * plan.turning)


def _answers(
    grains: GrainModel, plan: _Plan, lanes: int, before: Any, known: _Fixed, outside: _Outside, kept: Any
) -> tuple[_Sums, tuple[Vector, Vector | None]]:
    """One more answer of all contacts of a program's grains: what they come to, and velocity and spin after it.

    before: velocity and spin; kept: impulses, which are written.
    """
    (velocity_before, spin_before), (impulse, rolling, body_impulse) = before, kept
    own = _own(plan, lanes)
    here, velocity = own.vector(known.position), own.vector(velocity_before)
    spin = None if spin_before is None else own.vector(spin_before)
    numbers = _Of(*(own.number(number) for number in known.own))
    used, together = own.number(known.neighbors), TOGETHER[plan.dimension]

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

    def answer_slots(turn: Any, sums: _Sums) -> _Sums:
        """Contacts with some neighbors."""
        slots = [turn * together + number for number in range(together)]
        # All reads come before the first write, and all places before what is there, so that none waits for another.
        users = [_Lanes(own.row, own.active & (slot < used)) for slot in slots]
        places = [
            load(known.neighbor.at[slot, own.row], mask=using.active, other=own.row)
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
            sums = _Sums(plus(sums.push, given), plus(sums.out, apart), plus(sums.turn, turned))
        return sums

    turns = (jnp.max(used) + together - 1) // together
    sums = jax.lax.fori_loop(0, turns, answer_slots, _nothing(plan, lanes))
    push, out, turn = sums
    for number, body in enumerate(known.bodies):
        speed = None if outside.speeds[number] is None else own.vector(outside.speeds[number])
        share = own.number(body.share)
        if body.ground is None:
            touched = body._replace(gap=own.number(body.gap), normal=own.vector(body.normal), share=share)
        else:
            gap, normal = _over_ground(body.ground, here, numbers.radius)
            touched = body._replace(gap=gap, normal=normal, ground=None, share=share)
        before = own.kept(body_impulse, number)
        given, apart, turned = _body_answer(
            grains, plan, plan.free[number], velocity, spin, numbers, touched, speed, before, known.rate
        )
        own.put(body_impulse, given, number)
        push, out, turn = plus(push, given), plus(out, apart), plus(turn, turned)
    *level, up = own.vector(known.velocity)
    falling = (*level, up - known.weight)
    after = tuple(v + part / numbers.mass for v, part in zip(falling, push, strict=True))
    if outside.velocity is not None:
        after = plus(after, own.vector(outside.velocity))
    turned = None
    if spin is not None:
        inertia = inertia_factor(plan.dimension) * numbers.mass * numbers.radius * numbers.radius
        turned = tuple(w + part / inertia for w, part in zip(own.vector(known.spin), turn, strict=True))
        turned = turned if outside.spin is None else plus(turned, own.vector(outside.spin))
    return _Sums(push, out, turn), (after, turned)


def _write(plan: _Plan, lanes: int, tables: Any, now: Any) -> None:
    """Velocity and spin."""
    for table, values in zip(tables, now, strict=True):
        if table is not None:
            _own(plan, lanes).put(table, values)


def _move(plan: _Plan, lanes: int, known: _Fixed, velocity: Vector, sums: _Sums, moved: _Moved) -> None:
    """The end of a step."""
    own = _own(plan, lanes)
    own.put(moved.position, plus(plus(own.vector(known.position), times(known.duration, velocity)), sums.out))
    own.put(moved.received, sums.push)
    if plan.turning:
        own.put(moved.received_turning, sums.turn)


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
