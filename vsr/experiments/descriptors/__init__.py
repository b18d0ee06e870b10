"""What tells robots apart besides what they do: their bodies and their brains, as numbers for archives and fronts."""

from vsr.experiments.descriptors.registry import DESCRIPTORS, describe, descriptor_names

__all__ = ["DESCRIPTORS", "describe", "descriptor_names"]
