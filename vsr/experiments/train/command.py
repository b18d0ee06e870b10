"""The work of `vsr train`: which learner a name asks for, and which options it takes."""

from __future__ import annotations

from vsr.experiments.config.problems import UserError
from vsr.experiments.options import TrainOptions
from vsr.experiments.train import machine, task
from vsr.spec import suggest
from vsr.tasks import TASKS

MACHINES = {"bulldozing": machine.train_machine}
"""Trainings of machines among grains, by name."""


def train(options: TrainOptions) -> None:
    """Train a policy for a machine or for a robot in a task; raises UserError for what cannot be."""
    name = options.what
    if name not in MACHINES and name not in TASKS:
        near = suggest(name, (*MACHINES, *TASKS))
        known = f"give {', '.join(MACHINES)}, or a task of vsr list tasks"
        raise UserError(f"there is no task or machine '{name}'{near or f': {known}'}")
    own, others = (machine.OPTIONS, task.OPTIONS) if name in MACHINES else (task.OPTIONS, machine.OPTIONS)
    for option in others:
        if option not in own and getattr(options, option) not in (None, ()):
            flag, whose = {"settings": "set"}.get(option, option), "tasks" if name in MACHINES else "machines"
            raise UserError(f"--{flag}: this is for {whose}, and {name} is none of them: leave it out")
    MACHINES.get(name, task.train_task)(options)
