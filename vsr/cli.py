"""The `vsr` command. Each subcommand imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import errno
import inspect
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_type_hints

import click

from vsr.evidence.bench import BenchOptions
from vsr.evidence.validate import ValidateOptions
from vsr.experiments import stopping
from vsr.experiments.collection import without_collection
from vsr.experiments.options import (
    PICTURE,
    Argument,
    DesignOptions,
    Device,
    EvaluateOptions,
    EvolveOptions,
    Json,
    LandscapeOptions,
    Metric,
    Option,
    PlayOptions,
    Plugins,
    RefineOptions,
    ReproduceOptions,
    Runs,
    Settings,
    SweepOptions,
    TrainOptions,
    TrustPlugins,
    VerifyOptions,
    WatchOptions,
    complete_names,
    out_option,
    parameters,
    seed_option,
)

SECTIONS = ("Start", "Run", "Look at results", "Test robots", "Convert", "Laboratory", "For developers")
"""Sections of the help, in their order."""


class _Command(click.Command):
    """A command whose options and arguments are never empty: '' would mean a default, or the current folder."""

    section = ""
    """one of SECTIONS"""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            given = ctx.params.get(parameter.name or "")
            for value in given if isinstance(given, tuple) else (given,):
                if isinstance(value, str) and not value.strip():
                    raise click.BadParameter("it is empty.", ctx, parameter)
        return rest


class _Commands(click.Group):
    """The group of commands: none shows a traceback for what a user can fix, and Ctrl-C stops any at any time."""

    def main(self, args: Any = None, *more: Any, **options: Any) -> Any:
        if args is None:  # the arguments of this process
            stopping.listen()
            sys.stdout, sys.stderr = map(_without_reader, (sys.stdout, sys.stderr))
        return super().main(args, *more, **options)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands by their section, in the order of this file."""
        width = max(map(len, self.commands))
        for section in SECTIONS:
            of_section = [each for each in self.commands.values() if getattr(each, "section", "") == section]
            rows = [(f"{each.name:{width}}", (each.help or "").split("\n")[0]) for each in of_section]
            with formatter.section(section):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for word in args:
            if not word.isascii() and word != word.encode(errors="ignore").decode():
                raise click.UsageError(f"{word!a} is not text (UTF-8)", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context):
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            click.echo(stopping.situation(), err=True)
            ctx.exit(stopping.EXIT_CODE)
        except SystemExit as error:  # from a plugin: nothing in vsr does that
            click.echo(
                f"{_where(error)}: it called sys.exit({error.code!r}), which ends no command in good order", err=True
            )
            ctx.exit(2)
        except OSError as error:
            if error.filename is None and error.errno not in FULL:
                raise
            _report_error(f"{error.filename or 'standard output'}: {error.strerror}")
            if error.filename is None:
                os._exit(2)  # else Python would try to write the rest, and complain
            ctx.exit(2)
        except Exception as error:
            if not isinstance(error, _user_errors()):
                raise
            _report_error(str(error))
            if getattr(error, "leave_at_once", False):
                sys.stdout.flush()
                os._exit(getattr(error, "exit_code", 2))
            ctx.exit(getattr(error, "exit_code", 2))


class _Pipe(io.FileIO):
    """A stream of this process that loses what it is given once nobody reads it any more, as after `| head`."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def _without_reader(stream: Any) -> Any:
    """Standard output or error that needs no reader: a command goes on to its end without it."""
    if not isinstance(stream, io.TextIOWrapper):  # none, or somebody else's
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Reasons why standard output cannot be written; Python names no file for them."""


def _report_error(message: str) -> None:
    """Print what went wrong, apart from results."""
    from vsr.experiments.console import printable

    click.echo(printable(message), err=True)


def _where(error: BaseException) -> str:
    """File and line at which something was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _user_errors() -> tuple[type[Exception], ...]:
    """Classes of errors from the modules that are loaded: help must not load them."""
    places = (
        ("vsr.experiments.config.problems", "UserError"),
        ("vsr.spec", "InfeasibleError"),
        ("vsr.arrays", "CorruptFileError"),
    )
    return tuple(getattr(sys.modules[module], name) for module, name in places if module in sys.modules)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="To complete commands, options and names with Tab: vsr completion --help.",
)
@click.version_option(package_name="voxel-soft-robots")
def main() -> None:
    """Simulate and evolve voxel-based soft robots.

    NAME instead of a file is the name of a shipped one; `vsr list configs` shows them. `vsr COMMAND --help` explains a
    command.
    """


def _command(section: str, name: str | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command; its parameters, or the fields of the class of its `options`, declare what it takes."""

    def made(function: Callable[..., None]) -> click.Command:
        declared = get_type_hints(function).get("options", function)

        def run(**given: Any) -> None:
            if declared is function:
                function(**given)
            else:
                function(declared(**given))

        command = _Command(
            name or function.__name__, callback=run, params=parameters(declared), help=inspect.getdoc(function)
        )
        command.section = section
        main.add_command(command)
        return command

    return made


@_command("Start")
def new(
    name: Annotated[str, Argument("NAME")],
    example: Annotated[
        str,
        Option(
            "The shipped file to copy; vsr list configs shows them.",
            "--from",
            metavar="NAME",
            shell_complete=complete_names,
        ),
    ],
) -> None:
    """Copy a shipped example into a file of your own.

    The file NAME.yaml keeps the comments of the example. A file that exists is left alone.
    """
    from vsr.experiments.new import copy_example, next_steps

    file = copy_example(name, example)
    click.echo(f"written to {file}")
    click.echo(f"next: {next_steps(file)}")


@_command("Start", "list")
def list_components(
    kind: Annotated[str | None, Argument()] = None,
    plugins: Plugins = (),
    everything: Annotated[
        bool, Option("With configs: parts of studies and further experiments, too.", "--all")
    ] = False,
) -> None:
    """List shipped files and components.

    Without KIND it lists the kinds and the names in each; a KIND lists its components with their parameters, and
    `configs` the shipped files.
    """
    from vsr.experiments.terminal import show_catalog

    show_catalog(kind, plugins, everything=everything)


@_command("Start")
def check(
    config: Annotated[str, Argument("FILE.yaml|NAME", shell_complete=complete_names)],
    settings: Settings = (),
    device: Device = None,
    trust: TrustPlugins = False,
) -> None:
    """Check a file; estimate its time and memory.

    Everything is built and traced, and a few robots land on the ground.
    """
    from vsr.experiments.check import check_file
    from vsr.experiments.console import busy, show_pairs
    from vsr.experiments.devices import prepare

    prepare(device)
    with busy("building and tracing"):
        found = check_file(config, settings, run_plugins=trust)
    show_pairs(f"{config}: valid", found)


@_command("Start")
def design(options: DesignOptions) -> None:
    """Draw a robot on a local page and see it move."""
    from vsr.experiments.design.command import design as work

    work(options)


@_command("Start")
def doctor() -> None:
    """Report what is installed, and what is missing.

    The exit code is 1 if something is broken that `vsr evolve` needs.
    """
    from vsr.experiments.doctor import doctor as work

    click.get_current_context().exit(work())


@_command("Start")
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Argument()]) -> None:
    """Print a script that completes with Tab.

    \b
    bash: echo 'eval "$(vsr completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(vsr completion zsh)"' >> ~/.zshrc
    fish: vsr completion fish > ~/.config/fish/completions/vsr.fish
    """
    from click.shell_completion import get_completion_class

    scripts = get_completion_class(shell)
    assert scripts is not None
    click.echo(scripts(main, {}, "vsr", "_VSR_COMPLETE").source())


@_command("Run")
def evolve(options: EvolveOptions) -> None:
    """Evolve robots as a file says.

    The file that was taken and the estimate of time and memory are printed first. The run folder can be resumed,
    plotted and published.
    """
    with without_collection(loading=True):
        from vsr.experiments.devices import start_early
        from vsr.experiments.launch import find_launch

        if find_launch(options.coordinator, options.processes, options.process) is None:
            start_early(options.device)
        from vsr.experiments.evolve.command import evolve as work

    work(options)


@_command("Run")
def sweep(options: SweepOptions) -> None:
    """Evolve with every combination of some values.

    Given a sweep's folder, show its state.
    """
    with without_collection(loading=True):
        from vsr.experiments.sweep.command import sweep as work

    work(options)


@_command("Look at results")
def watch(options: WatchOptions) -> None:
    """Follow a run on a local page.

    It shows the curve as it grows, the speed, and the best robot so far in motion.
    """
    from vsr.experiments.watch.command import watch as work

    work(options)


@_command("Look at results")
def play(options: PlayOptions) -> None:
    """Show robots in motion: a page, film or frames.

    Of a run it shows the best robot.
    """
    from vsr.experiments.devices import prepare
    from vsr.experiments.play.command import play as work

    prepare(options.device)
    click.echo(f"drawn in {work(options)}")


@_command("Look at results")
def plot(
    runs: Runs,
    out: Annotated[
        str | None,
        out_option(PICTURE, "; by default fitness.png, archive.png with --archive, metric.png with --metric"),
    ] = None,
    band: Annotated[
        Literal["sigma", "quartiles"],
        Option("Around the median over seeds: one standard deviation, as in the paper, or the quartiles."),
    ] = "sigma",
    metric: Metric = None,
    archive: Annotated[bool, Option("Draw maps of one run's archives, or its Pareto front.")] = False,
    seed: Annotated[int | None, seed_option("; with --archive, by default the first")] = None,
    as_table: Annotated[bool, Option("Write all statistics as a table: statistics.csv.", "--csv")] = False,
    trust: TrustPlugins = False,
) -> None:
    """Plot fitness over generations, a curve per run.

    Other metrics (--metric), maps of a run's archives (--archive) or a table (--csv) can be had instead.

    Only --archive needs plugins of the run: --trust-plugins runs them.
    """
    with without_collection(loading=True):
        from vsr.experiments.console import busy, warn
        from vsr.experiments.plot.archives import plot_archives
        from vsr.experiments.plot.curves import plot_metrics, plot_runs
        from vsr.experiments.plot.figures import FORMATS
        from vsr.experiments.storage.files import replace_when_closed, target_file
        from vsr.experiments.storage.runs import as_csv, read_curves, read_run, trust_plugins

    if (metric is not None) + archive + as_table > 1:
        raise click.UsageError("--metric, --archive and --csv: give one of them")
    if seed is not None and not archive:
        raise click.UsageError("--seed goes with --archive: curves show all seeds")
    if archive and len(runs) > 1:
        raise click.UsageError(f"--archive draws one run; {len(runs)} given")
    names = (
        ("archive.png", archive),
        ("metric.png", metric is not None),
        ("statistics.csv", as_table),
        ("fitness.png", True),
    )
    default = next(name for name, asked in names if asked)
    target = target_file("--out", default if out is None else out, (".csv",) if as_table else FORMATS)
    if archive:
        if trust:
            trust_plugins(runs)
        (run,) = [read_run(path) for path in runs]
        warn(run.warnings)
        plot_archives(run, run.index_of(seed), target)
        click.echo(f"drawn in {target}")
        return
    with busy("reading runs"):
        read = [read_curves(run) for run in runs]
    warn([warning for run in read for warning in run.warnings])
    if as_table:
        with replace_when_closed(target) as partial:
            partial.write_text(as_csv(read), encoding="utf-8")
    elif metric is not None:
        plot_metrics(read, metric, target, band)
    else:
        plot_runs(read, target, band)
    click.echo(f"{'written to' if as_table else 'drawn in'} {target}")


@_command("Look at results")
def compare(
    runs: Runs,
    metric: Metric = None,
    json_file: Json = None,
) -> None:
    """Compare runs by statistics over seeds.

    For every pair: the difference of medians, the Mann-Whitney test and the effect size.
    """
    with without_collection(loading=True):
        from vsr.experiments.console import busy, warn
        from vsr.experiments.plot.comparison import compare as work
        from vsr.experiments.storage.files import json_result
        from vsr.experiments.storage.runs import read_curves
        from vsr.experiments.terminal import show_comparison

    with json_result(json_file) as write:
        with busy("reading and comparing runs"):
            read = [read_curves(run) for run in runs]
            comparison = work(read, metric)
        warn([warning for run in read for warning in run.warnings])
        show_comparison(comparison)
        write(comparison.to_plain())


@_command("Look at results")
def report(
    runs: Runs,
    out: Annotated[
        str | None, out_option("FILE.html", "; by default report.html, for a single run in its folder")
    ] = None,
    device: Device = None,
    trust: TrustPlugins = False,
) -> None:
    """Write a page about runs.

    It holds curves, seeds, bodies, the best robot in motion, diversity, lineage and settings.
    """
    with without_collection(loading=True):
        from vsr.experiments.console import warn
        from vsr.experiments.devices import prepare
        from vsr.experiments.report.command import report as work
        from vsr.experiments.storage.runs import trust_plugins

    prepare(device)
    if trust:
        trust_plugins(runs)
    target, warnings = work(runs, out)
    warn(warnings)
    click.echo(f"written to {target}")


@_command("Test robots")
def simulate(
    robot: Annotated[str, Argument("ROBOT.yaml|NAME", shell_complete=complete_names)],
    settings: Settings = (),
    json_file: Json = None,
    out: Annotated[
        str | None,
        out_option("FILE.gif|.png", ": the motion as a GIF, or six moments as a PNG; by default nothing is drawn"),
    ] = None,
    held_out: Annotated[
        int | None,
        Option("Use N grounds that no generation saw (fresh_ground).", type=click.IntRange(1, 1000), metavar="N"),
    ] = None,
    device: Device = None,
    trust: TrustPlugins = False,
) -> None:
    """Simulate one robot and print its measures."""
    from vsr.experiments import simulate as work
    from vsr.experiments.console import busy, say
    from vsr.experiments.devices import prepare
    from vsr.experiments.storage.files import json_result
    from vsr.experiments.terminal import show_means, show_outcome

    if held_out is not None and out is not None:
        raise click.UsageError("--out and --held-out: give one of them; on several grounds nothing is drawn")
    prepare(device)
    with json_result(json_file) as write:
        if held_out is not None:
            measures = work.run_held_out(robot, held_out, say, settings, run_plugins=trust)
            show_means(measures)
            write({name: values.tolist() for name, values in measures.items()})
            return
        with busy("compiling and simulating"):
            scene, outcome = work.run(robot, out, settings, run_plugins=trust)
        evolution = work.evolved(robot, outcome)
        show_outcome(robot, scene, outcome, out, evolution)
        write(work.as_plain(scene, outcome, evolution))


@_command("Test robots")
def verify(options: VerifyOptions) -> None:
    """Replay robots and confirm their scores.

    The exit code is 1 if a score does not hold.
    """
    from vsr.experiments.verify import verify as work

    click.get_current_context().exit(work(options))


@_command("Test robots")
def refine(options: RefineOptions) -> None:
    """Simulate robots again with smaller time steps.

    Also with other trials and with slightly different materials.
    """
    from vsr.experiments.refine import refine as work

    work(options)


@_command("Test robots")
def evaluate(options: EvaluateOptions) -> None:
    """Try robots in other tasks, terrains and faults.

    The table shows how much of their fitness they keep.
    """
    from vsr.experiments.evaluate.command import evaluate_command

    evaluate_command(options)


@_command("Convert")
def convert(
    source: Annotated[str, Argument("IN")],
    out: Annotated[str, Argument("OUT")],
    engine: Annotated[
        Literal["evogym", "points"] | None,
        Option("The robots' engine; by default evogym for robots from EvoGym's files."),
    ] = None,
    task: Annotated[str, Option("The task of a robot from EvoGym.", metavar="NAME")] = "Walker-v0",
) -> None:
    """Convert robots from and to other simulators.

    EvoGym's .npz, VoxCad's .vxa and .vxd become .yaml; .yaml becomes EvoGym's .npz, or with --engine a robot for the
    same one of EvoGym's tasks in another physics.
    """
    from vsr.experiments.convert.command import run

    for one in run(source, out, engine, task):
        click.echo(f"not carried over: {one}", err=True)
    click.echo(f"written to {out}")


@_command("Laboratory")
def landscape(options: LandscapeOptions) -> None:
    """Try every small body with a few controllers each.

    Given the resulting folder or table, show the bodies in it.
    """
    from vsr.experiments.landscape.command import landscape_command

    landscape_command(options)


@_command("Laboratory")
def reach(
    config: Annotated[str, Argument("FILE.yaml|NAME", shell_complete=complete_names)],
    settings: Settings = (),
    json_file: Json = None,
    out: Annotated[
        str | None, out_option("FILE.html|.gif|.png", ": the poses, drawn; by default nothing is drawn")
    ] = None,
    device: Device = None,
    trust: TrustPlugins = False,
) -> None:
    """Find pressures that bring a robot to targets.

    The robot has chambers and is at rest; volumes can be sought instead of pressures.
    """
    # Threads that share a small matrix wait for each other longer than they work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from vsr.experiments.devices import prepare
    from vsr.experiments.reach.command import run

    prepare(device)
    run(config, json_file, out, settings, run_plugins=trust)


@_command("Run")
def train(options: TrainOptions) -> None:
    """Train a policy for a robot or a machine.

    A robot learns a task by PPO, and a machine among grains by an evolution strategy.
    """
    from vsr.experiments.train.command import train as work

    work(options)


@_command("Laboratory")
def reproduce(options: ReproduceOptions) -> None:
    """Run a study of the paper, or your own.

    It runs the experiments and writes a figure, tables, and a report that gives every claim in numbers.
    """
    from vsr.evidence.reproduce.command import reproduce as work

    work(options)


@_command("Convert")
def schema(
    file: Annotated[
        Literal["experiment", "scene", "study", "evaluation_set", "landscape", "reach"], Argument()
    ] = "experiment",
    plugins: Plugins = (),
) -> None:
    """Print the JSON schema of files, for editors."""
    import json

    from vsr.experiments.catalog import schema_for_editors as work
    from vsr.experiments.config.plugins import import_plugins

    import_plugins(plugins)
    click.echo(json.dumps(work(file), indent=2))


@_command("For developers")
def bench(options: BenchOptions) -> None:
    """Measure how fast simulation and search are.

    Suites: 2-D and 3-D scenes, sand, fluid, contact, environments, a generation, archives, and how cost grows.
    """
    from vsr.evidence.bench.command import bench as work

    work(options)


@_command("For developers")
def validate(options: ValidateOptions) -> None:
    """Compare the physics with data and theory.

    Robots with the original simulator, lattices with theory, grains and fluid with their laws.
    """
    from vsr.evidence.validate.command import validate_command

    validate_command(options)


if __name__ == "__main__":
    main()
