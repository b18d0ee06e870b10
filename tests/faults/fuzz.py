"""Fuzzed inputs: valid files and command lines with changes that hypothesis chooses, read under limits.

An input may be accepted or refused in words, in 10 s of CPU time and 2 GB; a traceback is an issue.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import resource
import signal
import struct
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import numpy as np
import yaml
from hypothesis import strategies as st

from faults.processes import Result, run_here
from vsr.cli import main as cli
from vsr.experiments.config import UserError, dump_plain, dump_yaml, load, load_experiment, load_scene, parse_scene
from vsr.experiments.config.yaml import EXTENDS, read_yaml
from vsr.experiments.evaluate.matrix import RobotGroup, combinations_of, group_of, read_whole
from vsr.experiments.evaluate.sets import load_set
from vsr.experiments.experiment import Experiment
from vsr.experiments.installed import names_of
from vsr.experiments.reach.command import load_reach
from vsr.experiments.shipped import SET, STUDY, find_config, shipped_files
from vsr.experiments.storage.lineage import read_lineage
from vsr.experiments.storage.provenance import describe_session
from vsr.experiments.storage.robots import BEST, robot_file, write_robot
from vsr.experiments.study import load_study
from vsr.experiments.verify import load_claim as read_robot
from vsr.lattice.mesh import cells_inside, read_mesh
from vsr.spec import InfeasibleError

SECONDS = 10.0
"""CPU time that reading an input may take [s]."""
MEMORY = 2_000_000_000
"""Memory that it may take [bytes]."""
INPUTS = 100
"""In a trial of the campaign."""

# Valid inputs

ROBOTS = (
    "# best of seed 0: individual 12, relative_velocity 0.1\n"
    "robot:\n  body: {shape: [aa, a.], materials: {a: {spring_frequency: 8.0}}}\n"
    "  controller: {type: sine, frequency: 1.0, phase: [[0.1, 0.2], [0.3, null]]}\n"
    "task: {duration: 2.0}\nphysics: {time_step: 1/60, substeps: 6}\n",
    "robot:\n  body: {shape: aa}\n  controller:\n    type: mlp\n    sensors: [{quantity: area_ratio}]\n"
    "    hidden: [2]\n"
    "    weights: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]\n"
    "world: {terrain: {type: hilly, height: 0.5}}\ntask: {duration: 1.0}\n",
    "robot:\n  body: {shape: [[aa], [aa]], engine: points}\n  controller: {type: sine}\n"
    "world: {terrain: sand}\ntask: {duration: 1.0}\n",
)
EVOLUTIONS = (
    "robot:\n  body: {shape: [aa, a.]}\n  controller: sine\ntask: {duration: 1.0}\nfitness: relative_velocity\n"
    "optimizer: {population_size: 8, tournament_size: 2}\ngenerations: 4\nseeds: 2\n",
    "robot:\n  body: {shape: ab, materials: {a: {}, b: {spring_frequency: 5.0}}}\n  controller: sine\n"
    "task: {duration: 1.0}\n"
    "world: {terrain: {type: uneven, roughness: 0.5}}\nfitness: {measure: travel_velocity, direction: minimize}\n"
    "evaluation: {trials: 2, jitter: {height: 0.1}}\noptimizer: {population_size: 8, tournament_size: 2}\n"
    "generations: 4\n",
    "robot:\n  body: {shape: [[aa], [aa]], engine: points}\n  controller: sine\n"
    "task: {duration: 0.5}\nfitness: travel_velocity\noptimizer: {population_size: 8, tournament_size: 2}\n"
    "generations: 4\n",
)
"""Experiments whose best robots are written as a run does it, without a simulation ..."""
START = {
    "generation": 0, "device": "cpu: cpu", "devices": 1, "machine": "Linux x86_64", "python": "3.12.1",
    "packages": {"vsr": "0.1.0", "jax": "0.11.0"}, "commit": None, "flags": {}, "code_generator": None,
}  # fmt: skip
"""... on another computer."""


@functools.cache
def documents(kind: str) -> list[str]:
    """Texts of valid files of a kind, of robots, or of evolved ones: the best robots of runs."""
    if kind == "robot":
        return list(ROBOTS)
    if kind == "evolved":
        return [_best_robot(text) for text in EVOLUTIONS]
    return [_alone(shipped.path) for shipped in shipped_files() if shipped.kind == kind]


def _alone(file: Path) -> str:
    """The text of a file that may lie anywhere: with all that it extends."""
    text = file.read_text(encoding="utf-8")
    return dump_plain(read_yaml(file).data) if EXTENDS in text else text


def _best_robot(text: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / BEST).mkdir()
        (folder / "experiment.yaml").write_text(text, encoding="utf-8")
        experiment = load_experiment(folder / "experiment.yaml").resolved()
        body = experiment.robot.body
        counts = {"body": body.gene_count, "controller": experiment.robot.controller.gene_count(body)}
        genes = {part: np.linspace(-0.5, 0.5, count, dtype=np.float32) for part, count in counts.items()}
        write_robot(folder, experiment, 0, genes, 9, 0.25, [START])
        return robot_file(folder, experiment.seeds[0]).read_text(encoding="utf-8")


@functools.cache
def binaries(kind: str) -> list[tuple[str, bytes]]:
    """Name and content of valid files: a tetrahedron as mesh, or arrays of a run."""
    if kind == "arrays":
        target, ids = io.BytesIO(), np.arange(8).reshape(2, 1, 4)
        parents = -np.ones((2, 1, 4, 2), int)
        np.savez_compressed(target, id=ids, parents=parents, fitness=ids / 8, best_id=np.array([[3], [3]]))
        return [("lineage/00000000.npz", target.getvalue())]
    corners = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], float)
    faces = np.array([(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)])

    def lines(before: str, rows: Any) -> str:
        return "".join(f"{before}{' '.join(map(str, row))}\n" for row in rows)

    loops = "".join(
        f"facet normal 0 0 0\nouter loop\n{lines('vertex ', corners[face])}endloop\nendfacet\n" for face in faces
    )
    packed = b"".join(struct.pack("<12fH", 0, 0, 0, *corners[face].ravel(), 0) for face in faces)
    return [
        ("mesh.obj", (lines("v ", corners) + lines("f ", faces + 1)).encode()),
        ("mesh.stl", b"\0" * 80 + struct.pack("<I", len(faces)) + packed),
        ("mesh.ascii.stl", f"solid x\n{loops}endsolid x\n".encode()),
        ("mesh.off", f"OFF\n{len(corners)} {len(faces)} 0\n{lines('', corners)}{lines('3 ', faces)}".encode()),
    ]


# Changes

NUMBERS = (
    0, 1, -1, 2, 7, 255, 1000, 10**6, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**18, 10**40,
    -0.0, 0.1, 0.5, 1.5, 1e-12, 5e-324, 1e12, 3.5e38, 1.7e308, -1e300, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
WORDS = (
    "", " ", "a", "aa", "a.", "...", ".", "-", "~", "null", "true", "no", "yes", "1", "1.0", "1/3", "1/0", "0/0", "1/",
    "1e999", "0x10", "0o7", "1_000", "12:30", "2024-01-01", "type", "flat", "hilly", "sand", "mlp", "sine", "sine",
    "fixed", "gaussian_mixture", "squares", "points", "float64", "fused", "maximize", "x" * 200, "é", "日本", "\u202e",
    "\ufeff", "\x00", "\x1b[31m", "\ud800", "a\nb", "a: b", "[", "{", "*a", "&a b", "!!python/name:os.system",
    "!!binary aGk=", "%s", "{0}", "../x", "/", "/dev/null", "[bold]", "$HOME", "`ls`", "'", '"', "#", "|", ">", "?",
)  # fmt: skip
ALIASES = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefgh")
)
PIECES = (
    "", "&a [*a]", "&a {<<: *a}", "*unknown", "<<: {}", "? [a]\n: b", "!!python/object:os.system {}", "!unknown x",
    "!!set {a}", "!!omap [a: 1]", "--- ", "...\n", "%YAML 9.9\n---\n", "%TAG ! x\n", "\t", "\x00", "\ufeff", "\x85",
    "- - - -", "{", "}", "[", "]", ": ", ",", "'", '"', "|\n", ">-\n", "#", "\\", "\r\n", "\r", "\u2028", "\n", "  ",
    "9" * 4400, "-" + "1" * 5000, "0." + "3" * 5000, "1e" + "9" * 400, "[" * 2000, "{a: " * 800, "- " * 1500,
    "a" * 100_000, "[" + "0," * 20_000 + "0]", "1e999", ".inf", "-.inf", ".nan", "null", ALIASES,
)  # fmt: skip
"""Text that readers of YAML stumble over."""
KEYS = st.sampled_from(("type", "a", "b", "x", "", "shape", "file", "weights", "1"))
LEAVES = st.sampled_from(NUMBERS) | st.sampled_from(WORDS) | st.sampled_from((None, True, False)) | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=6
)
FACTORS = st.sampled_from((-1, 0, 2, 10, 1000, 10**6, 10**9, 0.1, 0.5, 1e-9))
LENGTHS = st.sampled_from((0, 1, 2, 5, 20, 100, 10**9))


@st.composite
def changed_documents(draw: Any, kind: str) -> bytes:
    """A valid document changed as a tree, so that deep checks are reached, and as text and bytes."""
    text = draw(st.sampled_from(documents(kind)))
    changes = draw(st.integers(0, 3))
    if changes:
        tree = [yaml.safe_load(text)]
        for _ in range(changes):
            _change_tree(draw, tree)
        flow = draw(st.sampled_from((None, True, False)))
        try:
            text = yaml.safe_dump(tree[0], sort_keys=False, default_flow_style=flow, allow_unicode=True)
        except (yaml.YAMLError, RecursionError, UnicodeError):
            text = repr(tree[0])
    for _ in range(draw(st.sampled_from((0, 0, 1, 2))) if changes else draw(st.integers(1, 4))):
        piece = draw(st.sampled_from(PIECES) | st.text(max_size=2) | st.sampled_from(documents(kind)))
        text = _replaced_part(draw, text, piece)
    data = text.encode("utf-8", errors="surrogatepass")
    return _replaced_part(draw, data, draw(st.binary(max_size=4))) if draw(st.integers(0, 9)) == 9 else data


def _replaced_part(draw: Any, content: Any, piece: Any) -> Any:
    place, length = draw(st.integers(0, len(content))), draw(LENGTHS)
    return content[:place] + piece + content[place + length :]


def _change_tree(draw: Any, tree: list[Any]) -> None:
    """Replace, scale, wrap, remove, misspell or copy one value below the first of a list."""
    owner, key = draw(st.sampled_from(list(_places(tree))))
    value = owner[key]
    way = draw(st.sampled_from(("replace", "replace", "scale", "wrap", "remove", "misspell", "copy")))
    if way == "scale" and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            owner[key] = type(value)(value * draw(FACTORS))
    elif way == "scale" and isinstance(value, list):
        owner[key] = value * draw(st.sampled_from((2, 10, 100)))
    elif way == "wrap":
        owner[key] = draw(st.sampled_from(([value], {"type": value})))
    elif way == "remove" and owner is not tree:
        del owner[key]
    elif way == "misspell" and isinstance(owner, dict):
        word = str(key)
        owner[draw(st.sampled_from((word[1:], word + "x", word.upper(), word[:-1])))] = owner.pop(key)
    elif way == "copy":
        other, there = draw(st.sampled_from(list(_places(tree))))
        owner[key] = yaml.safe_load(yaml.safe_dump(other[there])) if other is not tree else owner[key]
    else:
        owner[key] = draw(VALUES)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every owner and key in a tree."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


@functools.cache
def _setting_paths() -> list[str]:
    """Of every value in the shipped experiments, as `--set` has it."""
    paths: set[str] = set()

    def walk(tree: Any, path: str) -> None:
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
            paths.add(f"{path}{key}")
            walk(value, f"{path}{key}.")

    for text in documents("experiment"):
        walk(yaml.safe_load(text), "")
    return sorted(paths)


@st.composite
def settings_words(draw: Any) -> str:
    """A word after `--set`."""
    odd = (".", "", "a..b", "a." * 3000, "robot." * 50 + "x", *WORDS)
    path = draw(st.sampled_from(_setting_paths()) | st.sampled_from(odd))
    path += draw(st.sampled_from(("",) * 8 + (".0", ".99999999999999999999", ".-1", ".x", ".")))
    value = draw(VALUES.map(lambda value: yaml.safe_dump(value, default_flow_style=True)) | st.sampled_from(PIECES))
    return f"{path}={value.removesuffix('...' + chr(10)).strip()}"


def commands() -> dict[str, list[tuple[str, bool]]]:
    """Every command with its options, and whether each takes a value.

    Options that name results are left out: these go into a trial's folder, by names that are not random. So are those
    that wait for something.
    """
    left_out = ("--out", "--json", "--plot", "--plots", "--copy", "--from", "--wait", "--open")
    return {
        name: [
            (option, not getattr(parameter, "is_flag", False))
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("-") and option not in left_out
        ]
        for name, command in sorted(cli.commands.items())
    }


OPTION_VALUES = st.sampled_from((*WORDS, "0", "-1", "1e9", "nan", "99999999999", "1,2,4", "a=b", "x.y=z", "4,2,1"))
ODD_PATHS = (".", "..", "/", "/dev/null", "/dev/zero", "~", "none", "x" * 300, "a/" * 100)
CONTENTS = st.sampled_from((b"", b"{}", b"[]", b"\xff\xfe", b"a: [", b"null", b"robot: 1\n", b"- a"))


@st.composite
def command_lines(draw: Any) -> tuple[list[str], dict[str, bytes | None]]:
    """A command about something that is no run and no valid file, with random options; the files it needs."""
    name, options = draw(st.sampled_from(sorted(commands().items())))
    shipped = {name for file in shipped_files() for name in names_of(file.path)}  # these would be computed
    words, files = [name], dict[str, bytes | None]()
    for number in range(draw(st.integers(1, 2))):
        path = f"input{number}{draw(st.sampled_from(('.yaml', '.json', '', '.npz')))}"
        way = draw(st.sampled_from(("odd", "word", "missing", "folder", "run", "file")))
        if way in ("odd", "word"):
            path = draw(st.sampled_from(ODD_PATHS if way == "odd" else [word for word in WORDS if word not in shipped]))
        elif way == "folder":
            files[path] = None
        elif way == "run":
            files |= {f"{path}/{part}": draw(CONTENTS) for part in ("config.yaml", "meta.json")}
        elif way == "file":
            files[path] = draw(CONTENTS | st.binary(max_size=100))
        words.append(path)
    for option, takes_value in draw(st.lists(st.sampled_from(options), max_size=3)) if options else ():
        words += [option, draw(OPTION_VALUES)] if takes_value else [option]
    return words, files


@dataclass(frozen=True)
class Input:
    """Something to read."""

    target: str
    """how"""
    arguments: tuple[str, ...]
    files: dict[str, bytes | None]
    """contents by their paths in a folder of its own, None for a folder; the first is what is read"""


TURNS = (
    "experiment", "scene", "setting", "experiment", "robot", "command", "study", "setting", "experiment", "reach",
    "mesh", "arrays", "scene", "robot", "command", "evaluation_set", "evolved",
)  # fmt: skip
"""Kinds of inputs, as often as each is tried."""


@st.composite
def inputs(draw: Any) -> Input:
    target = draw(st.sampled_from(TURNS))
    arguments, files = [], dict[str, bytes | None]()
    if target == "command":
        arguments, files = draw(command_lines())
    elif target == "setting":
        files["input.yaml"] = draw(st.sampled_from(documents("experiment"))).encode()
        arguments = draw(st.lists(settings_words(), min_size=1, max_size=2))
    elif target in ("mesh", "arrays"):
        name, data = draw(st.sampled_from(binaries(target)))
        for _ in range(draw(st.integers(1, 5))):
            data = _replaced_part(draw, data, draw(st.binary(max_size=64)))
        files[name] = data
    else:
        files["input.yaml"] = draw(changed_documents(target))
    words = (word.replace("\0", "").replace("\ud800", "\udcff") for word in arguments)  # as a command line can hold it
    return Input(target, tuple(words), files)


# Reading


class TooLong(BaseException):
    """The CPU time is up."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Limit CPU time and memory of this process, beyond what it has now; memory only where it can be measured."""

    def stop(*_: Any) -> None:
        raise TooLong(f"more than {SECONDS:g} s")

    handler = signal.signal(signal.SIGPROF, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    measured = Path("/proc/self/statm")
    if measured.is_file():
        now = int(measured.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, handler)


def read_input(target: str, file: Path, arguments: tuple[str, ...], folder: Path) -> Result:
    """Code 0 if it is valid, 2 if it is refused in words, 1 with a traceback otherwise."""
    refusals = (UserError, InfeasibleError)
    if target == "mesh":  # read from Python only
        refusals = (ValueError, FileNotFoundError, ImportError)
    try:
        with limited():
            if target == "command":
                return run_here(arguments, folder)
            TARGETS[target](str(file), list(arguments))
            return Result(0, "")
    except refusals as error:
        return Result(2, str(error))
    except OSError as error:  # as the command reports it
        return Result(1, traceback.format_exc()) if error.filename is None else Result(2, f"{error.filename}: {error}")
    except (Exception, TooLong):
        return Result(1, traceback.format_exc())


def issue_of(given: Input) -> str | None:
    """Read an input in a folder of its own; what is wrong with the result, None if nothing is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in given.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                (folder / path).mkdir()
            else:
                (folder / path).write_bytes(content)
        if given.target == "study":  # the experiments that shipped studies name are beside them
            for beside in {file.path.with_suffix("") for file in shipped_files() if file.kind == STUDY}:
                (folder / beside.name).symlink_to(beside)
        result = read_input(given.target, folder / next(iter(given.files), "none"), given.arguments, folder)
    if result.traceback or result.code not in (0, 2):
        return f"code {result.code}: {result.last_line}"
    return "refused without a word" if result.code == 2 and not result.output.strip() else None


def trial(reference: Any, number: int, random: Random) -> list[str]:
    """Read INPUTS random inputs; an input with an issue is made as simple as possible."""
    issues: dict[str, Input] = {}

    @hypothesis.seed(random.getrandbits(64))
    @hypothesis.settings(
        max_examples=INPUTS, database=None, deadline=None, derandomize=False, print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck), phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    @hypothesis.given(inputs())
    def read_all(given: Input) -> None:
        issue = issue_of(given)
        if issue:
            issues[issue] = given
        assert not issue

    with contextlib.suppress(AssertionError, BaseExceptionGroup):
        read_all()
    return [f"{issue}: {given}" for issue, given in issues.items()]


def _document(file: str, arguments: list[str]) -> None:
    """An experiment or a scene, as `vsr check` and `vsr evolve` read it, and what they write of it."""
    described = load(file, arguments)
    described.schedule()
    if isinstance(described, Experiment):
        dump_yaml(described.resolved())
    else:
        assert parse_scene(dump_yaml(described), file) == described, "what is written does not read back"


def _study(file: str, arguments: list[str]) -> None:
    study = load_study(file)
    for name in study.study.experiments:
        study.experiment(name, arguments)


def _evolved(file: str, arguments: list[str]) -> None:
    """The best robot of a run, as `vsr evaluate` and `vsr verify` read it."""
    combinations_of(_groups([Path(file)]), load_set(find_config("transfer", SET)))
    read_robot(Path(file), _now())


@functools.cache
def _now() -> dict[str, Any]:
    """Device and versions of this process."""
    return describe_session(0)


def _groups(files: list[Path]) -> list[RobotGroup]:
    """Robots without their arrays, which would have to be compiled."""
    return [group_of([robot], source, (None, None)) for source, file in enumerate(files) for robot in read_whole(file)]


@functools.cache
def _robots() -> list[RobotGroup]:
    """Of several kinds."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.yaml" for number in range(len(ROBOTS))]
        for file, text in zip(files, ROBOTS, strict=True):
            file.write_text(text, encoding="utf-8")
        return _groups(files)


def _mesh(file: str, arguments: list[str]) -> None:
    mesh = read_mesh(file)
    if (mesh.highest - mesh.lowest).max() < 10:
        cells_inside(mesh, 0.25)


TARGETS: dict[str, Callable[[str, list[str]], object]] = {
    "experiment": _document,
    "scene": _document,
    "setting": load_experiment,
    "robot": lambda file, _: load_scene(file),
    "study": _study,
    "reach": lambda file, _: load_reach(file),
    "evolved": _evolved,
    "evaluation_set": lambda file, _: combinations_of(_robots(), load_set(file)),
    "mesh": _mesh,
    "arrays": lambda file, _: read_lineage(Path(file).parents[1], 0, 2),
}
