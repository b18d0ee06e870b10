"""The `vsr` command. Each subcommand imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import contextlib
import errno
import gc
import math
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from vsr.evidence import bench as benchmarks
from vsr.evidence import validate as validation
from vsr.experiments import stopping


class _Command(click.Command):
    """A command whose options and arguments are never empty: '' would mean a default, or the folder at hand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            given = ctx.params.get(parameter.name or "")
            for value in given if isinstance(given, tuple) else (given,):
                if isinstance(value, str) and not value.strip():
                    raise click.BadParameter("it is empty.", ctx, parameter)
        return rest


class _Commands(click.Group):
    """A group whose commands never show a traceback for what a user can fix, and hear Ctrl-C at any time."""

    command_class = _Command

    def main(self, args: Any = None, *more: Any, **options: Any) -> Any:
        if args is None:  # the arguments of this process
            stopping.listen()
        return super().main(args, *more, **options)

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
        except SystemExit as error:  # nothing of vsr does that
            click.echo(
                f"{_where(error)}: it called sys.exit({error.code!r}), which ends no command in good order", err=True
            )
            ctx.exit(2)
        except OSError as error:
            if error.filename is None and error.errno not in FULL:
                raise
            _report_error(f"{error.filename or 'standard output'}: {error.strerror}")
            if error.filename is None:
                os._exit(2)  # or else Python would try to write what is left, and complain
            ctx.exit(2)
        except Exception as error:
            if not isinstance(error, _user_errors()):
                raise
            _report_error(str(error))
            if getattr(error, "leave_at_once", False):
                sys.stdout.flush()
                os._exit(getattr(error, "exit_code", 2))
            ctx.exit(getattr(error, "exit_code", 2))


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why standard output cannot be written, of which Python does not name the file."""


def _report_error(message: str) -> None:
    """What went wrong, apart from results."""
    from vsr.experiments.console import printable

    click.echo(printable(message), err=True)


def _where(error: BaseException) -> str:
    """File and line at which something was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _user_errors() -> tuple[type[Exception], ...]:
    """Kinds of errors, of the modules that are loaded: help must not load them."""
    places = (
        ("vsr.experiments.config.problems", "UserError"),
        ("vsr.spec", "InfeasibleError"),
        ("vsr.arrays", "CorruptFileError"),
    )
    return tuple(getattr(sys.modules[module], name) for module, name in places if module in sys.modules)


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """While modules are loaded, nothing is looked at for being garbage; they are not, now or later."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


class _Number(click.FloatRange):
    """A number in a range, which `nan` is not in: it is neither below nor above anything."""

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


SECONDS = _Number(min=0, min_open=True, max=3600)
"""How long an episode is [s]."""


class _Factors(click.ParamType):
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


A_SEED = click.IntRange(0, 2**32 - 1)
SETTINGS = click.option(
    "--set", "settings", metavar="PATH=VALUE", multiple=True, help="Change a value of the file; may be repeated."
)
SEEDS = click.option(
    "--seeds", type=click.IntRange(1, 100_000), metavar="N", help="Repeat with seeds 0 to N-1, all at once."
)
PLUGINS = click.option(
    "--plugin", "plugins", multiple=True, metavar="MODULE", help="Import a module of your own first."
)
SEED = click.option("--seed", type=A_SEED, metavar="S", help="Run just this seed.")
TRUST = click.option(
    "--trust-plugins",
    "trust",
    is_flag=True,
    envvar="VSR_TRUST_PLUGINS",
    help="Run the Python modules that files and runs name as plugins; by default reading runs none.",
)
DEVICE = click.option(
    "--device", type=click.Choice(["cpu", "gpu"]), help="Where to compute; by default the best there is."
)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vsr")
def main() -> None:
    """Simulate and evolve voxel-based soft robots.

    NAME instead of a file is one that is shipped; `vsr list configs` shows them.
    """


@main.command()
@click.argument("config", metavar="CONFIG.yaml|NAME|RUN")
@SEEDS
@SEED
@SETTINGS
@click.option("--out", metavar="DIR", help="The run folder; by default runs/ and the file's name.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped or killed.")
@DEVICE
@click.option("--report/--no-report", default=True, help="At the end, write report.html into the folder, or not.")
@click.option("--coordinator", metavar="HOST:PORT", help="On several hosts: where process 0 listens; srun knows.")
@click.option("--processes", type=click.IntRange(1, 100_000), metavar="N", help="On several hosts: how many processes.")
@click.option("--process", type=click.IntRange(0, 99_999), metavar="I", help="On several hosts: which one, from 0.")
def evolve(
    config: str,
    seeds: int | None,
    seed: int | None,
    settings: tuple[str, ...],
    out: str | None,
    resume: bool,
    device: str | None,
    report: bool,
    coordinator: str | None,
    processes: int | None,
    process: int | None,
) -> None:
    """Evolve robots as a file says, into a folder that can be resumed, plotted and published."""
    from vsr.experiments.evolve.command import EvolveOptions
    from vsr.experiments.evolve.command import evolve as work

    work(
        EvolveOptions(
            config=config,
            settings=settings,
            seeds=seeds,
            seed=seed,
            out=out,
            resume=resume,
            device=device,
            coordinator=coordinator,
            processes=processes,
            process=process,
            report=report,
        )
    )


@main.command()
@click.argument("config", metavar="CONFIG.yaml|NAME|SWEEP")
@click.option(
    "--sweep", "sweeps", metavar="PATH=VALUE,VALUE", multiple=True, help="A value that varies; may be repeated."
)
@SEEDS
@SEED
@SETTINGS
@click.option("--out", metavar="DIR", help="The sweep's folder; by default runs/, the file's name and -sweep.")
@click.option("--resume", is_flag=True, help="Go on with a sweep: runs that are finished stay as they are.")
@DEVICE
@click.option(
    "--executor", type=click.Choice(["local", "slurm"]), default="local", help="Run here (default), or on a cluster."
)
@click.option("--jobs", type=click.IntRange(1, 256), default=1, help="Here: how many runs at once; 1 by default.")
@click.option(
    "--slurm", metavar="KEY=VALUE", multiple=True, help="A parameter of the jobs, as partition=gpu; may be repeated."
)
@TRUST
def sweep(
    config: str,
    sweeps: tuple[str, ...],
    seeds: int | None,
    seed: int | None,
    settings: tuple[str, ...],
    out: str | None,
    resume: bool,
    device: str | None,
    executor: str,
    jobs: int,
    slurm: tuple[str, ...],
    trust: bool,
) -> None:
    """Evolve with every combination of some values; given a sweep's folder, show its state."""
    with _loading():
        from vsr.experiments.sweep.command import SweepOptions
        from vsr.experiments.sweep.command import sweep as work

    work(
        SweepOptions(
            config=config,
            settings=settings,
            seeds=seeds,
            seed=seed,
            out=out,
            resume=resume,
            device=device,
            sweeps=sweeps,
            executor=executor,
            jobs=jobs,
            slurm=slurm,
            trust_plugins=trust,
        )
    )


@main.command()
@click.argument("study", metavar="body|devo|sensing|control|sand|all|STUDY.yaml")
@click.option(
    "--scale", default="quick", metavar="smoke|quick|paper|full", help="How much to compute; quick by default."
)
@click.option("--only", multiple=True, metavar="EXPERIMENT", help="Run just this experiment; may be repeated.")
@SETTINGS
@click.option("--out", metavar="DIR", help="Where runs and reports go; by default runs/ and the scale.")
@DEVICE
@click.option("--resume", is_flag=True, help="Go on with what was stopped or killed; what is finished is kept.")
@click.option(
    "--report", is_flag=True, help="Run nothing; write figures, tables and report of the runs that are there."
)
@click.option("--copy", metavar="DIR", help="Copy reports, figures, tables and best robots there too, without runs.")
def reproduce(
    study: str,
    scale: str,
    only: tuple[str, ...],
    settings: tuple[str, ...],
    out: str | None,
    device: str | None,
    resume: bool,
    report: bool,
    copy: str | None,
) -> None:
    """Run a study of the paper, or your own: experiments, figure, tables, report with every claim in numbers."""
    from vsr.experiments.reproduce.command import ReproduceOptions
    from vsr.experiments.reproduce.command import reproduce as work

    work(
        ReproduceOptions(
            study=study,
            scale=scale,
            only=only,
            settings=settings,
            out=out,
            device=device,
            resume=resume,
            report=report,
            copy=copy,
        )
    )


@main.command()
@click.argument("given", metavar="RUN|ROBOT.yaml|NAME...", nargs=-1, required=True)
@click.option(
    "--factors", default=(1, 4, 16), type=_Factors(), metavar="N,N,...", help="Times finer; 1,4,16 by default."
)
@click.option("--trials", type=click.IntRange(1, 10_000), default=8, help="Simulations of each robot; 8 by default.")
@click.option("--json", metavar="FILE.json", help="Write every number as JSON.")
@click.option("--plot", metavar="FILE.png|.pdf|.svg", help="Draw fitness over refinement.")
@DEVICE
@TRUST
def refine(
    given: tuple[str, ...],
    factors: tuple[int, ...],
    trials: int,
    json: str | None,
    plot: str | None,
    device: str | None,
    trust: bool,
) -> None:
    """Simulate robots again with smaller time steps, other trials and slightly other materials."""
    from vsr.experiments.refine import RefineOptions
    from vsr.experiments.refine import refine as work

    work(RefineOptions(given, factors=factors, trials=trials, json=json, plot=plot, device=device, trust_plugins=trust))


@main.command()
@click.argument("given", metavar="RUN|ROBOT.yaml|NAME...", nargs=-1, required=True)
@click.option("--on", required=True, metavar="SET.yaml|NAME", help="Tasks, terrains and faults; every combination.")
@click.option("--elites", is_flag=True, help="Of runs with archives or fronts: everyone in them, not just the best.")
@click.option("--json", metavar="FILE.json", help="Write every number as JSON.")
@click.option("--plot", metavar="FILE.png|.pdf|.svg", help="Draw a heat map of robots and cases.")
@DEVICE
@TRUST
def evaluate(
    given: tuple[str, ...],
    on: str,
    elites: bool,
    json: str | None,
    plot: str | None,
    device: str | None,
    trust: bool,
) -> None:
    """Simulate robots in other tasks, on other terrains and with faults: what do they keep?"""
    from vsr.experiments.evaluate.command import EvaluateOptions, evaluate_command

    evaluate_command(
        EvaluateOptions(given, on, elites=elites, json=json, plot=plot, device=device, trust_plugins=trust)
    )


@main.command()
@click.argument("given", metavar="FILE.yaml|NAME|DIR|TABLE.npz")
@SETTINGS
@click.option("--out", metavar="DIR", help="Where to store it; runs/NAME by default. What is there goes on.")
@click.option("--limit", type=click.IntRange(1, 10**9), metavar="N", help="Only about N bodies, a fair sample of all.")
@click.option(
    "--query", multiple=True, metavar="BODY", help="Of a table: this body, such as .a./aaa/a.a; may be repeated."
)
@click.option(
    "--best", type=click.IntRange(1, 10_000), default=5, show_default=True, metavar="N", help="How many bodies to show."
)
@click.option("--robot", metavar="FILE.yaml", help="With --query: write the body with its best controller.")
@click.option("--plot", metavar="FILE.png|.pdf|.svg", help="Of a table: draw the map.")
@click.option("--json", "as_json", is_flag=True, help="Of a table: print bodies as JSON.")
@DEVICE
@TRUST
def landscape(
    given: str,
    settings: tuple[str, ...],
    out: str | None,
    limit: int | None,
    query: tuple[str, ...],
    best: int,
    robot: str | None,
    plot: str | None,
    as_json: bool,
    device: str | None,
    trust: bool,
) -> None:
    """Try every small body with a few controllers each; or ask the table that came of it."""
    from vsr.experiments.landscape.command import LandscapeOptions, landscape_command

    landscape_command(LandscapeOptions(given, settings, out, limit, query, best, robot, plot, as_json, device, trust))


@main.command()
@click.argument("given", metavar="ROBOT.yaml|RUN...", nargs=-1, required=True)
@click.option(
    "--tolerance",
    type=_Number(0, 1),
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="How far from the score a measure may be; 0 for the same digits.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@DEVICE
@TRUST
def verify(given: tuple[str, ...], tolerance: float, as_json: bool, device: str | None, trust: bool) -> None:
    """Replay best robots of runs and confirm the scores in their files; exit code 1 if one does not hold."""
    from vsr.experiments.verify import VerifyOptions
    from vsr.experiments.verify import verify as work

    click.get_current_context().exit(work(VerifyOptions(given, tolerance, as_json, device, trust)))


@main.command()
@click.argument("robot", metavar="ROBOT.yaml|NAME")
@click.option("--json", "as_json", is_flag=True, help="Print the measures as JSON.")
@click.option("--out", metavar="FILE.gif|.png", help="Draw the motion: a GIF, or a PNG strip of six moments.")
@click.option(
    "--held-out", type=click.IntRange(1, 1000), metavar="N", help="On N grounds that no generation saw (fresh_ground)."
)
@TRUST
def simulate(robot: str, as_json: bool, out: str | None, held_out: int | None, trust: bool) -> None:
    """Simulate one robot in its world and print how it did."""
    from vsr.experiments import simulate as work
    from vsr.experiments.console import busy
    from vsr.experiments.devices import prepare
    from vsr.experiments.terminal import show_outcome

    prepare()
    if held_out is not None:
        from vsr.experiments.terminal import show_held_out

        show_held_out(robot, held_out, as_json, out, trust)
        return
    with busy("compiling and simulating"):
        scene, outcome = work.run(robot, out, run_plugins=trust)
    evolution = work.evolved(robot, outcome)
    if as_json:
        click.echo(work.as_json(scene, outcome, evolution))
    else:
        show_outcome(robot, scene, outcome, out, evolution)


@main.command()
@click.argument("given", metavar="ROBOT.yaml|NAME|RUN...", nargs=-1, required=True)
@click.option(
    "--seconds",
    type=SECONDS,
    default=20.0,
    show_default=True,
    metavar="S",
    help="How long episodes are, whatever the tasks say.",
)
@click.option(
    "--out",
    metavar="FILE.html|.mp4|.gif|.png",
    help="A page, a film, or a strip of frames; by default a page named after the robot.",
)
@click.option(
    "--show",
    "overlays",
    type=click.Choice(["control", "contact", "velocity", "sensors", "path"]),
    multiple=True,
    help="Draw this over the robots; may be repeated.",
)
@click.option(
    "--color",
    type=click.Choice(["area", "control", "strain", "material"]),
    default="area",
    show_default=True,
    help="What voxels are colored by; area is the ratio of volumes in 3-D.",
)
@click.option(
    "--palette",
    type=click.Choice(["original", "safe"]),
    default="original",
    show_default=True,
    help="The original simulator's colors, or such that lightness tells everything.",
)
@click.option(
    "--grains",
    type=click.Choice(["height", "speed", "force"]),
    default="height",
    show_default=True,
    help="What grains of sand are colored by.",
)
@click.option("--seed", type=A_SEED, metavar="S", help="Of a run: this seed's best, not the run's.")
@click.option(
    "--generation",
    "generations",
    type=click.IntRange(0, 10**9),
    multiple=True,
    metavar="G",
    help="Of a run: the best so far at a generation; may be repeated, to see them side by side.",
)
@click.option(
    "--cell",
    "cells",
    multiple=True,
    metavar="[ARCHIVE:]I,J",
    help="Of a run with archives: the elite of a cell, counted from 0 along each axis; may be repeated.",
)
@TRUST
def play(
    given: tuple[str, ...],
    seconds: float,
    out: str | None,
    overlays: tuple[str, ...],
    color: str,
    palette: str,
    grains: str,
    seed: int | None,
    generations: tuple[int, ...],
    cells: tuple[str, ...],
    trust: bool,
) -> None:
    """Show robots, and the best of runs: a page for any browser, a film, or a strip of frames."""
    from vsr.experiments.devices import prepare
    from vsr.experiments.play.command import PlayOptions
    from vsr.experiments.play.command import play as work

    prepare()
    target = work(
        PlayOptions(
            given=given,
            seconds=seconds,
            out=out,
            color=color,
            palette=palette,
            grains=grains,
            overlays=overlays,
            seed=seed,
            generations=generations,
            cells=cells,
            trust_plugins=trust,
        )
    )
    click.echo(f"drawn in {target}")


@main.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8017, show_default=True, help="Of 127.0.0.1; 0 for any free one."
)
@click.option(
    "--seconds",
    type=SECONDS,
    default=10.0,
    show_default=True,
    metavar="S",
    help="How long an episode of the best robot is shown.",
)
@click.option("--open/--no-open", "open_page", default=False, help="Open the page in a browser, or not (default).")
@click.option("--wait", is_flag=True, help="Wait for a run folder that is not there yet.")
@TRUST
def watch(run: str, port: int, seconds: float, open_page: bool, wait: bool, trust: bool) -> None:
    """Follow a run on a local page: live curve, speed, and the best robot so far in motion."""
    from vsr.experiments.watch.command import WatchOptions
    from vsr.experiments.watch.command import watch as work

    work(WatchOptions(run, port=port, seconds=seconds, open_page=open_page, wait=wait, trust_plugins=trust))


@main.command()
@click.argument("config", metavar="FILE.yaml|NAME")
@SETTINGS
@TRUST
def check(config: str, settings: tuple[str, ...], trust: bool) -> None:
    """Check an experiment or scene: build and trace everything, and let a few robots land."""
    from vsr.experiments.check import check_file
    from vsr.experiments.console import busy, show_pairs
    from vsr.experiments.devices import prepare

    prepare()
    with busy("building and tracing"):
        found = check_file(config, settings, run_plugins=trust)
    show_pairs(f"{config}: sound", found)


@main.command()
@click.argument("machine", type=click.Choice(["bulldozing"]))
@click.option("--generations", type=click.IntRange(1, 100_000), default=100, show_default=True)
@click.option(
    "--population",
    type=click.IntRange(2, 100_000),
    default=64,
    show_default=True,
    help="Policies in a generation, an even number.",
)
@click.option(
    "--grains",
    type=click.IntRange(10, 1_000_000),
    default=1024,
    show_default=True,
    help="Fewer are larger: the heap keeps its volume.",
)
@click.option("--duration", type=SECONDS, default=15.0, show_default=True, metavar="S", help="How long an episode is.")
@click.option("--trials", type=click.IntRange(1, 1000), default=2, show_default=True, help="Episodes of each policy.")
@click.option("--seed", type=A_SEED, default=0, show_default=True, metavar="S")
@click.option("--out", required=True, metavar="DIR", help="The folder for curve, weights and film.")
@click.option("--resume", is_flag=True, help="Go on with a training that was stopped, or for more generations.")
@click.option("--film/--no-film", default=True, help="At the end, draw an episode as film.gif, or not.")
@DEVICE
def train(
    machine: str,
    generations: int,
    population: int,
    grains: int,
    duration: float,
    trials: int,
    seed: int,
    out: str,
    resume: bool,
    film: bool,
    device: str | None,
) -> None:
    """Train a policy for a MACHINE among grains by an evolution strategy."""
    from vsr.experiments.train.command import TrainOptions
    from vsr.experiments.train.command import train as work

    work(
        TrainOptions(
            generations=generations,
            population=population,
            grains=grains,
            duration=duration,
            trials=trials,
            seed=seed,
            out=out,
            resume=resume,
            film=film,
            device=device,
        )
    )


@main.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--out",
    metavar="FILE.png|.pdf|.svg",
    help="The picture; fitness.png by default, archive.png with --archive, figure.png with --metric.",
)
@click.option(
    "--band",
    type=click.Choice(["sigma", "quartiles"]),
    default="sigma",
    help="Around the median over seeds: one standard deviation, as in the paper, or the quartiles.",
)
@click.option(
    "--metric", metavar="NAME", help="Instead, what searches report themselves: coverage, qd_score, hypervolume, ..."
)
@click.option("--archive", is_flag=True, help="Instead, maps of one run's archives, or its Pareto front.")
@click.option("--seed", type=A_SEED, metavar="S", help="With --archive: of this seed, else the first.")
@click.option("--csv", "as_table", is_flag=True, help="Instead, write all statistics as a table: statistics.csv.")
@TRUST
def plot(
    runs: tuple[str, ...],
    out: str | None,
    band: str,
    metric: str | None,
    archive: bool,
    seed: int | None,
    as_table: bool,
    trust: bool,
) -> None:
    """Plot the best fitness per generation, one curve per run; or what searches tell; or maps of a run's archives.

    Only --archive needs plugins of the run: --trust-plugins runs them.
    """
    with _loading():
        from vsr.experiments.console import busy, warn
        from vsr.experiments.plot.archives import plot_archives
        from vsr.experiments.plot.curves import plot_runs
        from vsr.experiments.plot.figures import FORMATS
        from vsr.experiments.plot.metrics import plot_metrics
        from vsr.experiments.storage.files import replacing, target_file
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
        with replacing(target) as partial:
            partial.write_text(as_csv(read), encoding="utf-8")
    elif metric is not None:
        plot_metrics(read, metric, target, band)  # pyright: ignore[reportArgumentType]
    else:
        plot_runs(read, target, band)  # pyright: ignore[reportArgumentType]
    click.echo(f"{'written to' if as_table else 'drawn in'} {target}")


@main.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--metric", metavar="NAME", help="Compare what searches report themselves, such as hypervolume.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(runs: tuple[str, ...], metric: str | None, as_json: bool) -> None:
    """Compare runs: medians over seeds, Mann-Whitney test, effect size."""
    with _loading():
        from vsr.experiments.console import busy, warn
        from vsr.experiments.plot.comparison import compare as work
        from vsr.experiments.storage.runs import read_curves
        from vsr.experiments.terminal import show_comparison

    with busy("reading and comparing runs"):
        read = [read_curves(run) for run in runs]
        comparison = work(read, metric)
    warn([warning for run in read for warning in run.warnings])
    show_comparison(comparison, as_json)


@main.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--out", metavar="FILE.html", help="The page; by default report.html, of one run in its folder.")
@TRUST
def report(runs: tuple[str, ...], out: str | None, trust: bool) -> None:
    """Write a page about runs: curves, seeds, bodies, the best robot moving, diversity, lineage, settings."""
    with _loading():
        from vsr.experiments.console import warn
        from vsr.experiments.devices import prepare
        from vsr.experiments.report.command import report as work
        from vsr.experiments.storage.runs import trust_plugins

    prepare()
    if trust:
        trust_plugins(runs)
    target, warnings = work(runs, out)
    warn(warnings)
    click.echo(f"written to {target}")


@main.command()
@click.argument("config", metavar="CONFIG.yaml|NAME")
@click.option("--json", "json_file", metavar="FILE", help="Write all poses as JSON.")
@click.option("--out", metavar="FILE.html|.gif|.png", help="Draw the poses.")
@DEVICE
@TRUST
def reach(config: str, json_file: str | None, out: str | None, device: str | None, trust: bool) -> None:
    """Find the pressures or volumes that bring points of a robot with chambers to targets, at rest."""
    # Threads that share a small matrix wait for each other longer than they work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from vsr.experiments.devices import prepare
    from vsr.experiments.reach.command import run

    prepare(device)
    run(config, json_file, out, run_plugins=trust)


@main.command()
@click.argument("source", metavar="IN")
@click.argument("out", metavar="OUT")
@click.option("--engine", type=click.Choice(["evogym", "points"]), default="evogym", help="Of a robot from EvoGym.")
@click.option("--task", default="Walker-v0", metavar="NAME", help="Of a robot from EvoGym.")
def convert(source: str, out: str, engine: str, task: str) -> None:
    """Convert a robot: EvoGym's .npz, VoxCad's .vxa or .vxd to .yaml, and .yaml to .npz."""
    from vsr.experiments.convert.command import run

    for one in run(source, out, engine, task):
        click.echo(f"not carried over: {one}", err=True)
    click.echo(f"written to {out}")


@main.command(name="list")
@click.argument("kind", required=False)
@PLUGINS
def list_components(kind: str | None, plugins: tuple[str, ...]) -> None:
    """List every component with its parameters, or those of one KIND; `configs`: the shipped files."""
    from vsr.experiments.terminal import show_catalog

    show_catalog(kind, plugins)


KINDS_OF_FILES = ["experiment", "scene", "study", "evaluation_set", "landscape"]


@main.command()
@click.argument("file", type=click.Choice(KINDS_OF_FILES), default="experiment")
@PLUGINS
def schema(file: str, plugins: tuple[str, ...]) -> None:
    """Print the JSON schema of experiment (or scene, study, set, landscape) files, for editors."""
    import json

    from vsr.experiments.catalog import schema as work
    from vsr.experiments.config.plugins import import_plugins

    import_plugins(plugins)
    click.echo(json.dumps(work(file), indent=2))


@main.command()
@click.argument("suite", type=click.Choice([*benchmarks.SUITES, "all"]), default="all")
@click.option("--scene", "scenes", metavar="NAME", multiple=True, help="Time only this scene; may be repeated.")
@click.option(
    "--repeats", type=click.IntRange(1, 1000), default=3, help="Timed repetitions after a warm-up; 3 by default."
)
@click.option(
    "--implementation",
    type=click.Choice(["auto", "xla", "fused"]),
    default="auto",
    help="Of the inner loop: plain JAX, or one GPU kernel, the default where it can run.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the metrics as JSON, after every scene.")
@click.option("--plot", metavar="FILE.png|.pdf|.svg", help="Draw how cost grows (growth, all).")
@DEVICE
def bench(
    suite: str,
    scenes: tuple[str, ...],
    repeats: int,
    implementation: str,
    json_file: str | None,
    plot: str | None,
    device: str | None,
) -> None:
    """Time 2-D and 3-D scenes, sand, fluid, contact, environments, a generation, archives, how cost grows."""
    from vsr.evidence.bench.command import BenchOptions
    from vsr.evidence.bench.command import bench as work

    work(
        BenchOptions(
            suite=suite,
            scenes=scenes,
            repeats=repeats,
            implementation=implementation,  # pyright: ignore[reportArgumentType]
            json_file=json_file,
            plot=plot,
            device=device,
        )
    )


@main.command()
@click.option(
    "--suite",
    type=click.Choice([*validation.SUITES]),
    default="2d",
    show_default=True,
    help="Voxel robots against the original simulator's data, mass-spring lattices against theory and measurement, "
    "grains against the laws of granular matter, fluid in chambers against hydrostatics, or hard robots by the "
    "thousand, of which none may be broken and not reported as failed.",
)
@click.option(
    "--reference",
    metavar="DIR",
    help="Folder of reference data for the 2d suite; without it, the small set that is shipped.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON.")
@click.option(
    "--plots",
    metavar="DIR",
    help="Draw the figures: of 2d, Figures 5 and 6 of the paper with the original's points, and how random robots "
    "travel; of lattice, frequencies, energies, spectra, the heavy elastica and the silicone cylinder; of sand, silo, "
    "hourglass, heap, plate and drag; of fluid, how the errors of columns fall.",
)
@click.option(
    "--large",
    is_flag=True,
    help="Of sand: larger scenes in 3-D, each in three packings, instead of the default checks. For a GPU.",
)
@click.option(
    "--scale",
    type=click.Choice(["quick", "full"]),
    help="Of trust: small robots for some minutes of two cores (the default), or up to 400 voxels, for a GPU.",
)
@click.option(
    "--sticking",
    type=click.Choice(["resting", "contact", "approaching"]),
    help="Of 2d: which corners may stick to the ground (world.sticking).",
)
def validate(
    suite: str,
    reference: str | None,
    json_file: str | None,
    plots: str | None,
    large: bool,
    scale: str | None,
    sticking: Any,
) -> None:
    """Compare the physics with the original simulator, lattices with theory, grains and fluid with their laws."""
    from vsr.evidence.validate.command import Options, validate_command
    from vsr.experiments.devices import prepare

    prepare()
    validate_command(Options(suite, json_file, plots, reference, sticking, large, scale))


if __name__ == "__main__":
    main()
