"""Proof by numbers: fluid in chambers against closed forms, its own energy and the paper's columns."""
