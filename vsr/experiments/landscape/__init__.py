"""Landscapes: every small body of a kind, with the best controller that a small search found for it, as a table."""
