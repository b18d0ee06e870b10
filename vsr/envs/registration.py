"""Names for gymnasium: every task is known to it as `vsr/NAME`."""

from __future__ import annotations

from importlib.util import find_spec

from vsr.tasks import TASKS

NAMESPACE = "vsr"


def register() -> list[str]:
    """Register all tasks with gymnasium, if it is installed; returns the names that are new to it."""
    if find_spec("gymnasium") is None:
        return []
    import gymnasium

    new = [name for name in TASKS if f"{NAMESPACE}/{name}" not in gymnasium.registry]
    for name in new:
        gymnasium.register(
            id=f"{NAMESPACE}/{name}",
            entry_point="vsr.envs.single:SoftRobotEnv",
            vector_entry_point="vsr.envs.vector:SoftRobotVectorEnv",
            kwargs={"name": name},
        )
    return new
