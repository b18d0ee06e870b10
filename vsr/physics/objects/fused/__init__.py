"""The GPU kernel of contacts with rigid bodies and blocks of ground, in 2-D."""
