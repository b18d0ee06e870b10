"""`vsr convert`: robots of other simulators as files of ours, and back."""
