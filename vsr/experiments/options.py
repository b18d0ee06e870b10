"""The options of commands, each declared once: as a field whose type, default and help make the option of `vsr`.

This module loads no JAX, so that help is instant. `Option` and `Argument` stand in the annotation of a field of a
dataclass, or of a parameter of a function; `parameters` makes click's parameters of them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem


class Option:
    """An option: its help, its flag where the field's name is not it, and what else `click.Option` takes.

    A `bool` is a flag, a tuple can be repeated, a `Literal` is a choice, and a field without default is required.
    """

    def __init__(self, help: str | None = None, flag: str | None = None, **attributes: Any):
        self.flag = flag
        self.attributes = {"help": help, **attributes}

    def parameter(self, name: str, hint: Any, default: Any) -> click.Parameter:
        """The option of a field."""
        kind, several = _kind(hint)
        attributes: dict[str, Any] = {"is_flag": True} if kind is bool else {"type": kind, "multiple": several}
        if default is inspect.Parameter.empty:
            attributes["required"] = True
        elif default is not None and default is not False and default != ():
            attributes["default"] = default
        attributes.update(self.attributes)
        attributes.setdefault("show_default", "default" in attributes)
        return click.Option([self.flag or f"--{name.replace('_', '-')}", name], **attributes)


class Argument:
    """What is given without a flag: its name in the help, and what else `click.Argument` takes."""

    def __init__(self, metavar: str | None = None, **attributes: Any):
        self.attributes = {"metavar": metavar, **attributes}

    def parameter(self, name: str, hint: Any, default: Any) -> click.Parameter:
        """The argument of a field."""
        kind, several = _kind(hint)
        attributes = {"type": kind, "required": default is inspect.Parameter.empty, "nargs": -1 if several else 1}
        if default not in (None, inspect.Parameter.empty):
            attributes["default"] = default
        return click.Argument([name], **{**attributes, **self.attributes})


def parameters(declared: Callable[..., Any]) -> list[click.Parameter]:
    """What a command takes, by the fields of a dataclass or the parameters of a function."""
    found = []
    hints = get_type_hints(declared, include_extras=True)
    for name, parameter in inspect.signature(declared).parameters.items():
        hint, declaration = get_args(hints[name])
        found.append(declaration.parameter(name, hint, parameter.default))
    return found


def _kind(hint: Any) -> tuple[Any, bool]:
    """The type of a value as click has it, and whether there can be several."""
    if get_origin(hint) in (Union, UnionType):  # with None
        (hint,) = [kind for kind in get_args(hint) if kind is not NoneType]
    several = get_origin(hint) is tuple
    if several:
        hint = get_args(hint)[0]
    return click.Choice(get_args(hint)) if get_origin(hint) is Literal else hint, several


# Types of values


class Number(click.FloatRange):
    """A number in a range, which `nan` is not in: it is neither below nor above anything."""

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


class Factors(click.ParamType):
    """Whole numbers from 1 to 64, growing: 1,2,4,8."""

    name = "factors"

    def convert(self, value, param, ctx):
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() and len(part) <= 2 and 1 <= int(part) <= 64 for part in parts):
            self.fail(f"'{value}' given; whole numbers from 1 to 64 with commas between, such as 1,2,4,8", param, ctx)
        factors = tuple(map(int, parts))
        if list(factors) != sorted(set(factors)):
            self.fail(f"'{value}' given; each must be larger than the one before, such as 1,2,4,8", param, ctx)
        return factors


SECONDS = Number(min=0, min_open=True, max=3600)
"""The duration of an episode [s]."""
SEEDS = click.IntRange(0, 2**32 - 1)
PICTURE = "FILE.png|.pdf|.svg"


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shipped names for a shell, then files."""
    from vsr.experiments.installed import CONFIGS

    found = sorted(path.stem for path in CONFIGS.rglob("*.yaml"))
    names = dict.fromkeys(name for stem in found for name in (stem.lstrip("0123456789_"), stem))
    fitting = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*fitting, CompletionItem(incomplete, type="file")]


# Options that several commands share

Robots = Annotated[tuple[str, ...], Argument("ROBOT.yaml|NAME|RUN...", shell_complete=complete_names)]
Runs = Annotated[tuple[str, ...], Argument("RUN...")]
Settings = Annotated[
    tuple[str, ...],
    Option("Change a value, of the file or of the robots' files; may be repeated.", "--set", metavar="PATH=VALUE"),
]
Plugins = Annotated[tuple[str, ...], Option("Import your own module first.", "--plugin", metavar="MODULE")]
TrustPlugins = Annotated[
    bool,
    Option(
        "Run the Python modules that files and runs name as plugins; by default reading them runs no code.",
        "--trust-plugins",
        envvar="VSR_TRUST_PLUGINS",
    ),
]
Device = Annotated[
    Literal["cpu", "gpu"] | None, Option("Where to compute; by default on a GPU if there is one.", "--device")
]
Json = Annotated[
    str | None,
    Option("Write the result as JSON; - prints it, and nothing else, on standard output.", "--json", metavar="FILE"),
]
Metric = Annotated[
    str | None, Option("Take a metric that searches report, such as hypervolume, not fitness.", metavar="NAME")
]


def out_option(metavar: str, rest: str) -> Option:
    """`--out` of a command; rest: what it writes, and where by default."""
    return Option(f"Where to write the result{rest}.", "--out", metavar=metavar)


def seed_option(rest: str) -> Option:
    """`--seed` of a command; rest: which one it takes by default."""
    return Option(f"Take this seed{rest}.", "--seed", type=SEEDS, metavar="S")


def plot_option(rest: str) -> Option:
    """`--plot` of a command; rest: what is drawn."""
    return Option(f"Draw the result: {rest}.", "--plot", metavar=PICTURE)


def resume_option(rest: str = "") -> Option:
    """`--resume` of a command; rest: further words."""
    return Option(f"Continue what was stopped or killed{rest}.", "--resume")


def trials_option(most: int, rest: str = "") -> Option:
    """`--trials` of a command; rest: further words."""
    return Option(f"Episodes of each robot or policy{rest}.", "--trials", type=click.IntRange(1, most), metavar="N")


def seconds_option(rest: str = "") -> Option:
    """`--seconds` of a command; rest: further words."""
    return Option(f"Duration of an episode{rest}.", "--seconds", type=SECONDS, metavar="S")


Jobs = Annotated[int, Option("On this machine: runs at the same time.", type=click.IntRange(1, 256), metavar="N")]

# Options of each command


@dataclass(frozen=True)
class RunOptions:
    """Options of one run or of several."""

    config: Annotated[str, Argument("FILE.yaml|NAME|RUN", shell_complete=complete_names)]
    settings: Settings = ()
    seeds: Annotated[
        int | None,
        Option("Repeat with seeds 0 to N-1, all at once.", type=click.IntRange(1, 100_000), metavar="N"),
    ] = None
    seed: Annotated[int | None, seed_option("; by default those of the file")] = None
    out: Annotated[str | None, out_option("DIR", "; by default runs/ and the file's name")] = None
    resume: Annotated[bool, resume_option()] = False
    device: Device = None


@dataclass(frozen=True)
class EvolveOptions(RunOptions):
    """Options of one run, on one host or several."""

    report: Annotated[
        bool, Option("Write report.html into the folder at the end.", "--report/--no-report", default=True)
    ] = False
    coordinator: Annotated[
        str | None,
        Option("On several hosts: the address of process 0; known under srun.", metavar="HOST:PORT"),
    ] = None
    processes: Annotated[
        int | None,
        Option("On several hosts: the number of processes.", type=click.IntRange(1, 100_000), metavar="N"),
    ] = None
    process: Annotated[
        int | None,
        Option("On several hosts: the number of this process, from 0.", type=click.IntRange(0, 99_999), metavar="I"),
    ] = None


@dataclass(frozen=True)
class SweepOptions(RunOptions):
    """Options of runs with several values, here or on a cluster."""

    config: Annotated[str, Argument("FILE.yaml|NAME|SWEEP", shell_complete=complete_names)]
    out: Annotated[str | None, out_option("DIR", "; by default runs/, the file's name and -sweep")] = None
    sweeps: Annotated[
        tuple[str, ...], Option("A value that varies; may be repeated.", "--sweep", metavar="PATH=VALUE,VALUE")
    ] = ()
    executor: Annotated[Literal["local", "slurm"], Option("Run on this machine or on a cluster.")] = "local"
    jobs: Jobs = 1
    slurm: Annotated[
        tuple[str, ...],
        Option("A parameter of the jobs, such as partition=gpu; may be repeated.", metavar="KEY=VALUE"),
    ] = ()
    trust_plugins: TrustPlugins = False


@dataclass(frozen=True)
class ReproduceOptions:
    """Options of a study."""

    study: Annotated[str, Argument("FILE.yaml|NAME|all", shell_complete=complete_names)]
    scale: Annotated[str, Option("How much to compute.", metavar="smoke|quick|paper|full")] = "quick"
    only: Annotated[tuple[str, ...], Option("Run only this experiment; may be repeated.", metavar="EXPERIMENT")] = ()
    tasks: Annotated[
        str | None, Option("Run only experiments on these rows of published scores.", metavar="TASK,TASK,...")
    ] = None
    engine: Annotated[
        Literal["evogym", "points"] | None,
        Option("The robots' engine; by default that of the study's files. For EvoGym's tasks."),
    ] = None
    settings: Settings = ()
    out: Annotated[str | None, out_option("DIR", ": runs and reports; by default runs/ and the scale")] = None
    device: Device = None
    resume: Annotated[bool, resume_option("; finished runs are kept")] = False
    jobs: Jobs = 1
    report_only: Annotated[
        bool,
        Option(
            "Evolve nothing; look again at winners of the runs that exist, where that was left out, and write figures, "
            "tables and the report."
        ),
    ] = False
    no_report: Annotated[
        bool, Option("Only evolve; with --report-only, only look again at winners. The report comes later.")
    ] = False
    copy: Annotated[
        str | None, Option("Also copy reports, figures, tables and best robots there, without runs.", metavar="DIR")
    ] = None


@dataclass(frozen=True)
class RefineOptions:
    """Options of simulating again with smaller time steps."""

    given: Robots
    factors: Annotated[
        tuple[int, ...],
        Option("Divide the time step by these.", type=Factors(), multiple=False, metavar="N,N,..."),
    ] = (1, 4, 16)
    trials: Annotated[int, trials_option(10_000)] = 8
    json: Json = None
    plot: Annotated[str | None, plot_option("fitness over refinement")] = None
    device: Device = None
    settings: Settings = ()
    trust_plugins: TrustPlugins = False


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of simulating robots in other conditions."""

    given: Robots
    on: Annotated[
        str,
        Option(
            "Tasks, terrains and faults; every combination is tried.",
            metavar="SET.yaml|NAME",
            shell_complete=complete_names,
        ),
    ]
    elites: Annotated[
        bool, Option("For runs with archives or fronts: simulate all robots in them, not only the best.")
    ] = False
    json: Json = None
    plot: Annotated[str | None, plot_option("a heat map of robots and cases")] = None
    device: Device = None
    settings: Settings = ()
    trust_plugins: TrustPlugins = False


@dataclass(frozen=True)
class VerifyOptions:
    """Options of replaying robots."""

    given: Annotated[tuple[str, ...], Argument("ROBOT.yaml|RUN...")]
    tolerance: Annotated[
        float,
        Option(
            "Largest allowed difference from the score, as a share of it; 0 for the same digits.",
            type=Number(0, 1),
            metavar="SHARE",
        ),
    ] = 0.01
    json: Json = None
    device: Device = None
    trust_plugins: TrustPlugins = False


@dataclass(frozen=True)
class LandscapeOptions:
    """Options of trying every small body, and of reading the table that this makes."""

    given: Annotated[str, Argument("FILE.yaml|NAME|DIR|TABLE.npz", shell_complete=complete_names)]
    settings: Settings = ()
    out: Annotated[
        str | None, out_option("DIR", "; by default runs/ and the file's name, and what is stored there is continued")
    ] = None
    limit: Annotated[
        int | None,
        Option("Try only about N bodies, a fair sample of all.", type=click.IntRange(1, 10**9), metavar="N"),
    ] = None
    query: Annotated[
        tuple[str, ...],
        Option("From a table: show this body, such as .a./aaa/a.a; may be repeated.", metavar="BODY"),
    ] = ()
    best: Annotated[int, Option("How many bodies to show.", type=click.IntRange(1, 10_000), metavar="N")] = 5
    robot: Annotated[
        str | None, Option("With --query: write the body with its best controller.", metavar="FILE.yaml")
    ] = None
    plot: Annotated[str | None, plot_option("the map of a table")] = None
    json: Json = None
    device: Device = None
    trust_plugins: TrustPlugins = False


@dataclass(frozen=True)
class PlayOptions:
    """Options of showing robots in motion."""

    given: Robots
    seconds: Annotated[float, seconds_option(", whatever the tasks say")] = 20.0
    out: Annotated[
        str | None,
        out_option(
            "FILE.html|.mp4|.gif|.png",
            ": a page, a film, or a strip of frames; by default a page named after the robot",
        ),
    ] = None
    overlays: Annotated[
        tuple[Literal["control", "contact", "velocity", "sensors", "path"], ...],
        Option("Draw this over the robots; may be repeated.", "--show"),
    ] = ()
    color: Annotated[
        Literal["area", "control", "strain", "material"],
        Option("What colors the voxels; in 3-D, area is the ratio of volumes."),
    ] = "area"
    palette: Annotated[
        Literal["original", "safe"],
        Option("The original simulator's colors, or colors that differ in lightness."),
    ] = "original"
    grain_color: Annotated[Literal["height", "speed", "force"], Option("What colors the grains of sand.")] = "height"
    seed: Annotated[int | None, seed_option("; by default that of a run's best robot")] = None
    generations: Annotated[
        tuple[int, ...],
        Option(
            "For a run: show the best robot up to this generation; may be repeated, to see them side by side.",
            "--generation",
            type=click.IntRange(0, 10**9),
            metavar="G",
        ),
    ] = ()
    cells: Annotated[
        tuple[str, ...],
        Option(
            "For a run with archives: show the elite of a cell, counted from 0 along each axis; may be repeated.",
            "--cell",
            metavar="[ARCHIVE:]I,J",
        ),
    ] = ()
    settings: Settings = ()
    device: Device = None
    trust_plugins: TrustPlugins = False


@dataclass(frozen=True)
class WatchOptions:
    """Options of following a run."""

    run: Annotated[str, Argument("RUN")]
    port: Annotated[
        int, Option("The port on 127.0.0.1; 0 for any free one.", type=click.IntRange(0, 65535), metavar="N")
    ] = 8017
    seconds: Annotated[float, seconds_option()] = 10.0
    open_page: Annotated[bool, Option("Open the page in a browser.", "--open/--no-open", show_default=True)] = False
    wait: Annotated[bool, Option("Wait for a run folder that does not exist yet.")] = False
    trust_plugins: TrustPlugins = False


@dataclass(frozen=True)
class DesignOptions:
    """Options of the designer."""

    robot: Annotated[str | None, Argument("[ROBOT.yaml|NAME]", shell_complete=complete_names)] = None
    port: Annotated[int, Option("The port on 127.0.0.1; 0 for any free one.", type=click.IntRange(0, 65535))] = 8018
    open_page: Annotated[bool, Option("Open the page in a browser.", "--open/--no-open", show_default=True)] = False
    device: Device = None


def complete_trainings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of tasks and machines for a shell."""
    from vsr.experiments.train.command import MACHINES
    from vsr.tasks import TASKS

    return [CompletionItem(name) for name in (*TASKS, *MACHINES) if name.startswith(incomplete)]


@dataclass(frozen=True)
class TrainOptions:
    """Options of training a policy."""

    what: Annotated[str, Argument("TASK|bulldozing", shell_complete=complete_trainings)]
    out: Annotated[str, out_option("DIR", ": curve, robot or weights, and film")]
    body: Annotated[
        str | None,
        Option(
            "For a task: the robot's body, as a robot file, EvoGym's array or a drawing such as aaa/a.a; by default a "
            "two-legged block.",
            metavar="FILE|NAME|DRAWING",
            shell_complete=complete_names,
        ),
    ] = None
    engine: Annotated[
        Literal["evogym", "points"] | None,
        Option("The robots' engine; by default points for robots from EvoGym, of its kinds of voxels."),
    ] = None
    steps: Annotated[
        int | None,
        Option(
            "For a task: environment steps in all, 1,000,000 by default; more continue a training.",
            type=click.IntRange(1, 10**9),
            metavar="N",
        ),
    ] = None
    environments: Annotated[
        int | None,
        Option("For a task: copies of the environment; 32 by default.", type=click.IntRange(1, 100_000), metavar="N"),
    ] = None
    preset: Annotated[
        Literal["evogym", "macd"] | None, Option("For a task: take published settings of PPO instead of our own.")
    ] = None
    seeds: Annotated[
        int | None,
        Option(
            "Repeat with seeds 0 to N-1, all at once, and keep the best policy for a task.",
            type=click.IntRange(1, 100_000),
            metavar="N",
        ),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Option(
            "Change a value, of a task's training, such as learning.ppo.rate=1e-4; may be repeated.",
            "--set",
            metavar="PATH=VALUE",
        ),
    ] = ()
    generations: Annotated[
        int | None,
        Option(
            "For a machine: generations in all, 100 by default; more continue a training.",
            type=click.IntRange(1, 100_000),
            metavar="N",
        ),
    ] = None
    population: Annotated[
        int | None,
        Option(
            "For a machine: policies in a generation, an even number, 64 by default.",
            type=click.IntRange(2, 100_000),
            metavar="N",
        ),
    ] = None
    grains: Annotated[
        int | None,
        Option(
            "For a machine: grains, 1,024 by default; fewer are larger: the heap keeps its volume.",
            type=click.IntRange(10, 1_000_000),
            metavar="N",
        ),
    ] = None
    seconds: Annotated[float | None, seconds_option("; for a machine, by default 15")] = None
    trials: Annotated[int | None, trials_option(10_000, "; by default 1 for a task and 2 for a machine")] = None
    seed: Annotated[int | None, seed_option("; by default 0")] = None
    resume: Annotated[bool, resume_option(", or train for longer")] = False
    film: Annotated[bool, Option("Draw an episode as film.gif at the end.", "--film/--no-film")] = True
    device: Device = None
