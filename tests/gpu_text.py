"""The text of GPU kernels (vsr.compute.gpu.cuda) compiled for the CPU: a thread of the processor for every lane.

For machines without a GPU: whether the text computes what the interpreter does, and waits where lanes must.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from pathlib import Path

import jax
import numpy as np

from vsr.compute.gpu.cuda import cuda_text, fits_on_chip
from vsr.compute.gpu.language import Kernel

HEAD = """
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
using std::abs; using std::isfinite; using std::max; using std::min;
#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __align__(bytes)
#define __launch_bounds__(...)
struct Three { unsigned x; };
static thread_local Three threadIdx, blockIdx;
static std::barrier<>* all_lanes;
static std::barrier<>* warps[32];
static void __syncthreads() { all_lanes->arrive_and_wait(); }
static void __syncwarp() { warps[threadIdx.x / 32]->arrive_and_wait(); }
static double exchanged[4096];
static unsigned number_of_lanes;
template <typename T> T __shfl_xor_sync(unsigned, T value, int apart) {
  std::memcpy(&exchanged[threadIdx.x], &value, sizeof(T));
  __syncwarp();
  T other;
  std::memcpy(&other, &exchanged[threadIdx.x ^ apart], sizeof(T));
  __syncwarp();
  return other;
}
static int __any_sync(unsigned, int value) {
  for (int apart = 16; apart; apart /= 2) value |= __shfl_xor_sync(0u, value, apart);
  return value;
}
static unsigned __ballot_sync(unsigned, int value) {
  unsigned votes = value ? 1u << threadIdx.x % 32 : 0u;
  for (int apart = 16; apart; apart /= 2) votes |= __shfl_xor_sync(0u, votes, apart);
  return votes;
}
static int __all_sync(unsigned, int value) { return !__any_sync(0u, !value); }
static int __syncthreads_or(int value) {
  int all = 0;
  std::memcpy(&exchanged[threadIdx.x], &value, 4);
  __syncthreads();
  for (unsigned lane = 0; lane < number_of_lanes; lane++) {
    int one;
    std::memcpy(&one, &exchanged[lane], 4);
    all |= one;
  }
  __syncthreads();
  return all;
}
static int __syncthreads_and(int value) { return !__syncthreads_or(!value); }
static int atomicAdd(int* place, int value) { return __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST); }
static float __int_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
static float __fdividef(float a, float b) { return a / b; }
static float rsqrtf(float x) { return 1 / std::sqrt(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __clz(int x) { return x ? __builtin_clz(x) : 32; }
"""
TAIL = """
extern "C" void run(unsigned programs, void** p) {
  for (unsigned number = 0; number < programs; number++) {
    std::barrier<> barrier(LANES);
    all_lanes = &barrier;
    for (unsigned warp = 0; warp < LANES / 32; warp++) warps[warp] = new std::barrier<>(32);
    number_of_lanes = LANES;
    std::vector<std::thread> lanes;
    for (unsigned lane = 0; lane < LANES; lane++)
      lanes.emplace_back([=] { threadIdx.x = lane; blockIdx.x = number; program(%s); });
    for (auto& lane : lanes) lane.join();
    for (unsigned warp = 0; warp < LANES / 32; warp++) delete warps[warp];
  }
}
"""
KINDS = {"float32": "float", "int32": "int", "uint32": "unsigned", "bool": "bool"}


def run_text(folder: Path, kernel: Kernel, programs: int, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What the kernel's text writes in one world."""
    text = cuda_text(kernel, programs, [False] * kernel.inputs)
    last = kernel.inputs + kernel.results
    values = [np.array(value) for value in inputs]
    values += [np.zeros(table.shape, table.dtype) for table in kernel.tables[kernel.inputs : last]]
    for number, result in kernel.aliases:
        values[kernel.inputs + result] = values[number]
    if not fits_on_chip(kernel):
        values += [np.zeros((programs, *table.shape), table.dtype) for table in kernel.scratch]
    casts = ", ".join(f"({KINDS[value.dtype.name]}*)p[{number}]" for number, value in enumerate(values))
    pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    ctypes.CDLL(str(_compiled(folder, HEAD + text + TAIL % casts))).run(ctypes.c_uint(programs), pointers)
    return values[kernel.inputs : last]


def _compiled(folder: Path, source: str) -> Path:
    name = folder / hashlib.sha256(source.encode()).hexdigest()[:16]
    library = name.with_suffix(".so")
    if not library.exists():
        name.with_suffix(".cpp").write_text(source)
        options = ["-O0", "-std=c++20", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-pthread"]
        subprocess.run(["g++", *options, name.with_suffix(".cpp"), "-o", library], check=True)
    return library


def text_instead(folder: Path):
    """In place of vsr.compute.gpu.interpreter.interpret_kernel."""

    def interpret_kernel(kernel: Kernel, programs: int, *inputs):
        tables = kernel.tables[kernel.inputs : kernel.inputs + kernel.results]
        shapes = [jax.ShapeDtypeStruct(table.shape, table.dtype) for table in tables]

        def work(*values):
            return run_text(folder, kernel, programs, [np.asarray(value) for value in values])

        return jax.pure_callback(work, shapes, *inputs, vmap_method="sequential")

    return interpret_kernel
