"""The GPU kernel of contacts in 2-D: of robots with rigid bodies, with the ground, and of voxels with voxels."""
