"""Proof by numbers: the mass-spring lattice against beam theory, conservation laws, eigenvalues and a CT scan."""
