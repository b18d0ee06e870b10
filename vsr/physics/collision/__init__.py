"""Who touches whom, and the impulses between them: vertices of voxels, rigid convex bodies, ground."""
