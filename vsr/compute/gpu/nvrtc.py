"""CUDA C to PTX by NVRTC, the library that comes with JAX's CUDA wheels or a CUDA toolkit."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from pathlib import Path

OPTIONS = "--std=c++17", "--ftz=true", "--prec-div=false", "--prec-sqrt=false", "--fmad=true"
"""Quick arithmetic, right to a unit or two in the last place; sines and cosines are accurate."""


VERSIONS = {90: "7.8", 100: "8.6", 120: "8.7"}
"""Of PTX, the oldest that knows GPUs up to a compute capability."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """None if there is none."""
    for name in (*_installed(), "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def version() -> tuple[int, int]:
    """Of the library, which must be there."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc = library()
    assert nvrtc is not None, "no NVRTC"
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _installed() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    wheels = [str(path) for root in roots for path in sorted(root.glob("*/lib/libnvrtc.so.*"), reverse=True)]
    return wheels + sorted(map(str, Path("/usr/local").glob("cuda*/lib64/libnvrtc.so.*")), reverse=True)


@functools.lru_cache(maxsize=256)
def ptx(text: str, capability: int) -> str:
    """Of a text for GPUs of a compute capability, 90 for 9.0.

    It claims no newer version of PTX than the GPU needs: whoever assembles it may be older than NVRTC.
    """
    nvrtc = library()
    assert nvrtc is not None, "no NVRTC"
    target = max((known for known in _architectures(nvrtc) if known <= capability), default=capability)
    options = [f"--gpu-architecture=compute_{target}", *OPTIONS]
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    if failed:
        raise RuntimeError(f"NVRTC cannot compile a kernel: {_result(nvrtc, program, 'ProgramLog')}")
    result = _result(nvrtc, program, "PTX")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    version = next((version for known, version in VERSIONS.items() if target <= known), None)
    if version is None:
        return result
    result = re.sub(r"^\s*\.pragma \"used_bytes_mask.*\n", "", result, flags=re.M)  # a hint of PTX 8.3
    return re.sub(r"^\.version .*$", f".version {version}", result, count=1, flags=re.M)


def _architectures(nvrtc: ctypes.CDLL) -> list[int]:
    """That it can compile for."""
    count = ctypes.c_int()
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    nvrtc.nvrtcGetSupportedArchs(found)
    return list(found)


def _result(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, name: str) -> str:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{name}")(program, data)
    return data.value.decode()
