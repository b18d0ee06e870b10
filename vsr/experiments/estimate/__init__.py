"""What a command would take, before it takes any of it: memory (`needs`) against what there is (`resources`, `budget`),
and time from the operations of a traced program (`operations`, `speed`)."""

from vsr.experiments.estimate.budget import (
    explain_out_of_memory,
    memory_lines,
    require_memory,
    simulate_within_memory,
)
from vsr.experiments.estimate.needs import (
    needs_of_experiment,
    needs_of_refining,
    needs_of_scene,
    needs_of_training,
)
from vsr.experiments.estimate.operations import operations_of
from vsr.experiments.estimate.speed import seconds_of

__all__ = [
    "explain_out_of_memory",
    "memory_lines",
    "needs_of_experiment",
    "needs_of_refining",
    "needs_of_scene",
    "needs_of_training",
    "operations_of",
    "require_memory",
    "seconds_of",
    "simulate_within_memory",
]
