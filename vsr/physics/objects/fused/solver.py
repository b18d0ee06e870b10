"""The solver of vsr.physics.collision.solver in a kernel: groups of contacts one after the other, several times over.

Groups come in parts of one shape each. As those of vsr.physics.collision.sides they tell how fast their sides part and
how readily they yield, and take impulses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.physics.collision.solver import asked_speed, bounded_drag, inverse_or_zero
from vsr.physics.objects.fused.moving import Now
from vsr.physics.objects.fused.tables import Found, Pressed


class Asked(NamedTuple):
    target: Any
    along: Any
    across: Any


def solved(
    groups: Sequence[Any], start: Sequence[tuple[Pressed, ...]], now: Now, iterations: int
) -> tuple[Now, tuple[tuple[Pressed, ...], ...]]:
    """How everything moves after contacts, and their impulses."""
    asked = [_ask(group, now) for group in groups]
    impulses = tuple(tuple(map(_admitted, group.contacts, before)) for group, before in zip(groups, start, strict=True))
    for group, before in zip(groups, impulses, strict=True):
        now = group.pushed(now, [_whole(*pair) for pair in zip(group.contacts, before, strict=True)])

    def improve(_: Any, state: tuple[Now, Any]) -> tuple[Now, Any]:
        now, impulses = state
        better = []
        for group, wanted, impulse in zip(groups, asked, impulses, strict=True):
            now, impulse = _repeated(partial(_pass, group, wanted), group.passes, (now, impulse))
            better.append(impulse)
        return now, tuple(better)

    return jax.lax.fori_loop(0, iterations, improve, (now, impulses))


def nothing_before(group: Any) -> tuple[Pressed, ...]:
    """Impulses to begin with where none are known."""
    return tuple(Pressed(part.depth * 0, times(0.0, part.normal)) for part in group.contacts)


def _admitted(contact: Found, before: Pressed) -> Pressed:
    """Of the impulses of the step before what may be: none where nothing touches, no drag along the normal."""
    along = dot(before.drag, contact.normal)
    across = minus(before.drag, times(along, contact.normal))
    return Pressed(
        jnp.where(contact.touches, before.press, 0.0), tuple(jnp.where(contact.touches, part, 0.0) for part in across)
    )


def _whole(contact: Found, impulse: Pressed) -> Vector:
    return plus(times(impulse.press, contact.normal), impulse.drag)


def _ask(group: Any, now: Now) -> list[Asked]:
    normals = [contact.normal for contact in group.contacts]
    along = group.yields(normals)
    across = group.yields([(-y, x) for x, y in normals])
    return [
        Asked(
            asked_speed(dot(parting, contact.normal), contact.restitution, contact.depth),
            inverse_or_zero(one),
            inverse_or_zero(other),
        )
        for contact, parting, one, other in zip(group.contacts, group.parting(now), along, across, strict=True)
    ]


def _repeated(one: Callable[[Any], Any], count: int, state: Any) -> Any:
    return one(state) if count == 1 else jax.lax.fori_loop(0, count, lambda _, state: one(state), state)


def _pass(
    group: Any, asked: Sequence[Asked], state: tuple[Now, tuple[Pressed, ...]]
) -> tuple[Now, tuple[Pressed, ...]]:
    """One group solved once."""
    now, impulses = state
    parts = zip(group.contacts, asked, impulses, group.parting(now), strict=True)
    after = tuple(_answered(*part) for part in parts)
    changes = [
        plus(times(new.press - old.press, contact.normal), minus(new.drag, old.drag))
        for contact, new, old in zip(group.contacts, after, impulses, strict=True)
    ]
    return group.pushed(now, changes), after


def _answered(contact: Found, asked: Asked, impulse: Pressed, parting: Vector) -> Pressed:
    speed = dot(parting, contact.normal)
    press = jnp.where(contact.touches, jnp.maximum(impulse.press + asked.along * (asked.target - speed), 0.0), 0.0)
    aside = minus(parting, times(speed, contact.normal))
    wanted = minus(impulse.drag, times(asked.across, aside))
    return Pressed(press, times(bounded_drag(contact.friction * press, dot(wanted, wanted)), wanted))
