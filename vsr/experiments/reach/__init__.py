"""`vsr reach`: drives that bring points of a robot to targets, at rest."""
