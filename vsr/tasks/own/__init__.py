"""Tasks of our own: jump, climb, balance, escape, go and return, push, carry, throw, walk over ground drawn anew."""

from vsr.tasks.base import Task
from vsr.tasks.own.fresh import FreshGround
from vsr.tasks.own.going import GoAndReturn
from vsr.tasks.own.heights import Balance, Climb, Escape, Jump
from vsr.tasks.own.things import Carry, Push, Throw

OWN_TASKS: dict[str, type[Task]] = {
    kind.model_fields["type"].default: kind
    for kind in (Jump, Climb, Balance, Escape, GoAndReturn, Push, Carry, Throw, FreshGround)
}
"""By their names."""

__all__ = ["OWN_TASKS"]
