"""Voxels of square masses in 2-D, as in 2D-VSR-Sim: four squares that turn in the corners of every voxel.

`reference` moves a robot in plain JAX, `gpu` in one GPU kernel; `advance` chooses.
"""
