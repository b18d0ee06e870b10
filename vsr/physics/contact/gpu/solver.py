"""The solver of vsr.physics.contact.solver in a kernel: groups of contacts one after the other, several times over.

Groups come in parts of one shape each. As those of vsr.physics.contact.bodies they know how fast their sides part and
how readily they yield, and take impulses and shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add, or_
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.physics.contact.gpu.lanes import Moves, Now
from vsr.physics.contact.gpu.tables import Found, Pressed
from vsr.physics.contact.solver import (
    LEFT,
    SLIDES,
    STICKS,
    bounded_drag,
    inverse_or_zero,
    may_bounce,
    ratio,
    share_of_bounce,
    share_to_undo,
    speed_out,
)

Impulses = tuple[tuple[Pressed, ...], ...]


class Asked(NamedTuple):
    approach: Any
    way: Any
    bounces: Any
    target: Any
    along: Any
    across: Any


class Undone(NamedTuple):
    way: Any
    most: Any
    sticks: Any


def solved(
    groups: Sequence[Any],
    start: Sequence[tuple[Pressed, ...]],
    moves: Moves,
    iterations: int,
    shifts: int,
    duration: float,
) -> tuple[Moves, Impulses]:
    """How everything moves and has moved after contacts, and impulses to begin the next step with."""
    now, drift = moves
    asked = [_ask(group, now, drift, duration) for group in groups]
    impulses = tuple(tuple(map(_admitted, group.contacts, before)) for group, before in zip(groups, start, strict=True))
    for group, before in zip(groups, impulses, strict=True):
        now = group.pushed(now, _whole(group, before))
    least = [[part.depth * 0 for part in group.contacts] for group in groups]
    now, impulses = _improved(_pass, groups, asked, least, iterations, (now, impulses))
    bounces = [part.bounces for wanted in asked for part in wanted]
    some = reduce(or_, (jnp.max(part.astype(jnp.int32)) for part in bounces)) > 0
    bounce = partial(_bounced, groups, asked, iterations)
    now, impulses = jax.lax.cond(some, bounce, lambda state: state, (now, impulses))
    moves = _shifted(groups, asked, impulses, now, drift, shifts, duration)
    return moves, tuple(
        tuple(_unless(part.bounces, impulse) for part, impulse in zip(wanted, found, strict=True))
        for wanted, found in zip(asked, impulses, strict=True)
    )


def nothing_before(group: Any) -> tuple[Pressed, ...]:
    """Impulses to begin with where none are known."""
    return tuple(Pressed(part.depth * 0, times(0.0, part.normal)) for part in group.contacts)


def _only(counts: Any, impulse: Pressed) -> Pressed:
    return Pressed(jnp.where(counts, impulse.press, 0.0), tuple(jnp.where(counts, part, 0.0) for part in impulse.drag))


def _unless(bounces: Any, impulse: Pressed) -> Pressed:
    return _only(~bounces, impulse)


def _admitted(contact: Found, before: Pressed) -> Pressed:
    along = dot(before.drag, contact.normal)
    return _only(contact.touches, before._replace(drag=minus(before.drag, times(along, contact.normal))))


def _whole(group: Any, impulses: Sequence[Pressed]) -> list[Vector]:
    return [
        plus(times(impulse.press, contact.normal), impulse.drag)
        for contact, impulse in zip(group.contacts, impulses, strict=True)
    ]


def _ask(group: Any, now: Now, drift: Now, duration: float) -> list[Asked]:
    normals = [contact.normal for contact in group.contacts]
    along = group.yields(normals)
    across = group.yields([(-y, x) for x, y in normals])
    found = []
    ways, partings = group.way(drift), group.parting(now)
    for contact, parting, way, one, other in zip(group.contacts, partings, ways, along, across, strict=True):
        speed, along_way = dot(parting, contact.normal), dot(way, contact.normal)
        target = speed_out(contact.depth, along_way)
        bounces = contact.touches & may_bounce(speed, along_way / duration, contact.restitution, target)
        target = jnp.where(bounces, 0.0, target)
        found.append(Asked(parting, way, bounces, target, inverse_or_zero(one), inverse_or_zero(other)))
    return found


def _improved(
    one: Callable[..., Any], groups: Sequence[Any], asked: Sequence[Any], known: Sequence[Any], often: int, state: Any
) -> Any:
    """All groups several times over; one: a pass of a group, known: what it knows besides."""

    def improve(_: Any, state: Any) -> Any:
        now, impulses = state
        better = []
        for group, wanted, more, impulse in zip(groups, asked, known, impulses, strict=True):
            now, impulse = _repeated(partial(one, group, wanted, more), group.passes, (now, impulse))
            better.append(impulse)
        return now, tuple(better)

    return jax.lax.fori_loop(0, often, improve, state)


def _repeated(one: Callable[[Any], Any], count: int, state: Any) -> Any:
    return one(state) if count == 1 else jax.lax.fori_loop(0, count, lambda _, state: one(state), state)


def _changes(group: Any, after: Sequence[Pressed], before: Sequence[Pressed]) -> list[Vector]:
    return [minus(*pair) for pair in zip(_whole(group, after), _whole(group, before), strict=True)]


def _pass(group: Any, asked: Sequence[Asked], least: Sequence[Any], state: tuple[Now, Any]) -> tuple[Now, Any]:
    """One group solved once."""
    now, impulses = state
    parts = zip(group.contacts, asked, least, impulses, group.parting(now), strict=True)
    after = tuple(_answered(*part) for part in parts)
    return group.pushed(now, _changes(group, after, impulses)), after


def _answered(contact: Found, asked: Asked, least: Any, impulse: Pressed, parting: Vector) -> Pressed:
    speed = dot(parting, contact.normal)
    press = jnp.maximum(impulse.press + asked.along * (asked.target - speed), least)
    press = jnp.where(contact.touches, press, 0.0)
    aside = minus(parting, times(speed, contact.normal))
    wanted = minus(impulse.drag, times(asked.across, aside))
    return Pressed(press, times(bounded_drag(contact.friction * press, dot(wanted, wanted)), wanted))


def _bounced(groups: Sequence[Any], asked: Sequence[Any], iterations: int, state: tuple[Now, Impulses]) -> Any:
    """After restitution; state: after compression."""
    now, impulses = state
    least = [
        [
            jnp.where(part.bounces, (1 + contact.restitution) * impulse.press, 0.0)
            for contact, part, impulse in zip(group.contacts, wanted, found, strict=True)
        ]
        for group, wanted, found in zip(groups, asked, impulses, strict=True)
    ]
    later, after = _improved(_pass, groups, asked, least, iterations, state)
    works = []
    for group, wanted, found, new in zip(groups, asked, impulses, after, strict=True):
        parts = group.contacts, wanted, group.parting(now), group.parting(later), _whole(group, found)
        works += [_works(*part) for part in zip(*parts, found, _changes(group, new, found), strict=True)]
    share = share_of_bounce(*(reduce(add, parts) for parts in zip(*works, strict=True)))
    return jax.tree.map(lambda one, other: one + share * (other - one), (now, impulses), (later, after))


def _works(
    contact: Found, asked: Asked, before: Vector, after: Vector, push: Vector, impulse: Pressed, more: Vector
) -> list[Any]:
    mean = times(0.5, plus(asked.approach, before))
    due = jnp.where(asked.bounces, -(contact.restitution**2) * impulse.press * dot(mean, contact.normal), 0.0)
    bounces = asked.bounces.astype(jnp.float32)
    parts = bounces, -dot(push, mean), due, dot(more, before), 0.5 * dot(more, minus(after, before))
    return [jnp.sum(part) for part in parts]


def _shifted(
    groups: Sequence[Any],
    asked: Sequence[Any],
    impulses: Impulses,
    now: Now,
    drift: Now,
    often: int,
    duration: float,
) -> Moves:
    """Speeds and drift after shifts."""
    undone, shifts = [], []
    for group, wanted, found in zip(groups, asked, impulses, strict=True):
        parts = zip(group.contacts, wanted, found, group.parting(now), strict=True)
        begun = [_undo(group.rigid, *part, duration) for part in parts]
        undone.append([one for one, _ in begun])
        shifts.append(tuple(other for _, other in begun))
    moves = jax.tree.map(jnp.zeros_like, drift)
    for group, shift in zip(groups, shifts, strict=True):
        moves = group.pushed(moves, _whole(group, shift))
    moves, found = _improved(_shift, groups, asked, undone, often, (moves, tuple(shifts)))
    for group, shift in zip(groups, found, strict=True):
        now = group.steadied(now, _whole(group, shift))
    return now, jax.tree.map(jnp.add, drift, moves)


def _undo(
    rigid: bool, contact: Found, asked: Asked, impulse: Pressed, parting: Vector, duration: float
) -> tuple[Undone, Pressed]:
    normal, along = contact.normal, dot(asked.way, contact.normal)
    share = share_to_undo(contact, asked.bounces, along)
    aside = times(share, minus(asked.way, times(along, normal)))
    inward = jnp.minimum(share * (along - duration * dot(parting, normal)), 0.0)
    sticks = jnp.sqrt(dot(impulse.drag, impulse.drag)) <= STICKS * contact.friction * impulse.press
    pressed = dragged = 0.5 * share
    if not rigid:
        inward = jnp.maximum(inward, -jnp.maximum(contact.depth - LEFT, 0.0))
        speed = dot(asked.approach, normal)
        slip = minus(asked.approach, times(speed, normal))
        pressed = ratio(inward, duration * speed)
        active = ratio(dot(aside, slip), duration * dot(slip, slip))
        dragged = jnp.where(sticks, active, jnp.clip(active, 0.5, SLIDES) * share)
    undone = Undone(plus(aside, times(inward, normal)), duration * impulse.press, sticks)
    return undone, Pressed(duration * pressed * impulse.press, times(duration * dragged, impulse.drag))


def _shift(group: Any, asked: Sequence[Asked], undone: Sequence[Undone], state: tuple[Now, Any]) -> tuple[Now, Any]:
    """Shifts of one group improved once."""
    moves, shifts = state
    parts = zip(group.contacts, asked, undone, shifts, group.parting(moves), strict=True)
    after = tuple(_closer(*part) for part in parts)
    return group.pushed(moves, _changes(group, after, shifts)), after


def _closer(contact: Found, asked: Asked, undone: Undone, shift: Pressed, parting: Vector) -> Pressed:
    way = plus(undone.way, parting)
    along = dot(way, contact.normal)
    press = jnp.minimum(jnp.maximum(shift.press - asked.along * along, 0.0), undone.most)
    wanted = minus(shift.drag, times(asked.across, minus(way, times(along, contact.normal))))
    active = times(bounded_drag(contact.friction * undone.most, dot(wanted, wanted)), wanted)
    drag = tuple(jnp.where(undone.sticks, *pair) for pair in zip(active, shift.drag, strict=True))
    return Pressed(press, drag)
