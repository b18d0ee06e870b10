"""Tools of GPU kernels besides Pallas: fused multiply-adds, PTX instructions, shared memory."""
