"""Impulses of contacts: no approach, Coulomb friction, restitution, and depth that is undone in a fixed time.

Contacts come in groups. Within a group all are solved at once, each with its share of the masses that others draw on
too (mass splitting), so that many together do not push too hard; groups are solved one after the other, several times
over. Impulses may start from those of the step before, which is what lets stacks stand.

Restitution is Poisson's: first everything is stopped (compression), then contacts that bounce get their share of that
impulse once more. What this gives back is no more than the share of the work that compression took, so that impacts
never gain energy, whatever friction does meanwhile (Newton's restitution does: Kane's paradox).

An impulse is that of a force which acted through the whole step, so it also undoes the way that was gone meanwhile:
contacts that stick shift both sides back to where they touched. Without that everything soft would creep.

Each impulse and each shift acts on both sides at one point with opposite signs, so linear and angular momentum and the
joint center of mass are kept to rounding. Arrays are those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.xla import in_kernel, iterate, materialize
from vsr.environment.surfaces import BOUNCE_SPEED, SLOP
from vsr.physics.contact.bodies import Sides, Speeds
from vsr.physics.contact.vectors import dot

CORRECTION_TIME = 0.05
"""In which depth beyond the slop is undone [s]; short enough to carry weight, too long to throw anything back."""
LEFT = 0.5 * SLOP
"""Depth at which vertices are left [m]: those that rest should touch in every step."""
SLIDES = 0.7
"""Share of a step for which friction at its limit has moved vertices, at most: two thirds for three substeps of
semi-implicit Euler, a half for a constant force."""
SETTLED = 1e-6
"""Share of the largest impulse of a group at first, up to which a change is rounding."""
STICKS = 0.999
"""Share of the greatest friction below which a contact sticks."""


class Contact(NamedTuple):
    """A group of contacts; m stands for its axes."""

    normal: Array
    """from the second side to the first, unit vectors, (dimension, m)"""
    depth: Array
    """how far they are in each other [m], m"""
    touches: Array
    """whether they do, m"""
    friction: Array
    """coefficient of both, m"""
    restitution: Array
    """coefficient of both, m"""
    sides: Sides


class Impulse(NamedTuple):
    """On the first side [N s]."""

    press: Array
    """along the normal, never negative, m"""
    drag: Array
    """across it, within the cone of friction, (dimension, m)"""


class _Asked(NamedTuple):
    """What does not change while impulses are found; each m."""

    approach: Array
    """velocity of the first side seen from the second before contact [m/s], (dimension, m)"""
    way: Array
    """of the first side seen from the second in the step [m], (dimension, m)"""
    bounces: Array
    """whether it is fast enough to bounce"""
    target: Array
    """speed along the normal that is asked for [m/s]"""
    along: Array
    """impulse over speed along the normal [kg], 0 where nothing can be done"""
    across: Array
    """the same across it"""


class _Undone(NamedTuple):
    """The way that shifts are to undo; each m."""

    way: Array
    """[m], (dimension, m)"""
    most: Array
    """of a shift along the normal [kg m]"""
    sticks: Array


class Counts(NamedTuple):
    """How often objects are repeated."""

    iterations: int
    """over all groups, of impulses"""
    shifts: int
    """likewise, of shifts"""
    passes: tuple[int, ...]
    """of each group before the next one, in each of the iterations"""


def no_impulse(contact: Contact) -> Impulse:
    """Of contacts that nothing is known of."""
    return Impulse(jnp.zeros_like(contact.depth), jnp.zeros_like(contact.normal))


def solve(
    now: Speeds,
    drift: Speeds,
    contacts: Sequence[Contact],
    start: Sequence[Impulse],
    counts: Counts,
    duration: float,
) -> tuple[Speeds, Speeds, tuple[Impulse, ...]]:
    """Speeds after contacts, by how much everything has moved in the step then, and impulses to begin the next with.

    drift: by how much everything moved in the step [m, rad], with the shifts that it got so far [kg m]; start:
    impulses to begin with, those of the step before or none; duration: of the step [s].
    """
    asked = [_ask(contact, now, drift, duration) for contact in contacts]
    impulses = [_admitted(*pair) for pair in zip(contacts, start, strict=True)]
    asked, impulses = materialize(now.nodes, (asked, tuple(impulses)))
    for contact, kept in zip(contacts, impulses, strict=True):
        now = contact.sides.pushed(now, materialize(now.nodes, whole(contact, kept)))
    least = [jnp.zeros_like(contact.depth) for contact in contacts]
    now, impulses = _improved(contacts, asked, least, counts, (now, impulses))
    bounces = [wanted.bounces for wanted in asked]
    some = jnp.stack([part.any() for part in bounces]).any()
    bounce = partial(_bounced, contacts, asked, counts)
    now, impulses = jax.lax.cond(some, bounce, lambda state: state, (now, impulses))
    now, drift = _shifted(now, drift, contacts, asked, impulses, counts, duration)
    return now, drift, tuple(_unless(part, impulse) for part, impulse in zip(bounces, impulses, strict=True))


def whole(contact: Contact, impulse: Impulse) -> Array:
    """Along and across the normal together, (dimension, m)."""
    return impulse.press * contact.normal + impulse.drag


def _unless(bounces: Array, impulse: Impulse) -> Impulse:
    """What bounced is no start for the next step, in which it will have parted."""
    return Impulse(jnp.where(bounces, 0, impulse.press), jnp.where(bounces, 0, impulse.drag))


def _admitted(contact: Contact, impulse: Impulse) -> Impulse:
    """Of the impulses of the step before what may be: none where nothing touches, no drag along the normal."""
    across = impulse.drag - dot(impulse.drag, contact.normal) * contact.normal
    return Impulse(jnp.where(contact.touches, impulse.press, 0), jnp.where(contact.touches, across, 0))


_State = tuple[Speeds, tuple[Impulse, ...]]
_Once = Callable[[tuple[Speeds, Impulse]], tuple[Speeds, Impulse]]
"""A group solved once."""


def _improved(
    contacts: Sequence[Contact], asked: Sequence[_Asked], least: Sequence[Array], counts: Counts, state: _State
) -> _State:
    """All groups solved several times over; least: impulse along the normal [N s], m."""
    once = [partial(_pass, *group) for group in zip(contacts, asked, least, strict=True)]
    return _repeated(contacts, once, counts.iterations, counts.passes, state)


def _repeated(
    contacts: Sequence[Contact], once: Sequence[_Once], often: int, passes: tuple[int, ...], state: _State
) -> _State:
    """Each group solved several times before the next one, and all that several times over."""
    if in_kernel():
        return _until_settled(contacts, once, often, passes, state)

    def improve(state: _State) -> _State:
        now, impulses = state
        better = []
        for one, impulse, times in zip(once, impulses, passes, strict=True):
            now, after = iterate(times, one, (now, impulse))
            better.append(after)
        return now, tuple(better)

    return iterate(often, improve, state)


def _until_settled(
    contacts: Sequence[Contact], once: Sequence[_Once], often: int, passes: tuple[int, ...], state: _State
) -> _State:
    """The same, but what no longer changes is not solved again. In a batch of plain JAX all worlds would wait."""
    wholes = [whole(*pair) for pair in zip(contacts, state[1], strict=True)]
    least = [SETTLED**2 * dot(push, push).max() for push in wholes]

    def again(times: int, work: Callable[[Any], tuple[Any, Array]], start: Any) -> tuple[Any, Array]:
        """`work` until it changes nothing, and whether it ever did."""
        if times == 1:
            return work(start)

        def turn(before: Any) -> Any:
            number, _, moved, now = before
            now, changes = work(now)
            return number + 1, changes, moved | changes, now

        first = jnp.int32(0), jnp.bool_(True), jnp.bool_(False), start
        *_, moved, now = jax.lax.while_loop(lambda now: (now[0] < times) & now[1], turn, first)
        return now, moved

    def one(number: int, before: tuple[Speeds, Impulse]) -> tuple[tuple[Speeds, Impulse], Array]:
        after = once[number](before)
        change = whole(contacts[number], after[1]) - whole(contacts[number], before[1])
        return after, (dot(change, change) > least[number]).any()

    def improve(state: _State) -> tuple[_State, Array]:
        now, impulses = state
        better, moved = [], []
        for number, (impulse, times) in enumerate(zip(impulses, passes, strict=True)):
            (now, after), changes = again(times, partial(one, number), (now, impulse))
            better.append(after)
            moved.append(changes)
        return (now, tuple(better)), jnp.stack(moved).any()

    return again(often, improve, state)[0]


def _pass(contact: Contact, asked: _Asked, least: Array, state: tuple[Speeds, Impulse]) -> tuple[Speeds, Impulse]:
    """One group solved once."""
    now, impulse = state
    parting = materialize(now.nodes, contact.sides.parting(now))
    after = _answered(contact, asked, least, impulse, parting)
    change = whole(contact, after) - whole(contact, impulse)
    after, change = materialize(now.nodes, (after, change))
    return contact.sides.pushed(now, change), after


def _ask(contact: Contact, now: Speeds, drift: Speeds, duration: float) -> _Asked:
    normal, sides = contact.normal, contact.sides
    parting = sides.parting(now)
    speed = dot(parting, normal)
    shares = sides.shares(contact.touches)
    along = sides.yields(shares, normal)
    across = [sides.yields(shares, tangent) for tangent in tangents(normal)]
    most = across[0] if len(across) == 1 else jnp.maximum(*across)
    way = sides.way(drift)
    along_way = dot(way, normal)
    target = speed_out(contact.depth, along_way)
    bounces = contact.touches & may_bounce(speed, along_way / duration, contact.restitution, target)
    target = jnp.where(bounces, 0, target)
    return _Asked(parting, way, bounces, target, inverse_or_zero(along), inverse_or_zero(most))


def speed_out(depth: Array, along: Array) -> Array:
    """With which they leave each other [m/s]; along: the way in this step [m], as it came in it is shifted out."""
    return jnp.maximum(depth + jnp.minimum(along, 0) - SLOP, 0) / CORRECTION_TIME


def may_bounce(speed: Array, mean: Array, restitution: Array, out: Array) -> Array:
    """Whether what touches came fast enough to bounce, and bounces faster than it would leave anyway.

    speed: at the end of the step, mean: through the step, out: of leaving [m/s]. A foot that springs press down is
    fast at the end only, and must not bounce off what it stands on; what it came with follows from both, for constant
    forces in three substeps of semi-implicit Euler.
    """
    came = 3 * mean - 2 * speed
    return (jnp.maximum(came, speed) < -BOUNCE_SPEED) & (-restitution * speed > out)


def inverse_or_zero(inverse_effective_mass: Array) -> Array:
    """Impulse over speed [kg], 0 where nothing can be moved."""
    return jnp.where(
        inverse_effective_mass > 0, 1 / jnp.where(inverse_effective_mass > 0, inverse_effective_mass, 1), 0
    )


def tangents(normal: Array) -> list[Array]:
    """Unit vectors across unit vectors: one in 2-D, two in 3-D, each (dimension, ...)."""
    if normal.shape[0] == 2:
        return [jnp.stack([-normal[1], normal[0]])]
    x, y, z = normal
    # A frame without a branch near the pole (Duff et al. 2017).
    sign = jnp.where(z >= 0, 1.0, -1.0).astype(z.dtype)
    a = -1 / (sign + z)
    b = x * y * a
    return [jnp.stack([1 + sign * x * x * a, sign * b, -sign * x]), jnp.stack([b, sign + y * y * a, -y])]


def _answered(contact: Contact, asked: _Asked, least: Array, impulse: Impulse, parting: Array) -> Impulse:
    """Impulses that bring each contact to what is asked for, as far as they may; parting: velocities now [m/s]."""
    speed = dot(parting, contact.normal)
    press = jnp.maximum(impulse.press + asked.along * (asked.target - speed), least)
    press = jnp.where(contact.touches, press, 0)
    wanted = impulse.drag - asked.across * (parting - speed * contact.normal)
    return Impulse(press, bounded_drag(contact.friction * press, dot(wanted, wanted)) * wanted)


def bounded_drag(most: Array, squared: Array) -> Array:
    """Share of the drag that friction allows; squared: of the drag that is wanted."""
    return jnp.minimum(most / jnp.sqrt(squared + jnp.finfo(squared.dtype).tiny), 1)


def _bounced(contacts: Sequence[Contact], asked: Sequence[_Asked], counts: Counts, state: _State) -> _State:
    """After restitution; state: after compression."""
    now, impulses = state
    least = [
        jnp.where(wanted.bounces, (1 + contact.restitution) * impulse.press, 0)
        for contact, wanted, impulse in zip(contacts, asked, impulses, strict=True)
    ]
    later, after = _improved(contacts, asked, least, counts, state)
    works = [
        _works(contact, wanted, contact.sides.parting(now), contact.sides.parting(later), impulse, new)
        for contact, wanted, impulse, new in zip(contacts, asked, impulses, after, strict=True)
    ]
    further = now.nodes.ndim - 2
    totals = (
        sum((part.sum(tuple(range(part.ndim - further))) for part in parts), jnp.zeros(()))
        for parts in zip(*works, strict=True)
    )
    share = share_of_bounce(*totals)

    def between(one: Array, other: Array) -> Array:
        return one + share * (other - one)

    return jax.tree.map(between, (now, impulses), (later, after))


def _works(
    contact: Contact, asked: _Asked, before: Array, after: Array, impulse: Impulse, new: Impulse
) -> tuple[Array, ...]:
    """For `share_of_bounce`, each m."""
    push, normal = whole(contact, impulse), contact.normal
    more = whole(contact, new) - push
    mean = 0.5 * (asked.approach + before)
    due = jnp.where(asked.bounces, -(contact.restitution**2) * impulse.press * dot(mean, normal), 0)
    bounces = asked.bounces.astype(due.dtype)
    return bounces, -dot(push, mean), due, dot(more, before), 0.5 * dot(more, after - before)


def share_of_bounce(bounces: Array, lost: Array, due: Array, first: Array, second: Array) -> Array:
    """The largest share s of restitution that gives back no more energy than is due, and no more than was lost.

    bounces: how many contacts do; lost: in compression [J]; due: the squared coefficients' share of the work against
    normal impulses of compression [J]; first, second: of the energy that restitution gives, s first + s² second [J].
    """
    most = jnp.maximum(jnp.minimum(lost, due), 0)
    second = jnp.maximum(second, jnp.finfo(second.dtype).tiny)
    root = jnp.sqrt(first * first + 4 * second * most)
    # The root of the quadratic, in the form without cancellation.
    share = jnp.where(first > 0, 2 * most / (first + root), (root - first) / (2 * second))
    # In a batch other worlds may bounce.
    return jnp.where(bounces > 0, jnp.where(first + second <= most, 1, jnp.clip(share, 0, 1)), 0)


def _shifted(
    now: Speeds,
    drift: Speeds,
    contacts: Sequence[Contact],
    asked: Sequence[_Asked],
    impulses: Sequence[Impulse],
    counts: Counts,
    duration: float,
) -> tuple[Speeds, Speeds]:
    """Speeds and drift after shifts."""
    found = [
        _undo(contact, wanted, impulse, contact.sides.parting(now), duration)
        for contact, wanted, impulse in zip(contacts, asked, impulses, strict=True)
    ]
    undone, shifts = materialize(now.nodes, tuple(zip(*found, strict=True)))
    moves = jax.tree.map(jnp.zeros_like, drift)
    for contact, shift in zip(contacts, shifts, strict=True):
        moves = contact.sides.pushed(moves, materialize(moves.nodes, whole(contact, shift)))

    once = [partial(_shift, *group) for group in zip(contacts, asked, undone, strict=True)]
    moves, shifts = _repeated(contacts, once, counts.shifts, counts.passes, (moves, shifts))
    for contact, shift in zip(contacts, shifts, strict=True):
        now = contact.sides.steadied(now, whole(contact, shift))
    return now, jax.tree.map(jnp.add, drift, moves)


def _undo(
    contact: Contact, asked: _Asked, impulse: Impulse, parting: Array, duration: float
) -> tuple[_Undone, Impulse]:
    """What is to be undone, and shifts to begin with; parting: velocities after contact [m/s]."""
    normal, along = contact.normal, dot(asked.way, contact.normal)
    share = share_to_undo(contact, asked.bounces, along)
    aside = share * (asked.way - along * normal)
    inward = jnp.minimum(share * (along - duration * dot(parting, normal)), 0)
    sticks = jnp.sqrt(dot(impulse.drag, impulse.drag)) <= STICKS * contact.friction * impulse.press
    # Forces that stay the same through a step move by half of what their impulse would at its begin. Those of springs
    # do not: there the distance moved decides.
    pressed = dragged = 0.5 * share
    if not contact.sides.rigid:
        inward = jnp.maximum(inward, -jnp.maximum(contact.depth - LEFT, 0.0))
        speed = dot(asked.approach, normal)
        slip = asked.approach - speed * normal
        pressed = ratio(inward, duration * speed)
        held = ratio(dot(aside, slip), duration * dot(slip, slip))
        dragged = jnp.where(sticks, held, jnp.clip(held, 0.5, SLIDES) * share)
    undone = _Undone(aside + inward * normal, duration * impulse.press, sticks)
    return undone, Impulse(duration * pressed * impulse.press, duration * dragged * impulse.drag)


def share_to_undo(contact: Any, bounces: Array, along: Array) -> Array:
    """Of the way in a step: that in which a contact touched, as what came in [m] is at its depth since then.

    What bounces goes the same way back by itself.
    """
    came = along < 0
    share = jnp.where(came, jnp.clip(contact.depth / jnp.where(came, -along, 1), 0, 1), 1)
    return jnp.where(contact.touches, share * jnp.where(bounces, jnp.maximum(1 - contact.restitution, 0), 1), 0)


def ratio(one: Array, other: Array) -> Array:
    """Between 0 and 1."""
    return jnp.clip(jnp.where(other == 0, 0, one / jnp.where(other == 0, 1, other)), 0, 1)


def _shift(contact: Contact, asked: _Asked, undone: _Undone, state: tuple[Speeds, Impulse]) -> tuple[Speeds, Impulse]:
    """Shifts of one group improved once."""
    moves, shift = state
    way = materialize(moves.nodes, undone.way + contact.sides.parting(moves))
    along = dot(way, contact.normal)
    press = jnp.clip(shift.press - asked.along * along, 0, undone.most)
    wanted = shift.drag - asked.across * (way - along * contact.normal)
    held = bounded_drag(contact.friction * undone.most, dot(wanted, wanted)) * wanted
    after = Impulse(press, jnp.where(undone.sticks, held, shift.drag))
    change = whole(contact, after) - whole(contact, shift)
    after, change = materialize(moves.nodes, (after, change))
    return contact.sides.pushed(moves, change), after
