"""Pictures of a recorded episode, without a display: what can be seen, its colours, and a painter."""
