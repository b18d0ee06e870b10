"""Validation, benchmarks and reproduced studies; nothing imports this."""
