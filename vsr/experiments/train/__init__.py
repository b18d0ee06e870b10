"""`vsr train`: policies for robots in tasks, by PPO, and for machines among grains, by an evolution strategy."""
