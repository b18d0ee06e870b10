"""Kernels (vsr.compute.gpu.language) as CUDA C.

There is a thread for every lane. An array with more entries than there are lanes has several in each thread, the first
in the first; one with fewer repeats its last entry in the threads that are left, which then write what others write.
Arrays may have further axes before that of lanes, each entry along them a number of its own in every thread. An axis is
that of lanes if somewhere in the kernel jnp.arange has its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from vsr.compute.gpu.interpreter import accesses, called, lane_sizes, split_scan
from vsr.compute.gpu.language import WARP, Kernel, Table, size_of

SHARED_BYTES = 48 * 1024
"""Memory on chip that a program may ask for; scratch that needs more is in the device's."""
TYPES = {"float32": "float", "int32": "int", "uint32": "unsigned", "bool": "bool"}
_OPERATORS = {
    "add": "+",
    "add_any": "+",
    "sub": "-",
    "mul": "*",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shift_left": "<<",
    "shift_right_arithmetic": ">>",
}
_FUNCTIONS = {
    "rsqrt": "rsqrtf",
    "sqrt": "sqrtf",
    "sin": "sinf",
    "cos": "cosf",
    "tan": "tanf",
    "tanh": "tanhf",
    "atan2": "atan2f",
    "exp": "expf",
    "expm1": "expm1f",
    "log": "logf",
    "floor": "floorf",
    "ceil": "ceilf",
    "round": "rintf",
    "pow": "powf",
    "is_finite": "isfinite",
    "population_count": "__popc",
    "clz": "__clz",
}
_OF_KIND = {
    "max": ("fmaxf", "max"),
    "min": ("fminf", "min"),
    "abs": ("fabsf", "abs"),
    "rem": ("fmodf", "kernel_rem"),
    "div": ("__fdividef", "kernel_div"),
}
"""Functions of floats, and of integers."""
ENTRYWISE = {*_OPERATORS, *_FUNCTIONS, *_OF_KIND, "clamp", "select_n", "integer_pow", "shift_right_logical"} | {
    *("neg", "square", "sign", "not", "convert_element_type")
}
"""Operations whose results have entries made of the same entries of their operands."""
_SAME = {"copy", "copy_p", "stop_gradient", "reshard"}
_REDUCTIONS = {
    "reduce_sum": ("Sum", "0"),
    "reduce_max": ("Most", None),
    "reduce_min": ("Least", None),
    "reduce_or": ("Any", None),
    "reduce_and": ("All", None),
}
"""How two are combined, and what is left out of a sum."""
_HEAD = """
struct Sum { template <typename T> __device__ T operator()(T a, T b) const { return a + b; } };
struct Most {
  template <typename T> __device__ T operator()(T a, T b) const { return a > b ? a : b; }
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Least {
  template <typename T> __device__ T operator()(T a, T b) const { return a < b ? a : b; }
  __device__ float operator()(float a, float b) const { return fminf(a, b); }
};
struct Any { __device__ bool operator()(bool a, bool b) const { return a | b; } };
struct All { __device__ bool operator()(bool a, bool b) const { return a & b; } };
template <typename T> __device__ __forceinline__ T kernel_rem(T a, T b) { return a % b; }
template <typename T> __device__ __forceinline__ T kernel_div(T a, T b) { return a / b; }
template <typename F, typename T> __device__ __forceinline__ T over_lanes(F combine, T value) {
  for (int apart = 16; apart; apart /= 2) value = combine(value, (T)__shfl_xor_sync(0xffffffffu, value, apart));
  if (LANES == 32) return value;
  __shared__ T parts[LANES / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int i = 1; i < LANES / 32; i++) value = combine(value, parts[i]);
  return value;
}
template <typename T> __device__ __forceinline__ bool over_lanes(Any, T value) {
  return LANES == 32 ? __any_sync(0xffffffffu, value) : __syncthreads_or(value);
}
template <typename T> __device__ __forceinline__ bool over_lanes(All, T value) {
  return LANES == 32 ? __all_sync(0xffffffffu, value) : __syncthreads_and(value);
}
// The number of earlier lanes for which the mask holds, among the first `size` lanes; later ones repeat the last.
__device__ __forceinline__ int before_lane(int size, bool mask, int &total) {
  const int own = min((int)threadIdx.x, size - 1);
  const unsigned votes = __ballot_sync(0xffffffffu, mask && threadIdx.x < size);
  const unsigned lower = __popc(votes & ((1u << (own % 32)) - 1u));
  if (LANES == 32) {
    total = __popc(votes);
    return lower;
  }
  __shared__ unsigned parts[LANES / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = votes;
  __syncthreads();
  int before = __popc(parts[own / 32] & ((1u << (own % 32)) - 1u));
  total = 0;
  for (int i = 0; i < LANES / 32; i++) {
    before += i < own / 32 ? __popc(parts[i]) : 0;
    total += __popc(parts[i]);
  }
  return before;
}
"""

Part = tuple[int | None, ...]
"""Of a table: indices along its axes, None for any."""
Names = np.ndarray
"""Of a value in C: its axes but that of lanes, and last the entries that a thread has of that, or 1."""


def fits_on_chip(kernel: Kernel) -> bool:
    """Whether the scratch tables do."""
    return sum(size_of(table) * table.dtype.itemsize for table in kernel.scratch) <= SHARED_BYTES


def cuda_text(kernel: Kernel, programs: int, shared: Sequence[int], resident: int | None = None) -> str:
    """The function `program` of pointers to inputs, to results and, unless on chip, to scratch.

    shared: by how many worlds in a row an entry of each input is, 0 if by all; each has its own results. resident:
    programs that a multiprocessor shall hold at once.
    """
    writer = _Writer(kernel)
    on_chip = fits_on_chip(kernel)
    last = kernel.inputs + kernel.results
    aliased = {number for number, _ in kernel.aliases}
    shares = [*shared, *[1] * kernel.results]
    pointers = []
    writer.line(f"const size_t world = blockIdx.x / {programs}u;")
    writer.line(f"const int number = blockIdx.x - (unsigned)world * {programs}u;")
    for table in kernel.tables:
        kind, number = TYPES[table.dtype.name], table.number
        if number >= last and on_chip:
            writer.line(f"__shared__ __align__(16) {kind} m{number}[{size_of(table)}];")
            continue
        only_read = number < kernel.inputs and number not in aliased
        kind = f"const {kind} *__restrict__" if only_read else f"{kind} *"
        pointers.append(f"{kind} p{number}")
        by = 0 if number >= last else shares[number]
        where = "(size_t)blockIdx.x" if number >= last else f"(world / {by}u)" if by > 1 else "world" if by else ""
        writer.line(f"{kind} m{number} = p{number}{f' + {where} * {size_of(table)}' if where else ''};")
    writer.jaxpr(kernel.program.jaxpr, kernel.program.consts, [])
    bounds = f"{kernel.lanes}, {resident}" if resident else str(kernel.lanes)
    head = f'extern "C" __global__ void __launch_bounds__({bounds}) program({", ".join(pointers)}) {{'
    return "\n".join([f"#define LANES {kernel.lanes}", _HEAD, head, *writer.lines, "}", ""])


class _Writer:
    def __init__(self, kernel: Kernel) -> None:
        self.lanes, self.lines, self.depth, self.count = kernel.lanes, [], 1, 0
        self.names: dict[Any, Names] = {}
        self.lane_sizes = set(lane_sizes(kernel.program.jaxpr))
        self.first_scratch = kernel.inputs + kernel.results
        self.touched: set[tuple[int, Part, str]] = set()
        """parts of scratch tables that were read or written since lanes last waited for each other"""
        self.of_warp: set[str] = set()
        """numbers that differ between warps"""
        self.in_warp = False
        """whether what is written depends on such a number"""

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def has_lanes(self, aval: Any) -> bool:
        """Whether the last axis is that of lanes."""
        return bool(aval.shape) and aval.shape[-1] in self.lane_sizes

    def fixed(self, aval: Any) -> tuple[int, ...]:
        """The axes of a value but that of lanes."""
        return aval.shape[:-1] if self.has_lanes(aval) else aval.shape

    def shape(self, aval: Any) -> tuple[int, ...]:
        """Of its names."""
        return *self.fixed(aval), -(-aval.shape[-1] // self.lanes) if self.has_lanes(aval) else 1

    def declare(self, aval: Any, texts: Sequence[str] | None = None) -> Names:
        """New values, of the expressions given or without a value yet."""
        kind, names = TYPES[np.dtype(aval.dtype).name], np.empty(self.shape(aval), object)
        for place in range(names.size):
            names.flat[place] = self.fresh()
            self.line(
                f"{kind} {names.flat[place]};"
                if texts is None
                else f"const {kind} {names.flat[place]} = {texts[place]};"
            )
        return names

    def each(self, aval: Any, write: Callable[..., str], *values: Names) -> Names:
        """A value whose entries are written from those of others; a number goes with every entry."""
        rows = zip(*(np.broadcast_to(value, self.shape(aval)).flat for value in values), strict=True)
        return self.declare(aval, [write(*row) for row in rows])

    def read(self, atom: Any) -> Names:
        return self.constant(atom.val, atom.aval) if isinstance(atom, Literal) else self.names[atom]

    def constant(self, value: Any, aval: Any) -> Names:
        numbers = np.asarray(value)
        if self.has_lanes(numbers):
            raise NotImplementedError(f"a kernel cannot hold an array of lanes, {numbers.shape}: give it as an input")
        texts = [_constant(number, aval.dtype) for number in numbers.flat]
        return np.array(texts, object).reshape(*numbers.shape, 1)

    def jaxpr(self, jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Names]) -> list[Names]:
        """Write all equations; the names of the results."""
        for var, value in zip(jaxpr.constvars, constants, strict=True):
            self.names[var] = self.constant(value, var.aval)
        self.names.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            self.names.update(zip(equation.outvars, self.equation(equation), strict=True))
        return [self.read(atom) for atom in jaxpr.outvars]

    def closed(self, closed: ClosedJaxpr, arguments: Sequence[Names]) -> list[Names]:
        return self.jaxpr(closed.jaxpr, closed.consts, arguments)

    def equation(self, equation: Any) -> list[Names]:
        name, values = equation.primitive.name, [self.read(atom) for atom in equation.invars]
        if name in _STATEMENTS:
            return _STATEMENTS[name](self, equation, values)
        inner = called(equation)
        if inner is not None:
            return self.closed(inner, values)
        out = equation.outvars[0].aval
        if name in _SAME:
            return values
        if name in _REDUCTIONS:
            return [self.reduced(equation, values[0])]
        # A single entry may go to every lane, unless it is one of lanes itself.
        single = [
            self.has_lanes(out) and atom.aval.shape[-1:] == (1,) and not self.has_lanes(atom.aval)
            for atom in equation.invars
        ]
        values = [value[..., 0, :] if alone else value for value, alone in zip(values, single, strict=True)]
        found = self.each(out, _expression(equation), *values)
        if any(name in self.of_warp for value in values for name in value.flat):
            self.of_warp.update(found.flat)
        return [found]

    # Axes

    def broadcast(self, equation: Any, values: list[Names]) -> list[Names]:
        given, out = equation.invars[0].aval, equation.outvars[0].aval
        fixed, value = self.fixed(out), values[0]
        sizes = [1] * len(fixed)
        for axis, size in zip(equation.params["broadcast_dimensions"], self.fixed(given), strict=False):
            if axis < len(fixed):  # or else it is a single entry that goes to every lane
                sizes[axis] = size
        return [np.broadcast_to(value.reshape(*sizes, -1), (*fixed, value.shape[-1]))]

    def reshape(self, equation: Any, values: list[Names]) -> list[Names]:
        given, out = equation.invars[0].aval, equation.outvars[0].aval
        if self.has_lanes(given) != self.has_lanes(out):
            raise NotImplementedError(f"a kernel cannot change the axis of lanes: {equation}")
        return [values[0].reshape(*self.fixed(out), -1)]

    def slice(self, equation: Any, values: list[Names]) -> list[Names]:
        parameters, fixed = equation.params, self.fixed(equation.invars[0].aval)
        if self.has_lanes(equation.invars[0].aval) != self.has_lanes(equation.outvars[0].aval):
            raise NotImplementedError(f"a kernel cannot choose among lanes: {equation}")
        steps = parameters["strides"] or (1,) * (len(fixed) + 1)
        ranges = zip(parameters["start_indices"], parameters["limit_indices"], steps, strict=False)
        return [values[0][tuple(slice(*given) for given, _ in zip(ranges, fixed, strict=False))]]

    def transpose(self, equation: Any, values: list[Names]) -> list[Names]:
        given, order = equation.invars[0].aval, equation.params["permutation"]
        fixed = len(self.fixed(given))
        if self.has_lanes(given) and order[-1] != fixed:
            raise NotImplementedError(f"a kernel cannot move the axis of lanes: {equation}")
        return [values[0].transpose(*order[:fixed], fixed)]

    def concatenate(self, equation: Any, values: list[Names]) -> list[Names]:
        entries = max(value.shape[-1] for value in values)
        same = [np.broadcast_to(value, (*value.shape[:-1], entries)) for value in values]
        return [np.concatenate(same, equation.params["dimension"])]

    def stack(self, equation: Any, values: list[Names]) -> list[Names]:
        entries = max(value.shape[-1] for value in values)
        same = [np.broadcast_to(value, (*value.shape[:-1], entries)) for value in values]
        return [np.stack(same, equation.params["axis"])]

    def unstack(self, equation: Any, values: list[Names]) -> list[Names]:
        given, axis = equation.invars[0].aval, equation.params["axis"]
        if axis >= len(self.fixed(given)):
            raise NotImplementedError(f"a kernel cannot choose among lanes: {equation}")
        return list(np.moveaxis(values[0], axis, 0))

    def split(self, equation: Any, values: list[Names]) -> list[Names]:
        places = np.cumsum(equation.params["sizes"])[:-1]
        return np.split(values[0], places, equation.params["axis"])

    def iota(self, equation: Any, _: list[Names]) -> list[Names]:
        out, axis = equation.outvars[0].aval, equation.params["dimension"]
        if not self.has_lanes(out) or axis + 1 < len(out.shape):
            numbers = np.arange(out.shape[axis]).reshape(-1, *(1,) * (len(self.fixed(out)) - axis - 1))
            return [self.constant(np.broadcast_to(numbers, self.fixed(out)), out)]
        size = out.shape[-1]
        lanes = [f"threadIdx.x + {entry * self.lanes}" for entry in range(self.shape(out)[-1])]
        if size % self.lanes:
            lanes = [f"min((int)({lane}), {size - 1})" for lane in lanes]
        return [self.each(out, lambda lane: lane, np.array(lanes, object))]

    def reduced(self, equation: Any, value: Names) -> Names:
        operation, nothing = _REDUCTIONS[equation.primitive.name]
        given, out = equation.invars[0].aval, equation.outvars[0].aval
        kind, fixed = TYPES[np.dtype(out.dtype).name], len(self.fixed(given))
        over_lanes = self.has_lanes(given) and fixed in equation.params["axes"]
        if over_lanes and self.in_warp:
            raise NotImplementedError(f"lanes cannot wait for each other where a warp is alone: {equation}")
        if over_lanes:  # a number that is the same in every lane counts once for each
            value = np.array(np.broadcast_to(value, self.shape(given)))
            size, last = given.shape[-1], self.lanes * (value.shape[-1] - 1)
            if nothing is not None and size % self.lanes:
                for place in np.ndindex(value.shape[:-1]):
                    value[(*place, -1)] = f"(threadIdx.x + {last} < {size} ? {value[(*place, -1)]} : {nothing})"
        axes = [*equation.params["axes"]] if over_lanes else [axis for axis in equation.params["axes"] if axis < fixed]
        kept = [axis for axis in range(value.ndim) if axis not in axes]
        rows = value.transpose(*kept, *axes).reshape(-1, int(np.prod([value.shape[axis] for axis in axes], dtype=int)))
        texts = []
        for row in rows:
            whole = f"({kind})({row[0]})"
            for entry in row[1:]:
                whole = f"{operation}()({whole}, ({kind})({entry}))"
            texts.append(f"over_lanes({operation}(), {whole})" if over_lanes else whole)
        return self.declare(out, texts)

    # Memory

    def address(self, table: Table, indices: Sequence[str]) -> str:
        text = ""
        for size, index in zip(table.shape, indices, strict=True):
            text = index if not text else f"({text}) * {size} + {index}"
        return f"m{table.number}[{text or 0}]"

    def load(self, equation: Any, values: list[Names]) -> list[Names]:
        table = equation.params["table"]
        self.touch(table, equation, "r")

        def write(*row: str) -> str:
            place, masked = self.address(table, row[: table.ndim]), row[table.ndim :]
            return f"{masked[0]} ? {place} : {masked[1]}" if masked else place

        return [self.each(equation.outvars[0].aval, write, *values)]

    def store(self, equation: Any, values: list[Names]) -> list[Names]:
        table = equation.params["table"]
        self.touch(table, equation, "w")
        for row in zip(*(value.flat for value in np.broadcast_arrays(*values)), strict=True):
            guard = f"if ({row[-1]}) " if len(row) > table.ndim + 1 else ""
            self.line(f"{guard}{self.address(table, row[: table.ndim])} = {row[table.ndim]};")
        return []

    def add(self, equation: Any, values: list[Names]) -> list[Names]:
        table = equation.params["table"]
        self.touch(table, equation, "a")
        for *indices, value, mask in zip(*(value.flat for value in np.broadcast_arrays(*values)), strict=True):
            self.line(f"if ({mask}) atomicAdd(&{self.address(table, indices)}, {value});")
        return []

    def touch(self, table: Table, equation: Any, kind: str) -> None:
        """Before a part of a scratch table is read (r), written (w) or added to (a), lanes wait if they must."""
        if table.number < self.first_scratch:
            return
        indices = equation.invars[: table.ndim]
        part = tuple(int(index.val) if isinstance(index, Literal) else None for index in indices)
        self.wait_for(table, part, kind)
        self.touched.add((table.number, part, kind))

    def wait_for(self, table: Table, part: Part, kind: str) -> None:
        if any(
            (kind != other or kind == "w") and number == table.number and _overlap(part, at)
            for number, at, other in self.touched
        ):
            if self.in_warp:
                raise NotImplementedError(f"lanes cannot wait for table {table.number} where a warp is alone")
            self.line("__syncwarp();" if self.lanes == WARP else "__syncthreads();")
            self.touched = set()

    def touch_all(self, *bodies: ClosedJaxpr) -> None:
        """At the start of a loop: what its end did to scratch tables may not be over."""
        self.touched |= {
            (table.number, (None,) * table.ndim, kind)
            for body in bodies
            for table, kind in accesses(body.jaxpr)
            if table.number >= self.first_scratch
        }

    def program(self, *_: Any) -> list[Names]:
        return [np.array(["number"], object)]

    def anyone(self, equation: Any, values: list[Names]) -> list[Names]:
        mask = " | ".join(values[0].flat)
        found = self.declare(equation.outvars[0].aval, [f"__any_sync(0xffffffffu, {mask})"])
        if self.lanes > WARP:
            self.of_warp.update(found.flat)
        return [found]

    def rank(self, equation: Any, values: list[Names]) -> list[Names]:
        mask = equation.invars[0].aval
        if len(mask.shape) != 1 or not self.has_lanes(mask):
            raise NotImplementedError(f"a kernel can count the entries of one mask at a time: {equation}")
        if self.in_warp:
            raise NotImplementedError(f"lanes cannot wait for each other where a warp is alone: {equation}")
        before, total = [], "0"
        for entry, name in enumerate(np.broadcast_to(values[0], self.shape(mask)).flat):
            size = min(self.lanes, mask.shape[0] - entry * self.lanes)
            place, holding = self.fresh(), self.fresh()
            self.line(f"int {holding};")
            self.line(f"const int {place} = {total} + before_lane({size}, {name}, {holding});")
            before.append(place)
            self.line(f"{holding} += {total};")
            total = holding
        return [self.declare(equation.outvars[0].aval, before), np.array([total], object)]

    def barrier(self, equation: Any, values: list[Names]) -> list[Names]:
        """Integers that the compiler knows nothing of, so that what comes of them is not computed before a loop."""
        found = []
        for var, value in zip(equation.outvars, values, strict=True):
            if TYPES[np.dtype(var.aval.dtype).name] == "int":
                names = self.carried([var], [value])
                for name in names[0].flat:
                    self.line(f'asm volatile("" : "+r"({name}));')
                value = names[0]
            found.append(value)
        return found

    # Loops and conditions

    def carried(self, atoms: Sequence[Any], values: Sequence[Names]) -> list[Names]:
        """Variables of a loop."""
        names = [self.declare(atom.aval) for atom in atoms]
        for one, other in self.pairs(names, values):
            self.line(f"{one} = {other};")
        return names

    def pairs(self, names: Sequence[Names], values: Sequence[Names]) -> list[tuple[str, str]]:
        """Variables and what they are to be."""
        return [
            pair
            for own, value in zip(names, values, strict=True)
            for pair in zip(own.flat, np.broadcast_to(value, own.shape).flat, strict=True)
        ]

    def assign(self, names: Sequence[Names], values: Sequence[Names]) -> None:
        """All at once: a variable may be needed for another."""
        pairs = [pair for pair in self.pairs(names, values) if pair[0] != pair[1]]
        targets, held = {one for one, _ in pairs}, {}
        for _, other in pairs:
            if other in targets and other not in held:
                held[other] = self.fresh()
                self.line(f"const auto {held[other]} = {other};")
        for one, other in pairs:
            self.line(f"{one} = {held.get(other, other)};")

    def block(self, head: str, work: Callable[[], None]) -> None:
        self.line(f"{head} {{")
        self.depth += 1
        work()
        self.depth -= 1
        self.line("}")

    def scan(self, equation: Any, values: list[Names]) -> list[Names]:
        constants, start = split_scan(equation.params, values)
        names = self.carried(equation.invars[len(constants) :], start)
        turn = self.fresh()
        self.touch_all(equation.params["jaxpr"])
        self.line("#pragma unroll 1")
        self.block(
            f"for (int {turn} = 0; {turn} < {equation.params['length']}; {turn}++)",
            lambda: self.assign(names, self.closed(equation.params["jaxpr"], [*constants, *names])),
        )
        return names

    def repeat(self, equation: Any, values: list[Names]) -> list[Names]:
        parameters = equation.params
        first, second = parameters["cond_nconsts"], parameters["cond_nconsts"] + parameters["body_nconsts"]
        names = self.carried(equation.invars[second:], values[second:])

        def turn() -> None:
            (goes_on,) = self.closed(parameters["cond_jaxpr"], [*values[:first], *names])
            self.line(f"if (!{goes_on.item()}) break;")
            self.assign(names, self.closed(parameters["body_jaxpr"], [*values[first:second], *names]))

        self.touch_all(parameters["cond_jaxpr"], parameters["body_jaxpr"])
        before = set(self.touched)
        self.line("#pragma unroll 1")
        self.block("while (true)", turn)
        self.touched |= before  # there may have been no turn
        return names

    def choose(self, equation: Any, values: list[Names]) -> list[Names]:
        (index, *operands), branches = values, equation.params["branches"]
        names = [self.declare(var.aval) for var in equation.outvars]
        alone = self.in_warp
        if index.item() in self.of_warp:  # all wait before it for what they would wait for in it
            for table, kind in (access for branch in branches for access in accesses(branch.jaxpr)):
                self.wait_for(table, (None,) * table.ndim, kind)
            self.in_warp = True
        start, after = self.touched, set()
        for number, branch in enumerate(branches):
            self.touched = set(start)
            test = "" if number + 1 == len(branches) else f" if ((int){index.item()} == {number})"
            self.block(
                f"{'else' if number else ''}{test}".strip(),
                lambda branch=branch: self.assign(names, self.closed(branch, operands)),
            )
            after |= self.touched
        self.touched, self.in_warp = after, alone
        return names


_STATEMENTS = {
    "kernel_load": _Writer.load,
    "kernel_store": _Writer.store,
    "kernel_add": _Writer.add,
    "kernel_program": _Writer.program,
    "kernel_anyone": _Writer.anyone,
    "kernel_rank": _Writer.rank,
    "optimization_barrier": _Writer.barrier,
    "scan": _Writer.scan,
    "while": _Writer.repeat,
    "cond": _Writer.choose,
    "broadcast_in_dim": _Writer.broadcast,
    "reshape": _Writer.reshape,
    "squeeze": _Writer.reshape,
    "expand_dims": _Writer.reshape,
    "slice": _Writer.slice,
    "transpose": _Writer.transpose,
    "concatenate": _Writer.concatenate,
    "stack": _Writer.stack,
    "unstack": _Writer.unstack,
    "split": _Writer.split,
    "iota": _Writer.iota,
}


def _overlap(one: Part, other: Part) -> bool:
    """A table may be indexed along all its axes, or along one (Table.flat)."""
    return len(one) != len(other) or all(None in (a, b) or a == b for a, b in zip(one, other, strict=True))


def _expression(equation: Any) -> Callable[..., str]:
    """How an entry of the result is written, from entries of the operands."""
    name, out = equation.primitive.name, TYPES[np.dtype(equation.outvars[0].aval.dtype).name]
    is_float = equation.invars and np.dtype(equation.invars[0].aval.dtype).name == "float32"
    if name in _OPERATORS:
        return lambda left, right: f"{left} {_OPERATORS[name]} {right}"
    if name in _FUNCTIONS:
        return lambda *values: f"{_FUNCTIONS[name]}({', '.join(values)})"
    if name in _OF_KIND:
        kind = "" if is_float else f"({out})"  # numbers of the text are signed
        return lambda *values: (
            f"{_OF_KIND[name][0 if is_float else 1]}({', '.join(f'{kind}{value}' for value in values)})"
        )
    if name == "clamp":
        least, most = (_OF_KIND[kind][0 if is_float else 1] for kind in ("max", "min"))
        kind = "" if is_float else f"({out})"
        return lambda low, value, high: f"{most}({least}({kind}{value}, {kind}{low}), {kind}{high})"
    if name == "select_n" and len(equation.invars) == 3:
        return lambda which, no, yes: f"{which} ? {yes} : {no}"
    if name == "integer_pow":
        power = equation.params["y"]
        product = [1] * abs(power)
        return lambda base: f"{'__fdividef(1.0f, ' if power < 0 else '('}{' * '.join(base for _ in product)})"
    if name == "shift_right_logical":
        return lambda value, by: f"({out})((unsigned){value} >> {by})"
    simple = {
        "neg": "-{0}",
        "square": "{0} * {0}",
        "sign": "({out})(({0} > 0) - ({0} < 0))",
        "not": "!{0}" if out == "bool" else "~{0}",
        "convert_element_type": "({out}){0}",
    }
    if name in simple:
        return lambda value: simple[name].format(value, out=out)
    raise NotImplementedError(f"a kernel cannot use {name} yet: add it to vsr.compute.gpu.cuda ({equation})")


def _constant(value: Any, dtype: Any) -> str:
    number = np.asarray(value).item()
    match np.dtype(dtype).name:
        case "float32" if not np.isfinite(number):
            return f"__int_as_float(0x{np.float32(number).view(np.uint32):08x})"
        case "float32":
            return f"{float(np.float32(number)).hex()}f" if number >= 0 else f"({float(np.float32(number)).hex()}f)"
        case "bool":
            return str(bool(number)).lower()
        case _:
            return str(int(number)) if number >= 0 else f"({int(number)})"
