"""Sweeps: every combination of some values as a run of its own, here or on a cluster."""
