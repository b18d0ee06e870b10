"""`vsr evolve`: generations on the device, the loop around them, progress, several hosts."""
