"""Reliability of failure reports: thousands of hard robots, each watched by an independent monitor."""
