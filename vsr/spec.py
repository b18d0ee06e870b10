"""The base of every plain-data description: robots, worlds, tasks.

A description is a frozen pydantic model: it checks its domain when it is made, refuses unknown fields, and
round-trips through YAML and JSON. Nothing here knows about arrays; turning a description into arrays is the
job of the module that owns the mathematics.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import wraps
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    TypeAdapter,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Spec(BaseModel):
    """Frozen, strict plain data. Docstrings below fields say what they mean (vsr.experiments.docstrings reads them)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    def to_plain(self) -> dict[str, Any]:
        """Only JSON types (numbers, text, lists, dicts), ready for YAML or JSON."""
        return _type_first(self.model_dump(mode="json"))


class FileSpec(Spec):
    """The whole of a file. Each kind of file names itself in `kind`."""

    format: Literal[1] = 1
    """version of this kind of file"""


T = TypeVar("T")
REMEMBERED = 1024
"""Results that a function remembers."""


def memoize(function: Callable[..., T]) -> Callable[..., T]:
    """A function of descriptions that is called once for the very same ones, which many experiments may share.

    It is pure, and what it gives is not to be changed.
    """
    known: dict[tuple[int, ...], tuple[tuple[Any, ...], T]] = {}

    @wraps(function)
    def remembered(*parts: Any) -> T:
        key = tuple(map(id, parts))
        found = known.get(key)
        if found is None:
            if len(known) >= REMEMBERED:
                known.clear()
            found = known[key] = parts, function(*parts)  # with the parts, so that nothing else gets their ids
        return found[1]

    return remembered


class InfeasibleError(ValueError):
    """What is described is sound and yet cannot be built; the message says what to change."""


def _type_first(value: Any) -> Any:
    """Plain data whose mappings begin with what they describe."""
    if isinstance(value, list):
        return [_type_first(item) for item in value]
    if isinstance(value, dict):
        first = [key for key in ("kind", "format", "type") if key in value and not isinstance(value[key], dict | list)]
        return {key: _type_first(value[key]) for key in dict.fromkeys([*first, *value])}
    return value


def _read_fraction(value: Any) -> Any:
    if isinstance(value, str) and "/" in value:
        try:
            return float(Fraction(value.replace(" ", "")))
        except (ValueError, ZeroDivisionError):
            return value
    return value


def _fits_float32(value: float) -> float:
    if value != 0 and not 1e-30 <= abs(value) <= 1e30:
        raise PydanticCustomError("magnitude", "Input should be zero or between 1e-30 and 1e30 in size")
    return value


Real = Annotated[float, Strict(), AfterValidator(_fits_float32)]
"""A number that float32 can hold; text and booleans are refused rather than converted."""

Count = Annotated[int, Strict()]
"""A whole number; text, booleans and 3.0 are refused rather than converted."""

Switch = Annotated[bool, Strict()]
"""true or false, nothing else."""


_WrittenSeconds = Annotated[float, Field(gt=0)] | Annotated[str, Field(pattern=r"^\s*\d+\s*/\s*\d+\s*$")]

Seconds = Annotated[Real, Field(gt=0), BeforeValidator(_read_fraction, json_schema_input_type=_WrittenSeconds)]
"""A positive time [s]; a fraction such as 1/60 may be written as text."""


def unknown_names(names: Iterable[str], known: Iterable[str], what: str) -> PydanticCustomError:
    """The error for names that are in no registry, each with the nearest known one."""
    known = list(known)
    text = "; ".join(f"unknown {what} '{clipped(name)}'{suggest(name, known)}" for name in names)
    return PydanticCustomError("unknown_name", "{text}", {"text": text})


def validation_error(issues: Sequence[tuple[tuple[str, ...], str]]) -> PydanticCustomError:
    """One error that carries every complaint (where and why) about parts that do not fit together."""
    text = "; ".join(f"{'.'.join(path)}: {reason}" for path, reason in issues)
    return PydanticCustomError("misfit", "{text}", {"text": text, "complaints": issues})


def clipped(text: str, most: int = 60) -> str:
    """A text for a message, however long it is."""
    return text if len(text) <= most else text[: most - 3] + "..."


SYNONYMS = {
    "algorithm": "optimizer", "ann": "mlp", "brain": "controller",
    "control_interval": "control_every", "draws": "resample", "driving": "clock", "dt": "time_step",
    "ea": "optimizer", "episode_length": "duration",
    "epochs": "generations", "ga": "mu_plus_lambda", "genetic_algorithm": "mu_plus_lambda", "ground": "terrain",
    "held": "clamped", "iterations": "generations", "masses": "engine", "morphology": "body",
    "mutation": "sigma", "n_gen": "generations",
    "n_pop": "population_size", "n_tour": "tournament_size", "n_trials": "trials", "neighbours": "neighbors",
    "neural_network": "mlp", "objective": "fitness", "others": "other_robots", "phases": "sine",
    "pop": "population_size", "pop_size": "population_size", "population": "population_size",
    "popsize": "population_size", "redrawing": "resampling_rate", "repeats": "trials", "reward": "fitness",
    "rnn": "recurrent", "search": "optimizer", "seconds": "duration", "senses": "sensors", "slopes": "gradients",
    "speed": "relative_velocity", "starts": "trials", "take": "aggregate", "timestep": "time_step",
    "tournament": "tournament_size", "vary": "randomize", "velocity": "relative_velocity",
    "voxel_size": "voxel_side", "walking": "locomotion",
}  # fmt: skip
"""What people call keys and components, here or in other programs, and what files call them."""


def suggest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' or the whole choice, to end an error message with."""
    name, known = clipped(name), list(known)
    same = [SYNONYMS[name]] if SYNONYMS.get(name) in known else []
    near = same or difflib.get_close_matches(name, known, n=1, cutoff=0.55)
    return f"; did you mean '{near[0]}'?" if near else f"; choose from {', '.join(known)}"


class Registry(dict[str, T]):
    """Components by name. A name belongs to the first component that has it, and cannot be given to another one.

    A component that is defined again, by its module and its own name, replaces the old one: a cell of a notebook may
    be run twice. `listeners` are called after every new entry.
    """

    def __init__(self, what: str, components: Mapping[str, T]):
        """what: a component of the registry is called in messages."""
        super().__init__(components)
        self.what = what
        self.listeners: list[Callable[[], object]] = []

    def __setitem__(self, name: str, component: T) -> None:
        old, new = _origin(self.get(name, component)), _origin(component)
        if old != new:
            raise ValueError(f"the {self.what} '{name}' exists: {old}; register {new} under another name")
        super().__setitem__(name, component)
        for listener in self.listeners:
            listener()

    def update(self, *given: Any, **named: Any) -> None:
        """As of any dict; every name is checked."""
        for name, component in dict(*given, **named).items():
            self[name] = component

    def __ior__(self, given: Any) -> Registry[T]:  # type: ignore[override,misc]
        self.update(given)
        return self


def _origin(component: Any) -> str:
    """Where a class or function comes from: `module.name`."""
    component = inspect.unwrap(component)
    kind = component if hasattr(component, "__qualname__") else type(component)
    return f"{kind.__module__}.{kind.__qualname__}"


class OneOf:
    """Annotation of a field that holds one of a registry's components, distinguished by their `type`.

    A bare name stands for the component with its defaults: `terrain: flat`. With a default, `type` may be left out.
    The registry is looked up whenever a value is read or a JSON schema is made, so that a component that is registered
    after the description was defined may stand wherever its key may.
    """

    def __init__(self, registry: Mapping[str, type[BaseModel]], *, default: str | None = None):
        self.registry = registry
        self.default = default

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler(_union_of(self.registry).core_schema)
        choices = described.get("oneOf", [described])
        return {"anyOf": [*choices, {"enum": list(self.registry)}]}

    def _read(self, value: Any) -> Any:
        if isinstance(value, str):
            value = {"type": value}
        elif isinstance(value, dict) and self.default is not None:
            value = {"type": self.default, **value}
        return _union_of(self.registry).validator.validate_python(value)


_UNIONS: dict[int, tuple[dict[str, type[BaseModel]], TypeAdapter]] = {}
"""The components of registries, by id, when a union of them was last asked for, and that union."""


def _union_of(registry: Mapping[str, type[BaseModel]]) -> TypeAdapter:
    """What reads any component that a registry has at the moment; made anew only if it has changed."""
    known, union = _UNIONS.get(id(registry), (None, None))
    if union is None or known != registry:
        known = dict(registry)
        union = TypeAdapter(Annotated[Any, _Union(known)])
        _UNIONS[id(registry)] = known, union
    return union


class _Union:
    """Annotation: one of these components, by its `type`."""

    def __init__(self, components: Mapping[str, type[BaseModel]]):
        self.components = components

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {name: handler.generate_schema(component) for name, component in self.components.items()}
        return core_schema.tagged_union_schema(choices, discriminator="type")
