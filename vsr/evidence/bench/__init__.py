"""Benchmarks: they print figures and never fail for being slow."""
