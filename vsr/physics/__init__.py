"""Mechanics of robots: one contract (contract.py), an engine for each kind of masses, and which one moves what."""
