"""What GPU kernels need beyond Pallas: fused multiply-adds, PTX instructions, shared memory, the device's figures."""
