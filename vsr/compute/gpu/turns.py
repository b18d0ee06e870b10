"""Loops whose turns are many small operations, in few launches: what lies between large operations is one kernel.

A GPU needs a few microseconds to launch whatever it is to do, and XLA launches every sum and every change of layout on
its own. `scan` reads the operations of a turn, of one world, and sorts them:

- What does not change from turn to turn is computed before the loop; so is what is drawn for each turn, for all turns.
- Large operations stay what they are: kernels, products of matrices, whatever is not known here.
- All others between two of these are one kernel: a program has a world, and a lane its share of every array's entries,
  in their order in memory. Entries go to other lanes through scratch memory.

The last kernel writes what goes to the next turn, and what a turn gives, where it belongs, so that nothing is copied.

A kernel that is written by hand may call a function of arrays in the same way (`Inside`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from vsr.compute.gpu.cuda import ENTRYWISE, TYPES
from vsr.compute.gpu.interpreter import called
from vsr.compute.gpu.language import WARP, Table, add, kernel_call, load, store
from vsr.compute.loops import ready
from vsr.compute.xla import tracing_a_kernel

Carry = TypeVar("Carry")
MOST_ENTRIES = 2048
"""Of an array that a program may hold; kernels of more take seconds to compile."""
SHARE = 8
"""Entries of an array for which a lane has room."""
RESIDENT = 16
"""Warps that a multiprocessor holds at once, which leaves 128 registers to a lane."""
FEW = 8
"""Results up to this number, each of more numbers than this, are made one after the other by all lanes together."""
CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"}
VIEWS = {"reshape", "squeeze", "expand_dims"}
SAME = {"copy", "copy_p", "stop_gradient"}
REDUCTIONS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "reduce_sum": (jnp.sum, jnp.add),
    "reduce_max": (jnp.max, jnp.maximum),
    "reduce_min": (jnp.min, jnp.minimum),
    "reduce_or": (jnp.any, jnp.logical_or),
    "reduce_and": (jnp.all, jnp.logical_and),
}
"""Of all entries, and of two."""
LITERAL, WORLD, DRAWN, NOW = range(4)
"""Of what a value is made: of numbers in the program, of what stays as it is, of what is given for each turn, of what
goes from turn to turn."""


def scan(
    turn: Callable[[Carry, Any], tuple[Carry, Any]],
    start: Carry,
    given: Any = None,
    length: int | None = None,
    *,
    interpret: bool = False,
) -> tuple[Carry, Any]:
    """What jax.lax.scan gives, for one world; use `vmap` for many.

    interpret: for machines without a GPU.
    """
    start = jax.tree.map(jnp.asarray, start)
    turns: int = jax.tree.leaves(given)[0].shape[0] if length is None else length
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), given)
    closed, (_, found) = jax.make_jaxpr(turn, return_shape=True)(start, one)
    (carried, structure), (found, kind) = jax.tree.flatten(start), jax.tree.flatten(found)
    loop = _Loop(_Program(closed), len(carried), jax.tree.leaves(given), interpret)
    rows = [jnp.zeros(turns * math.prod(leaf.shape), leaf.dtype) for leaf in found]
    step, first = ready(loop.turn, (jnp.int32(0), carried, rows))
    _, carried, rows = jax.lax.while_loop(lambda now: now[0] < turns, step, first)
    rows = [one.reshape(turns, *leaf.shape) for one, leaf in zip(rows, found, strict=True)]
    return structure.unflatten(carried), kind.unflatten(rows)


class _Operation(NamedTuple):
    primitive: Any
    params: dict[str, Any]
    inputs: tuple[Any, ...]
    """numbers of values, or literals"""
    outputs: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.primitive.name


class _Program:
    """The operations of a function and of all that it calls, each once. Values have numbers."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.avals: list[Any] = []
        self.memory: list[int] = []
        """of a value: the number of the one that it is a view of, or its own"""
        self.operations: list[_Operation] = []
        self.constants: dict[int, Any] = {}
        self._known: dict[Any, tuple[Any, ...]] = {}
        self.inputs = [self.new(var.aval) for var in closed.jaxpr.invars]
        self.outputs = self.add(closed, self.inputs)
        self.maker = {output: operation for operation in self.operations for output in operation.outputs}

    def new(self, aval: Any, of: int | None = None) -> int:
        self.avals.append(aval)
        self.memory.append(len(self.memory) if of is None else self.memory[of])
        return len(self.avals) - 1

    def size(self, atom: Any) -> int:
        return math.prod(self.aval(atom).shape)

    def aval(self, atom: Any) -> Any:
        return atom.aval if isinstance(atom, Literal) else self.avals[atom]

    def add(self, closed: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
        """Its results."""
        jaxpr: Jaxpr = closed.jaxpr
        constants = [self.constant(value, var.aval) for value, var in zip(closed.consts, jaxpr.constvars, strict=True)]
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

        def of(atom: Any) -> Any:
            return atom if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            given = tuple(map(of, equation.invars))
            known.update(zip(equation.outvars, self.equation(equation, given), strict=True))
        return [of(atom) for atom in jaxpr.outvars]

    def constant(self, value: Any, aval: Any) -> int:
        key = "constant", id(value)
        if key not in self._known:
            number = self.new(aval)
            self.constants[number], self._known[key] = value, (number,)
        return self._known[key][0]

    def equation(self, equation: Any, given: tuple[Any, ...]) -> Sequence[Any]:
        name, params = equation.primitive.name, equation.params
        if name in CALLS:
            inner = called(equation)
            assert inner is not None
            return self.add(inner, given)
        if name in SAME or (name == "select_n" and len(set(map(_key, given[1:]))) == 1):
            return given[-1:]
        outs = [var.aval for var in equation.outvars]
        if (
            name == "convert_element_type"
            and not isinstance(given[0], Literal)
            and self.aval(given[0]).dtype == outs[0].dtype
        ):
            return given
        key = name, tuple(map(_key, given)), tuple((part, repr(value)) for part, value in sorted(params.items()))
        if key not in self._known:
            same_order = name in VIEWS or (
                name == "broadcast_in_dim" and self.size(given[0]) == math.prod(outs[0].shape)
            )
            if same_order and not isinstance(given[0], Literal):
                self._known[key] = (self.new(outs[0], given[0]),)
            else:
                found = tuple(map(self.new, outs))
                self.operations.append(_Operation(equation.primitive, params, given, found))
                self._known[key] = found
        return self._known[key]

    def is_small(self, operation: _Operation) -> bool:
        """Whether a program can do it."""
        params, inputs = operation.params, operation.inputs
        for atom in (*inputs, *operation.outputs):
            if str(self.aval(atom).dtype) not in TYPES or self.size(atom) > MOST_ENTRIES:
                return False
        match operation.name:
            case "round":
                return params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
            case "select_n":
                return len(inputs) == 3 and self.aval(inputs[0]).dtype == bool
            case "pad":
                return all(low >= 0 and high >= 0 and inner == 0 for low, high, inner in params["padding_config"])
            case "gather":
                numbers, mode = params["dimension_numbers"], params["mode"]
                filled = mode == jax.lax.GatherScatterMode.FILL_OR_DROP
                return not numbers.operand_batching_dims and (
                    not filled
                    or (params["fill_value"] is None and self.aval(operation.outputs[0]).dtype == jnp.float32)
                )
            case "scatter-add":
                numbers, whole_numbers = params["dimension_numbers"], self.aval(inputs[0]).dtype == jnp.int32
                dropped = params["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP
                return whole_numbers and dropped and not numbers.operand_batching_dims
        return operation.name in ENTRYWISE or operation.name in _MOVES or operation.name in REDUCTIONS


def _key(atom: Any) -> Any:
    return (str(atom.aval), repr(atom.val)) if isinstance(atom, Literal) else atom


class _Loop:
    """A turn, cut into kernels and large operations."""

    def __init__(self, program: _Program, carried: int, given: Sequence[Array], interpret: bool) -> None:
        self.program, self.carried, self.interpret = program, carried, interpret
        self.origin = dict.fromkeys(program.inputs[:carried], NOW) | dict.fromkeys(program.inputs[carried:], DRAWN)
        self.origin |= dict.fromkeys(program.constants, WORLD)
        for number, memory in enumerate(program.memory):
            if memory != number:
                continue
            maker = program.maker.get(number)
            if maker is not None:
                self.origin[number] = max(map(self.made_of, maker.inputs), default=LITERAL)
        self.still = _not_folded(program.constants)
        """values that are computed before the loop"""
        self.drawn = {number: leaf for number, leaf in zip(program.inputs[carried:], given, strict=True)}
        """values of all turns"""
        inside = self.find_inside()
        drawn = [number for number in self.asked(inside) if self.made_of(number) == DRAWN and number not in self.drawn]
        for number in (*self.asked(inside), *drawn):
            self.settle(number)
        if drawn:
            made = jax.vmap(lambda *row: self.evaluated(drawn, dict(zip(self.drawn, row, strict=True))))(*given)
            self.drawn |= dict(zip(drawn, made, strict=True))
        self.levels = self.sorted(inside)

    def made_of(self, atom: Any) -> int:
        return LITERAL if isinstance(atom, Literal) else self.origin[self.program.memory[atom]]

    def find_inside(self) -> list[_Operation]:
        """The operations of the loop."""
        program, found, ahead = self.program, set(), [*self.program.outputs]
        while ahead:
            atom = ahead.pop()
            maker = None if isinstance(atom, Literal) else program.maker.get(program.memory[atom])
            if maker is not None and maker.outputs not in found and self.stays(maker):
                found.add(maker.outputs)
                ahead += maker.inputs
        return [operation for operation in program.operations if operation.outputs in found]

    def stays(self, operation: _Operation) -> bool:
        made_of = self.made_of(operation.outputs[0])
        if made_of == NOW:
            return True
        spread = operation.name == "broadcast_in_dim" and self.program.size(operation.inputs[0]) == 1
        return (made_of in (LITERAL, DRAWN) or spread) and self.program.is_small(operation)

    def asked(self, inside: list[_Operation]) -> list[int]:
        """Values from outside that operations of the loop, or its results, are made of."""
        made = {output for operation in inside for output in operation.outputs} | set(self.program.inputs)
        atoms = [atom for operation in inside for atom in operation.inputs] + [*self.program.outputs]
        numbers = [self.program.memory[atom] for atom in atoms if not isinstance(atom, Literal)]
        return [number for number in dict.fromkeys(numbers) if number not in made]

    def settle(self, number: int) -> None:
        """Compute what is needed for a value and does not change."""
        number = self.program.memory[number]
        if number in self.still or number in self.program.inputs:
            return
        maker = self.program.maker[number]
        for atom in maker.inputs:
            if not isinstance(atom, Literal):
                self.settle(atom)
        if self.origin[number] < DRAWN:
            self.still |= zip(maker.outputs, self.done(maker, self.still), strict=True)

    def evaluated(self, numbers: Sequence[int], known: dict[int, Array]) -> list[Array]:
        """Values of a turn, from those given for it."""
        known = {**self.still, **known}

        def find(number: int) -> None:
            number = self.program.memory[number]
            if number not in known:
                maker = self.program.maker[number]
                for atom in maker.inputs:
                    if not isinstance(atom, Literal):
                        find(atom)
                known.update(zip(maker.outputs, self.done(maker, known), strict=True))

        for number in numbers:
            find(number)
        return [known[number] for number in numbers]

    def done(self, operation: _Operation, known: dict[int, Array]) -> list[Array]:
        """Its results."""

        def of(atom: Any) -> Any:
            if isinstance(atom, Literal):
                return atom.val
            memory = self.program.memory[atom]
            return known[memory] if memory == atom else known[memory].reshape(self.program.avals[atom].shape)

        found = operation.primitive.bind(*map(of, operation.inputs), **operation.params)
        return list(found) if operation.primitive.multiple_results else [found]

    def sorted(self, inside: list[_Operation]) -> list[tuple[list[_Operation], list[_Operation]]]:
        """Small operations and the large ones after them, again and again; small ones as late as they can be."""
        program = self.program
        earliest: dict[int, int] = {}
        large = {operation.outputs: not program.is_small(operation) for operation in inside}

        def level(atoms: Sequence[Any]) -> int:
            return max(
                (earliest.get(program.memory[atom], 0) for atom in atoms if not isinstance(atom, Literal)), default=0
            )

        turns: dict[tuple[int, ...], int] = {}
        for operation in inside:
            turns[operation.outputs] = level(operation.inputs)
            for output in operation.outputs:
                earliest[output] = turns[operation.outputs] + large[operation.outputs]
        last = max(earliest.values(), default=0)
        latest: dict[int, int] = {}
        for operation in reversed(inside):
            if not large[operation.outputs]:
                turns[operation.outputs] = min(latest.get(output, last) for output in operation.outputs)
            for atom in operation.inputs:
                if not isinstance(atom, Literal):
                    memory = program.memory[atom]
                    latest[memory] = min(latest.get(memory, last), turns[operation.outputs])
        levels: list[tuple[list[_Operation], list[_Operation]]] = [([], []) for _ in range(last + 1)]
        for operation in inside:
            levels[turns[operation.outputs]][large[operation.outputs]].append(operation)
        return levels

    def turn(self, now: tuple[Array, list[Array], list[Array]]) -> tuple[Array, list[Array], list[Array]]:
        number, carried, rows = now
        program = self.program
        known = {**self.still, **dict(zip(program.inputs[: self.carried], carried, strict=True))}
        for place, (small, large) in enumerate(self.levels):
            if place + 1 < len(self.levels):
                later = [one for more, others in self.levels[place + 1 :] for one in (*more, *others)]
                asked = [atom for operation in (*large, *later) for atom in operation.inputs] + [*program.outputs]
                wanted = {program.memory[atom] for atom in asked if not isinstance(atom, Literal)}
                made = [output for operation in small for output in operation.outputs if output in wanted]
                if small:
                    found = _Kernel(self, small, number, known).call([(one, None) for one in made], [])
                    known.update(zip(made, found, strict=True))
                drawn = {
                    one: jax.lax.dynamic_index_in_dim(leaf, number, keepdims=False) for one, leaf in self.drawn.items()
                }
                for operation in large:
                    outcome = self.done(operation, {**drawn, **known})
                    known.update(zip(operation.outputs, outcome, strict=True))
        outputs = program.outputs[: self.carried], program.outputs[self.carried :]
        after = list(carried)
        changed = []
        for place, (own, atom) in enumerate(zip(program.inputs, outputs[0], strict=False)):
            if str(program.avals[own].dtype) not in TYPES:
                after[place] = carried[place] if atom == own else known[program.memory[atom]]
            elif isinstance(atom, Literal) or program.memory[atom] != own:
                changed.append((place, atom))
        found = _Kernel(self, self.levels[-1][0], number, known).call(
            [(atom, carried[place]) for place, atom in changed], list(zip(outputs[1], rows, strict=True))
        )
        for (place, _), value in zip(changed, found, strict=False):
            after[place] = value
        return number + 1, after, found[len(changed) :]


def _not_folded(constants: dict[int, Any]) -> dict[int, Any]:
    """The same values, so that XLA does not write arrays of equal numbers again in every turn."""
    arrays = {number: value for number, value in constants.items() if str(value.dtype) in TYPES and value.size > 1}
    return {**constants, **dict(zip(arrays, jax.lax.optimization_barrier(list(arrays.values())), strict=True))}


class _Kernel:
    """Small operations as a kernel."""

    def __init__(self, loop: _Loop, operations: list[_Operation], number: Array, known: dict[int, Array]) -> None:
        """number: of the turn; known: values."""
        self.loop, self.program, self.operations = loop, loop.program, operations
        self.number, self.known = number, known

    def call(self, results: list[tuple[Any, Array | None]], rows: list[tuple[Any, Array]]) -> list[Array]:
        """Values; results: of the program, with arrays whose memory they are to have, if any; rows: with arrays of one
        row for each turn."""
        program = self.program
        atoms = [atom for operation in self.operations for atom in operation.inputs]
        atoms += [atom for atom, _ in (*results, *rows)]
        made = {output for operation in self.operations for output in operation.outputs}
        read = dict.fromkeys(program.memory[atom] for atom in atoms if not isinstance(atom, Literal))
        read = [number for number in read if number not in made]
        inputs = [self.number.reshape(1)]
        places, drawn = {}, set()
        for number in read:
            places[number] = len(inputs)
            if number in self.known:
                inputs.append(self.known[number].reshape(-1))
            else:
                drawn.add(number)
                inputs.append(self.loop.drawn[number].reshape(-1))
        shapes, aliases, own = [], {}, set()
        for place, (atom, memory) in enumerate(results):
            shapes.append(jax.ShapeDtypeStruct((program.size(atom),), program.aval(atom).dtype))
            if memory is not None:
                same = next((number for number in read if self.known.get(number) is memory), None)
                if same is None:
                    inputs.append(memory.reshape(-1))
                else:
                    own.add(same)
                aliases[len(inputs) - 1 if same is None else places[same]] = place
        for place, (_, memory) in enumerate(rows):
            aliases[len(inputs)] = len(results) + place
            inputs.append(memory)
            shapes.append(jax.ShapeDtypeStruct(memory.shape, memory.dtype))
        plan = _exchanged(program, [self.operations], {number for number in read if number not in own})
        values = [*atoms, *made]
        largest = max((program.size(atom) for atom in values if not isinstance(atom, Literal)), default=1)
        count = max(WARP, -(-largest // (SHARE * WARP)) * WARP)

        exchange, both = jax.tree.flatten(room([plan], count))

        def run(*tables: Table) -> None:
            turn = load(tables[0].at[0])
            first = {number: turn * program.size(number) for number in drawn}
            sources = {number: tables[place] for number, place in places.items()}
            after, scratch = tables[len(inputs) : -len(exchange)], jax.tree.unflatten(both, tables[-len(exchange) :])
            lanes = _Lanes(program, count, sources, own, first, scratch, plan.tables)
            lanes.run(plan.levels)
            values = [lanes.value(atom) for atom, _ in (*results, *rows)]
            lanes.wait()
            for place, ((atom, _), value) in enumerate(zip((*results, *rows), values, strict=True)):
                size = program.size(atom)
                lanes.write(after[place], value, size, 0 if place < len(results) else turn * size)

        found = kernel_call(
            run,
            programs=1,
            lanes=count,
            results=shapes,
            scratch=exchange,
            aliases=aliases,
            resident=max(1, RESIDENT * WARP // count),
            name="turn",
            interpret=self.loop.interpret,
        )(*inputs)
        shaped = [value.reshape(program.aval(atom).shape) for (atom, _), value in zip(results, found, strict=False)]
        return shaped + found[len(results) :]


class _Level(NamedTuple):
    shared: list[int]
    """values that are written to scratch memory before the operations"""
    operations: list[_Operation]


class Plan(NamedTuple):
    """Which scratch tables values go to of which lanes read the entries of others."""

    tables: dict[int, tuple[int, int]]
    """of values: 0 for a table of floats or 1 for one of whole numbers, and its number among these"""
    sizes: tuple[list[int], list[int]]
    """of these tables, the largest first"""
    levels: list[_Level]


def _levels(program: _Program, operations: Sequence[_Operation], anywhere: set[int]) -> list[list[_Operation]]:
    """The operations in levels: in each lanes read of others what levels before have made, and wait for it once."""
    known: dict[int, int] = {}
    levels: list[list[_Operation]] = [[]]
    added = {operation.outputs[0] for operation in operations if operation.name == "scatter-add"}
    for operation in operations:
        moved, level = set(_exchanges(program, operation, anywhere)) - added, 0
        for atom in operation.inputs:
            if not isinstance(atom, Literal):
                number = program.memory[atom]
                level = max(level, known.get(number, 0) + (number in moved))
        if operation.name == "scatter-add":  # what is added to is written before
            level = max(level, 1, *(1 + known.get(program.memory[atom], 0) for atom in _numbers(operation.inputs[:1])))
        for output in operation.outputs:
            known[output] = level + (operation.name == "scatter-add")
        levels += [[] for _ in range(len(levels), level + 1)]
        levels[level].append(operation)
    return levels


def _numbers(atoms: Sequence[Any]) -> list[int]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def _exchanges(program: _Program, operation: _Operation, anywhere: set[int]) -> list[int]:
    """Values that go to other lanes through scratch memory."""
    moved = [program.memory[atom] for atom in _numbers(_moved(program, operation)) if program.size(atom) > 1]
    return [number for number in moved if number not in anywhere]


def _exchanged(program: _Program, levels: Sequence[Sequence[_Operation]], anywhere: set[int]) -> Plan:
    """anywhere: values of which lanes read any entries where they are."""
    uses: dict[int, tuple[int, int]] = {}
    turn, planned = 0, []
    for operations in levels:
        begin, shared = turn, []
        for operation in operations:
            turn += len(levels) == 1
            for number in _exchanges(program, operation, anywhere):
                if number not in uses:
                    shared.append(number)
                uses[number] = uses.get(number, (turn, turn))[0], turn
            if operation.name == "scatter-add":
                uses[operation.outputs[0]] = turn, turn
        turn = begin + 1 if len(levels) > 1 else turn
        planned.append(_Level(shared if len(levels) > 1 else [], list(operations)))
    places: dict[int, tuple[int, int]] = {}
    found: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    for number, (first, last) in sorted(uses.items(), key=lambda use: (use[1][0], -program.size(use[0]))):
        kind, size = int(program.avals[number].dtype != jnp.float32), program.size(number)
        tables = found[kind]
        free = [place for place, (_, until) in enumerate(tables) if until < first]
        place = min(free, key=lambda place: abs(tables[place][0] - size), default=len(tables))
        before = tables[place][0] if place < len(tables) else 0
        tables[place : place + 1] = [(max(size, before), last)]
        places[number] = kind, place
    order = [sorted(range(len(tables)), key=lambda place, tables=tables: -tables[place][0]) for tables in found]
    floats, whole = ([found[kind][place][0] for place in order[kind]] for kind in (0, 1))
    ranked = {number: (kind, order[kind].index(place)) for number, (kind, place) in places.items()}
    return Plan(ranked, (floats, whole), planned)


Scratch = tuple[list[Any], list[Any]]
"""Tables of floats, the first with an entry for every lane, and of whole numbers."""


def room(plans: Sequence[Plan], lanes: int) -> Scratch:
    """Shapes and types of scratch tables with room for each of these plans."""
    floats, whole = (
        [max(sizes) for sizes in itertools.zip_longest(*(plan.sizes[kind] for plan in plans), fillvalue=0)]
        for kind in (0, 1)
    )
    floats = [max(lanes, *floats[:1], 0), *floats[1:]]
    shape = lambda sizes, kind: [jax.ShapeDtypeStruct((size,), kind) for size in sizes]  # noqa: E731
    return shape(floats, jnp.float32), shape(whole, jnp.int32)


class Entries(NamedTuple):
    """Where a table has the entries of an array, one after the other."""

    table: Table
    """with one axis"""
    first: int


class Inside:
    """A function of arrays of one world that a kernel calls: entries are in its lanes, as in the kernels of `scan`.

    What the function reads besides its arguments becomes inputs of the kernel: `numbers` and `arrays`.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        """arguments: arrays, or their shapes and types; later they are in tables."""
        with tracing_a_kernel():
            closed, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
        self.shapes, self.structure = jax.tree.flatten(result)
        self.program = program = _Program(closed)
        wanted = {program.memory[atom] for atom in program.outputs if not isinstance(atom, Literal)}
        self.operations: list[_Operation] = []
        for operation in reversed(program.operations):
            if not wanted.isdisjoint(operation.outputs):
                self.operations.insert(0, operation)
                wanted |= {program.memory[atom] for atom in operation.inputs if not isinstance(atom, Literal)}
        self.is_small = all(map(program.is_small, self.operations))
        """whether a kernel can do it"""
        self.known = {
            place: jnp.reshape(program.constants[program.memory[atom]], leaf.shape)
            for place, (atom, leaf) in enumerate(zip(program.outputs, self.shapes, strict=True))
            if not isinstance(atom, Literal) and program.memory[atom] in program.constants
        }
        """results that the function only hands on, by their place"""
        read = {number: value for number, value in program.constants.items() if number in wanted}
        alone = {number for number, value in read.items() if value.size == 1 and value.dtype == jnp.float32}
        self.numbers = {number: read[number].reshape(()) for number in read if number in alone}
        self.arrays = {number: read[number].reshape(-1) for number in read if number not in alone}
        anywhere = {*program.inputs, *read}
        self.plan = _exchanged(program, _levels(program, self.operations, anywhere), anywhere)
        values = [value for operation in self.operations for value in operation.outputs]
        self.largest = max((program.size(value) for value in values), default=1)
        """entries of its largest array"""

    def __call__(
        self,
        lanes: int,
        numbers: Entries,
        arrays: Sequence[Table],
        scratch: Scratch,
        arguments: Sequence[Entries],
        results: Sequence[Entries | None],
    ) -> None:
        """Write the results that have a place; numbers, arrays: those of the function; scratch: see `room`."""
        program = self.program
        where = {number: Entries(numbers.table, numbers.first + place) for place, number in enumerate(self.numbers)}
        where |= {number: Entries(table, 0) for number, table in zip(self.arrays, arrays, strict=True)}
        where |= dict(zip(program.inputs, arguments, strict=True))
        first = {number: jnp.int32(entries.first) for number, entries in where.items() if entries.first}
        tables = {number: entries.table for number, entries in where.items()}
        run = _Lanes(program, lanes, tables, set(), first, scratch, self.plan.tables)
        run.run(self.plan.levels)
        wanted = [(atom, entries) for atom, entries in zip(program.outputs, results, strict=True) if entries]
        for value, (atom, entries) in zip([run.value(atom) for atom, _ in wanted], wanted, strict=True):
            run.write(entries.table, value, program.size(atom), entries.first)


def _moved(program: _Program, operation: _Operation) -> Sequence[Any]:
    """Operands of which a lane reads entries of others."""
    if operation.name in REDUCTIONS:
        return () if program.size(operation.outputs[0]) == 1 else operation.inputs
    if operation.name == "scatter-add":
        return operation.inputs[1:2]
    if operation.name in _MOVES:
        return operation.inputs
    whole = program.size(operation.outputs[0])
    return [atom for atom in operation.inputs if program.size(atom) != whole]


class _Lanes:
    """Operations on entries in n lanes: entry n k + l of an array is in lane l. The last entry fills up.

    An array whose entries are all one number may be that number.
    """

    def __init__(
        self,
        program: _Program,
        count: int,
        sources: dict[int, Table],
        own: set[int],
        first: dict[int, Array],
        scratch: Scratch,
        shared_in: dict[int, tuple[int, int]],
    ) -> None:
        """count: of lanes; own: values that are overwritten at the end; first: entries at which those of this turn
        begin."""
        self.program, self.count, self.sources, self.own, self.first = program, count, sources, own, first
        self.scratch, self.shared_in = scratch, shared_in
        self.values: dict[int, Array] = {}
        self.written: set[int] = set()
        self.counted: dict[int, Array] = {}

    def run(self, levels: Sequence[_Level]) -> None:
        for level in levels:
            for number in level.shared:
                self.share(number)
            sums = [operation for operation in level.operations if operation.name == "scatter-add"]
            if len(levels) > 1:
                for operation in sums:
                    self.lay(operation)
            for operation in level.operations:
                self.do(operation)
            for operation in sums:  # while they are there
                self.value(operation.outputs[0])

    def do(self, operation: _Operation) -> None:
        if operation.name == "scatter-add":
            self.scatter_add(operation)
            return
        if operation.name in ENTRYWISE:
            found = [self.entrywise(operation)]
        elif operation.name in REDUCTIONS:
            found = [self.reduced(operation)]
        else:
            found = _MOVES[operation.name](self, operation)
        for output, value in zip(operation.outputs, found, strict=True):
            self.values[output] = value.astype(self.program.avals[output].dtype)

    def entries(self, size: int) -> Array:
        """Number of the entry in each lane, (lanes,)."""
        if size not in self.counted:
            whole = -(-size // self.count) * self.count
            lanes = jnp.arange(whole, dtype=jnp.int32)
            self.counted[size] = lanes if whole == size else jnp.minimum(lanes, size - 1)
        return self.counted[size]

    def value(self, atom: Any) -> Array:
        """In lanes, or one number."""
        if isinstance(atom, Literal):
            return jnp.asarray(atom.val, self.program.aval(atom).dtype)
        memory = self.program.memory[atom]
        if memory not in self.values:
            size = self.program.size(memory)
            entry = self.entries(size) if size > 1 else jnp.int32(0)
            self.values[memory] = self.shared(memory, entry) if memory in self.written else self.source(memory, entry)
        return self.values[memory]

    def source(self, memory: int, entry: Array) -> Array:
        return load(self.sources[memory].at[entry + self.first[memory] if memory in self.first else entry])

    def at(self, atom: Any, entry: Array) -> Array:
        """Any entries of a value."""
        if isinstance(atom, Literal) or self.program.size(atom) == 1:
            return self.value(atom)
        memory = self.program.memory[atom]
        if memory in self.sources and memory not in self.own:
            return self.source(memory, entry)
        if memory not in self.written:
            self.share(memory)
        return self.shared(memory, entry) if memory in self.written else self.value(memory)

    def share(self, number: int) -> None:
        """Write a value to scratch memory, unless all its entries are one number."""
        value = self.value(number)
        if value.ndim:
            table = self.scratch_of(number)
            store(table.at[self.entries(self.program.size(number))], value.astype(table.dtype))
            self.written.add(number)

    def shared(self, number: int, entry: Array) -> Array:
        return load(self.scratch_of(number).at[entry]).astype(self.program.avals[number].dtype)

    def scratch_of(self, number: int) -> Table:
        kind, place = self.shared_in[number]
        return self.scratch[kind][place]

    def wait(self) -> None:
        """Lanes wait for each other."""
        table, every = self.scratch[0][0], self.entries(self.count)
        store(table.at[every], 0)
        load(table.at[every])

    def write(self, table: Table, value: Array, size: int, first: Array | int) -> None:
        entry = self.entries(size) if size > 1 else jnp.int32(0)
        store(table.at[entry + first], jnp.broadcast_to(value, entry.shape))

    def spread(self, values: Sequence[Array]) -> list[Array]:
        """With as many lanes as the one that has most."""
        shape = max((value.shape for value in values), default=())
        return [jnp.broadcast_to(value, shape) for value in values]

    # Operations

    def entrywise(self, operation: _Operation) -> Array:
        shape, values = self.shape_of(operation), []
        for atom in operation.inputs:
            own = self.program.aval(atom).shape
            if math.prod(own) in (1, math.prod(shape)):
                values.append(self.value(atom))
            else:  # along axes of length 1 it is the same

                def where(place: list[Any], own: tuple[int, ...] = own) -> list[Any]:
                    return [0 if size == 1 else one for one, size in zip(place, own, strict=True)]

                values.append(self.moved(atom, shape, where))
        values = self.spread(values)
        return operation.primitive.bind(*values, **operation.params)

    def coordinates(self, entry: Array, shape: tuple[int, ...]) -> list[Any]:
        """Of entries, along each axis."""
        found, left = [], math.prod(shape)
        for size in shape:
            left //= size
            found.append(_divided(entry, left) if size > 1 else 0)
            entry = entry if size == 1 or left == 0 else _rest(entry, left)
        return found

    def moved(self, atom: Any, shape: tuple[int, ...], where: Callable[[list[Any]], list[Any]]) -> Array:
        """Entries of a value by coordinates of the result's."""
        if self.program.size(atom) == 1:
            return self.value(atom)
        if math.prod(shape) == 0:
            raise NotImplementedError("an array without entries")
        entry = self.entries(math.prod(shape)) if math.prod(shape) > 1 else jnp.int32(0)
        return self.at(atom, _flat(where(self.coordinates(entry, shape)), self.program.aval(atom).shape))

    def reduced(self, operation: _Operation) -> Array:
        (atom,), axes = operation.inputs, operation.params["axes"]
        of_all, of_two = REDUCTIONS[operation.name]
        shape, size = self.program.aval(atom).shape, self.program.size(operation.outputs[0])
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        steps = _strides(shape)
        outer = tuple(shape[axis] for axis in kept)
        inner = tuple(shape[axis] for axis in axes)
        count = math.prod(inner)
        if size == 1:
            return self.all_together(of_all, self.value(atom), count)

        def base(entry: Any) -> Any:
            return _sum(one * steps[axis] for one, axis in zip(self.coordinates(entry, outer), kept, strict=True))

        if size <= FEW < count:
            within = self.coordinates(self.entries(count), inner)
            offset = _sum(one * steps[axis] for one, axis in zip(within, axes, strict=True))
            found, entry = None, self.entries(size)
            for place in range(size):
                start = int(
                    sum(int(one) * steps[axis] for one, axis in zip(np.unravel_index(place, outer), kept, strict=True))
                )
                one = self.all_together(of_all, self.at(atom, offset + start), count)
                found = one if found is None else jnp.where(entry == place, one, found)
            assert found is not None
            return found
        start, found = base(self.entries(size)), None
        for place in np.ndindex(*inner):
            step = int(sum(one * steps[axis] for one, axis in zip(place, axes, strict=True)))
            one = self.at(atom, start + step)
            found = one if found is None else of_two(found, one)
        assert found is not None
        return found

    def all_together(self, of_all: Callable[..., Array], value: Array, count: int) -> Array:
        """Of all entries, a number."""
        if not value.ndim:
            return value * count if of_all is jnp.sum else value
        if of_all is jnp.sum and count % self.count:
            value = jnp.where(jnp.arange(value.shape[0]) < count, value, 0)
        return of_all(value)

    def shape_of(self, operation: _Operation) -> tuple[int, ...]:
        return self.program.avals[operation.outputs[0]].shape

    def iota(self, operation: _Operation) -> list[Array]:
        shape = self.shape_of(operation)
        entry = self.entries(math.prod(shape)) if math.prod(shape) > 1 else jnp.int32(0)
        return [jnp.asarray(self.coordinates(entry, shape)[operation.params["dimension"]])]

    def broadcast(self, operation: _Operation) -> list[Array]:
        (atom, *_), axes = operation.inputs, operation.params["broadcast_dimensions"]
        own = self.program.aval(atom).shape

        def where(place: list[Any]) -> list[Any]:  # along axes of length 1 it is the same
            return [0 if size == 1 else place[axis] for axis, size in zip(axes, own, strict=True)]

        return [self.moved(atom, self.shape_of(operation), where)]

    def slice(self, operation: _Operation) -> list[Array]:
        params, (atom,) = operation.params, operation.inputs
        start, steps = params["start_indices"], params["strides"] or (1,) * len(params["start_indices"])

        def where(place: list[Any]) -> list[Any]:
            return [first + step * one for first, step, one in zip(start, steps, place, strict=True)]

        return [self.moved(atom, self.shape_of(operation), where)]

    def transpose(self, operation: _Operation) -> list[Array]:
        order = operation.params["permutation"]

        def where(place: list[Any]) -> list[Any]:
            return [place[order.index(axis)] for axis in range(len(order))]

        return [self.moved(operation.inputs[0], self.shape_of(operation), where)]

    def reverse(self, operation: _Operation) -> list[Array]:
        shape, axes = self.shape_of(operation), operation.params["dimensions"]

        def where(place: list[Any]) -> list[Any]:
            return [shape[axis] - 1 - one if axis in axes else one for axis, one in enumerate(place)]

        return [self.moved(operation.inputs[0], shape, where)]

    def pad(self, operation: _Operation) -> list[Array]:
        atom, value = operation.inputs
        shape, inner = self.shape_of(operation), self.program.aval(atom).shape
        low = [one[0] for one in operation.params["padding_config"]]
        inside = []

        def where(place: list[Any]) -> list[Any]:
            found = [one - first for one, first in zip(place, low, strict=True)]
            for one, size, whole in zip(found, inner, shape, strict=True):
                if size < whole:
                    inside.append((one >= 0) & (one < size))
            return [jnp.clip(one, 0, size - 1) for one, size in zip(found, inner, strict=True)]

        entry = self.entries(math.prod(shape)) if math.prod(shape) > 1 else jnp.int32(0)
        found = self.at(atom, _flat(where(self.coordinates(entry, shape)), inner))
        for one in inside:
            found = jnp.where(one, found, self.value(value))
        return [found]

    def concatenate(self, operation: _Operation) -> list[Array]:
        return self.joined(operation, operation.params["dimension"], False)

    def stack(self, operation: _Operation) -> list[Array]:
        return self.joined(operation, operation.params["axis"], True)

    def joined(self, operation: _Operation, axis: int, new: bool) -> list[Array]:
        shape = self.shape_of(operation)
        place = self.coordinates(self.entries(math.prod(shape)) if math.prod(shape) > 1 else jnp.int32(0), shape)
        found, first = None, 0
        for atom in operation.inputs:
            inner = self.program.aval(atom).shape
            if not math.prod(inner):  # nothing to read, and nowhere
                continue
            size = 1 if new else inner[axis]
            own = [*place]
            own[axis] = jnp.clip(place[axis] - first, 0, size - 1)
            one = self.at(atom, _flat([*own[:axis], *own[axis + 1 :]] if new else own, inner))
            found = one if found is None else jnp.where(place[axis] >= first, one, found)
            first += size
        assert found is not None
        return [found]

    def unstack(self, operation: _Operation) -> list[Array]:
        (atom,), axis = operation.inputs, operation.params["axis"]
        shapes = [self.program.avals[output].shape for output in operation.outputs]
        return [
            self.moved(atom, shape, lambda place, number=number: [*place[:axis], number, *place[axis:]])
            for number, shape in enumerate(shapes)
        ]

    def split(self, operation: _Operation) -> list[Array]:
        axis, first, found = operation.params["axis"], 0, []
        for size, output in zip(operation.params["sizes"], operation.outputs, strict=True):

            def where(place: list[Any], first: int = first) -> list[Any]:
                return [one + first if number == axis else one for number, one in enumerate(place)]

            found.append(self.moved(operation.inputs[0], self.program.avals[output].shape, where))
            first += int(size)
        return found

    def dynamic_slice(self, operation: _Operation) -> list[Array]:
        atom, *starts = operation.inputs
        shape, whole = self.shape_of(operation), self.program.aval(atom).shape
        first = [
            jnp.clip(self.value(start).astype(jnp.int32), 0, size - own)
            for start, size, own in zip(starts, whole, shape, strict=True)
        ]
        return [self.moved(atom, shape, lambda place: [one + start for one, start in zip(place, first, strict=True)])]

    def gather(self, operation: _Operation) -> list[Array]:
        (atom, indices), params = operation.inputs, operation.params
        numbers, sizes, shape = params["dimension_numbers"], params["slice_sizes"], self.shape_of(operation)
        whole, starts = self.program.aval(atom).shape, self.program.aval(indices).shape
        entry = self.entries(math.prod(shape)) if math.prod(shape) > 1 else jnp.int32(0)
        place = self.coordinates(entry, shape)
        outer = [one for axis, one in enumerate(place) if axis not in numbers.offset_dims]
        inner = iter([place[axis] for axis in numbers.offset_dims])
        own = [0 if axis in numbers.collapsed_slice_dims else next(inner) for axis in range(len(whole))]
        inside = []
        for number, axis in enumerate(numbers.start_index_map):
            start = self.at(indices, _flat([*outer, number], starts)).astype(jnp.int32)
            most = whole[axis] - sizes[axis]
            inside.append((start >= 0) & (start <= most))
            own[axis] = own[axis] + jnp.clip(start, 0, most)
        found = self.at(atom, _flat(own, whole))
        if params["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP:
            for one in inside:
                found = jnp.where(one, found, jnp.nan)
        return [found]

    def lay(self, operation: _Operation) -> None:
        """Write what is added to."""
        before, every = self.value(operation.inputs[0]), self.entries(self.program.size(operation.outputs[0]))
        store(self.scratch_of(operation.outputs[0]).at[every], jnp.broadcast_to(before, every.shape))
        self.written.add(operation.outputs[0])

    def scatter_add(self, operation: _Operation) -> None:
        """Of whole numbers, which come to the same in any order."""
        (_, indices, updates), (output,) = operation.inputs, operation.outputs
        at_once = output not in self.written
        if at_once:
            self.lay(operation)
        numbers, whole = operation.params["dimension_numbers"], self.shape_of(operation)
        starts, given = self.program.aval(indices).shape, self.program.aval(updates).shape
        entry, size = self.entries(math.prod(given)), math.prod(given)
        place = self.coordinates(entry, given)
        outer = [one for axis, one in enumerate(place) if axis not in numbers.update_window_dims]
        kept = [axis for axis in range(len(whole)) if axis not in numbers.inserted_window_dims]
        own, most = [jnp.zeros_like(entry)] * len(whole), [length - 1 for length in whole]
        for axis, window in zip(kept, numbers.update_window_dims, strict=True):
            own[axis], most[axis] = jnp.asarray(place[window], jnp.int32), whole[axis] - given[window]
        there = jnp.arange(entry.shape[0], dtype=jnp.int32) < size
        for number, axis in enumerate(numbers.scatter_dims_to_operand_dims):
            start = self.at(indices, _flat([*outer, number], starts)).astype(jnp.int32)
            there &= (start >= 0) & (start <= most[axis])
            own[axis] = own[axis] + start
        add(self.scratch_of(output).at[_flat(own, whole)], jnp.broadcast_to(self.value(updates), entry.shape), there)
        if at_once:
            self.value(output)


_MOVES: dict[str, Callable[[_Lanes, _Operation], list[Array]]] = {
    "iota": _Lanes.iota,
    "broadcast_in_dim": _Lanes.broadcast,
    "slice": _Lanes.slice,
    "transpose": _Lanes.transpose,
    "rev": _Lanes.reverse,
    "pad": _Lanes.pad,
    "concatenate": _Lanes.concatenate,
    "stack": _Lanes.stack,
    "unstack": _Lanes.unstack,
    "split": _Lanes.split,
    "dynamic_slice": _Lanes.dynamic_slice,
    "gather": _Lanes.gather,
}
"""Operations that read entries of other lanes."""


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _sum(parts: Any) -> Any:
    return sum(parts, start=np.int32(0))


def _flat(place: list[Any], shape: tuple[int, ...]) -> Any:
    """The entry at some coordinates."""
    return jnp.asarray(_sum(one * step for one, step in zip(place, _strides(shape), strict=True)), jnp.int32)


def _divided(entry: Array, by: int) -> Array:
    return entry if by == 1 else jax.lax.div(entry, jnp.full_like(entry, by))


def _rest(entry: Array, by: int) -> Array:
    return jnp.zeros_like(entry) if by == 1 else jax.lax.rem(entry, jnp.full_like(entry, by))
