"""Voxels of point masses, in 2-D and 3-D: one mass in each corner, springs between all of them.

The same springs, integrators and contact as other lattices (vsr.lattice); what is added here is what voxels bring
along: neighbors that share their corners, corners that only touch, materials, and control values that change a
voxel's size.
"""
