"""GPU kernels: their language, their text as CUDA C and its compiler, their launch, and an interpreter."""
