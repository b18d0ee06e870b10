"""`vsr train`: policies for machines among grains."""
