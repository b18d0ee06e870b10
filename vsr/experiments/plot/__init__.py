"""`vsr plot` and `vsr compare`: fitness curves, comparisons, the style of figures."""
