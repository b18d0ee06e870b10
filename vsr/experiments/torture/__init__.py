"""Trying to break runs: kills, full disks, damaged files, rivals, and inputs that nobody would type."""
