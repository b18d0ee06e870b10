"""Voxel robots against data of the original simulator, 2D-VSR-Sim."""
