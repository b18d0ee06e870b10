"""Pictures of a recorded life, without a display: what can be seen, its colours, and a painter."""
