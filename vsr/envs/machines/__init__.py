"""Machines among grains, each an environment with `reset`, `observe` and `step`: bulldozer, gear tower, excavator."""

from vsr.envs.machines import bulldozing, excavation, gear_tower

__all__ = ["bulldozing", "excavation", "gear_tower"]
