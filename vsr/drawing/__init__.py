"""Pictures of a recorded episode, without a display: what can be seen, its colors, and a painter."""
