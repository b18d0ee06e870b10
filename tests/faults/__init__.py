"""Fault injection: kills, signals, full disks, corrupted and crafted run folders, concurrent writers, fuzzed inputs.

`make test` runs a short deterministic round of each kind of fault, `make faults` a long campaign
(docs/develop/reliability.md).
"""
