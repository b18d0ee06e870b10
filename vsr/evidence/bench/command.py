"""The work of `vsr bench`: time scenes one after the other, print and write what each came to, draw growth if asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from vsr.compute.implementation import chosen
from vsr.evidence.bench import SUITES, BenchOptions
from vsr.evidence.bench.benchmark import Benchmark, Settings, on_cpu, without_compilation_cache
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import Console, say, show_pairs
from vsr.experiments.devices import prepare
from vsr.experiments.plot.figures import FORMATS
from vsr.experiments.storage.files import json_result, target_file
from vsr.experiments.storage.provenance import describe_session
from vsr.spec import suggest


def bench(options: BenchOptions, suites: Mapping[str, Sequence[Benchmark]] | None = None) -> None:
    """Run suites; the JSON file is whole after every scene. suites: other scenes than those of SUITES."""
    wanted = _requested(options, suites or _shipped(options.suite))
    earlier = None if options.against is None else _stored(options.against)
    figure = None if options.plot is None else target_file("--plot", options.plot, FORMATS)
    with json_result(options.json) as write:
        report, title = _measure(options, wanted, earlier, write)
    if figure is not None:
        from vsr.evidence.bench.growth import plot_growth

        plot_growth(report["growth"], f"How cost grows {title}", figure)


def _measure(
    options: BenchOptions,
    wanted: list[tuple[str, Benchmark]],
    earlier: Mapping[tuple[Any, ...], Any] | None,
    write: Callable[[Any], None],
) -> tuple[dict[str, Any], str]:
    """The report, written after every scene, and the device that it is about."""
    prepare(options.device)
    _check_implementation(options)
    if on_cpu() and not options.scenes:
        wanted = [(suite, scene) for suite, scene in wanted if scene.everywhere]
    where = describe_session(0)
    title = f"on {device_shown(where)}, jax {where['packages']['jax']}"
    settings = Settings(options.repeats, options.implementation, options.device)
    report: dict[str, Any] = {"machine": where}
    progress = Console(stderr=True)
    with without_compilation_cache():
        for number, (suite, scene) in enumerate(wanted, start=1):
            if suite not in report:
                report[suite] = []
                show_pairs(f"bench {suite} {title}", [])
            say(f"compiling and timing {scene.name} ({suite}, {number} of {len(wanted)})", progress)
            metrics = {"scene": scene.name, **scene.measure(settings)}
            report[suite].append(metrics)
            show_pairs(None, scene.rows(metrics))
            if earlier is not None:
                show_pairs(None, _compared(metrics, earlier.get(_key(suite, metrics))))
            write({**report, "scenes_left": len(wanted) - number})
    return report, title


def _stored(file: str) -> dict[tuple[Any, ...], Any]:
    """What `--json` wrote before, by scene; raises UserError if this is no such file."""
    try:
        report = json.loads(Path(file).read_text())
        return {_key(suite, scene): scene for suite in SUITES for scene in report.get(suite, ())}
    except OSError as error:
        raise UserError(f"--against {file}: {error.strerror or error}") from None
    except (ValueError, AttributeError, KeyError, TypeError):
        raise UserError(f"--against {file}: this is not what vsr bench --json writes") from None


def _key(suite: str, metrics: Mapping[str, Any]) -> tuple[Any, ...]:
    return suite, metrics["scene"], metrics.get("robots")


def _compared(metrics: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Rows of all times that both have."""
    if earlier is None:
        return [("", "not in the earlier file")]
    before = dict(_times(earlier))
    return [
        (f"  {name}".rstrip("_s"), f"{before[name]:.4g} s before, {now:.4g} s now: {now / before[name]:.3f} times")
        for name, now in _times(metrics)
        if before.get(name)
    ]


def _times(metrics: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, float]]:
    """Medians and times of compiling, wherever they are."""
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _times(value, f"{within}{name} ")
        elif name in ("median_s", "compile_s", "first_s", "second_s") and isinstance(value, int | float):
            yield within + name, float(value)


def _shipped(suite: str) -> dict[str, Sequence[Benchmark]]:
    names = SUITES if suite == "all" else (suite,)
    return {name: import_module(f"vsr.evidence.bench.{SUITES[name]}").SCENES for name in names}


def _requested(options: BenchOptions, suites: Mapping[str, Sequence[Benchmark]]) -> list[tuple[str, Benchmark]]:
    """Scenes to time, each with its suite; raises UserError for a name that is not there, or a plot of nothing."""
    every = [(suite, scene) for suite, scenes in suites.items() for scene in scenes]
    names = list(dict.fromkeys(scene.name for _, scene in every))
    for name in options.scenes:
        if name not in names:
            raise UserError(f"--scene {name}: bench {options.suite} has no such scene{suggest(name, names)}")
    wanted = [(suite, scene) for suite, scene in every if not options.scenes or scene.name in options.scenes]
    if options.plot is not None and not any(suite == "growth" for suite, _ in wanted):
        given = "--scene" if options.scenes else f"bench {options.suite}"
        raise UserError(f"--plot {options.plot}: it draws how cost grows, which {given} leaves out; use bench growth")
    return wanted


def _check_implementation(options: BenchOptions) -> None:
    """Refuse what cannot run on the device."""
    try:
        chosen(options.implementation)
    except ValueError as error:
        raise UserError(f"--implementation {options.implementation}: {error}") from None


def device_shown(where: dict[str, Any]) -> str:
    """The device and its software, from the description of a session."""
    platform, kind = where["device"].split(": ", 1)
    if platform == "cpu":
        return f"{where['devices']} CPU core{'s' if where['devices'] > 1 else ''} ({where['machine']})"
    return kind if where["devices"] == 1 else f"{where['devices']} x {kind}"
