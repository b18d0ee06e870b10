"""The text of GPU kernels (vsr.compute.gpu.cuda), compiled for the CPU: a thread of the processor for every lane.

For machines without a GPU; it says whether the text computes what the interpreter does, not how fast.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path

import numpy as np

from vsr.compute.gpu.cuda import cuda_text, fits_on_chip
from vsr.compute.gpu.language import Kernel

HAS_COMPILER = shutil.which("g++") is not None
HEAD = """
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>
using std::max; using std::min; using std::abs; using std::isfinite;
#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)
struct Three { unsigned x; };
static thread_local Three threadIdx, blockIdx;
static std::barrier<>* all_lanes;
static void __syncthreads() { all_lanes->arrive_and_wait(); }
static void __syncwarp() { all_lanes->arrive_and_wait(); }
static double exchanged[4096];
template <typename T> T __shfl_xor_sync(unsigned, T value, int apart) {
  std::memcpy(&exchanged[threadIdx.x], &value, sizeof(T));
  __syncthreads();
  T other;
  std::memcpy(&other, &exchanged[threadIdx.x ^ apart], sizeof(T));
  __syncthreads();
  return other;
}
static float __int_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
static float __fdividef(float a, float b) { return a / b; }
static float rsqrtf(float x) { return 1 / std::sqrt(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __clz(int x) { return x ? __builtin_clz(x) : 32; }
"""
TAIL = """
extern "C" void run(unsigned programs, void** p) {
  for (unsigned program_number = 0; program_number < programs; program_number++) {
    std::barrier<> barrier(LANES);
    all_lanes = &barrier;
    std::vector<std::thread> lanes;
    for (unsigned lane = 0; lane < LANES; lane++)
      lanes.emplace_back([=] { threadIdx.x = lane; blockIdx.x = program_number; program(%s); });
    for (auto& lane : lanes) lane.join();
  }
}
"""


def run_text(kernel: Kernel, programs: int, inputs: list[np.ndarray], worlds: int | None, many, folder: Path):
    """What the kernel's text writes, of all worlds."""
    aliased = dict(kernel.aliases)
    text = cuda_text(kernel, programs, [own or (worlds is not None and i in aliased) for i, own in enumerate(many)])
    count = programs * (worlds or 1)
    last = kernel.inputs + kernel.results
    values = []
    for number, value in enumerate(inputs):
        value = np.ascontiguousarray(value)
        if number in aliased and worlds is not None and not many[number]:
            value = np.broadcast_to(value, (worlds, *value.shape))
        values.append(np.array(value))
    for table in kernel.tables[kernel.inputs : last]:
        values.append(np.zeros((worlds or 1, *table.shape), table.dtype))
    for number, result in kernel.aliases:
        values[kernel.inputs + result] = values[number]
    if not fits_on_chip(kernel):
        values += [np.zeros((count, *table.shape), table.dtype) for table in kernel.scratch]
    kinds = {"float32": "float", "int32": "int", "uint32": "unsigned", "bool": "bool"}
    casts = ", ".join(f"({kinds[value.dtype.name]}*)p[{i}]" for i, value in enumerate(values))
    source = HEAD + text + TAIL % casts
    name = folder / hashlib.sha256(source.encode()).hexdigest()[:16]
    if not name.with_suffix(".so").exists():
        name.with_suffix(".cpp").write_text(source)
        command = ["g++", "-O1", "-std=c++20", "-w", "-shared", "-fPIC", "-pthread", f"{name}.cpp", "-o", f"{name}.so"]
        subprocess.run(command, check=True)
    pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    ctypes.CDLL(str(name.with_suffix(".so"))).run(ctypes.c_uint(count), pointers)
    results = values[kernel.inputs : last]
    return (
        results
        if worlds is not None
        else [
            value.reshape(table.shape)
            for value, table in zip(results, kernel.tables[kernel.inputs : last], strict=True)
        ]
    )
