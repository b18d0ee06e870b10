"""The gallery: one page with films of robots, each with its command and its cost, and the banner of the README.

    python -m vsr.evidence.gallery docs/gallery/gallery.yaml --page out/gallery.html --banner docs/banner.gif

The page needs nothing else: films are in it. Robots are those of files; nothing evolves here.
"""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import click
from pydantic import Field

from vsr.drawing.painter import Look
from vsr.experiments.config import load
from vsr.experiments.config.check import check
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.console import say
from vsr.experiments.devices import prepare
from vsr.experiments.formatting import UNITS, count, number
from vsr.experiments.play.film import Film, write_gif
from vsr.experiments.play.recordings import RecordedRobot, Source, record_robot
from vsr.experiments.storage.files import replace_when_closed, target_file, write_text
from vsr.experiments.storage.robots import Title, read_title
from vsr.scene import Scene
from vsr.spec import Count, FileSpec, Real, Seconds, Spec

RATE = 15
"""Frames of the page's films in a second."""
QUALITY = 55
"""Of WebP, of 100; films are half as large as with the default."""

Pixels = tuple[Annotated[Count, Field(ge=40, le=2000)], Annotated[Count, Field(ge=40, le=2000)]]


class ShownRobot(Spec):
    """A robot in the banner or on the page."""

    robot: str
    """its file, from the folder of this one"""
    title: str
    after: Annotated[Real, Field(ge=0)] = 0.0
    """moment of the episode at which the film begins [s]"""


class Tile(ShownRobot):
    """A robot on the page."""

    words: str
    """what is to be seen"""
    command: str
    """what makes such a robot"""
    cost: str = ""
    """of the command, where the robot's file does not say it"""
    seconds: Seconds = 8.0
    """how long the film is [s]"""
    color: Literal["area", "control", "strain", "material"] = "area"


class Banner(Spec):
    """Robots side by side."""

    robots: tuple[ShownRobot, ...] = Field(min_length=1)
    seconds: Seconds = 6.0
    rate: Annotated[Count, Field(ge=1, le=30)] = 10
    """frames in a second"""
    panel: Pixels = (200, 170)
    """size of a robot's picture"""


class Gallery(FileSpec):
    """What the page and the banner show."""

    kind: Literal["gallery"] = "gallery"
    """what this file describes"""
    banner: Banner
    panel: Pixels = (480, 320)
    """size of a film on the page"""
    robots: tuple[Tile, ...] = Field(min_length=1)


def read_gallery(path: Path) -> Gallery:
    """Raises UserError with every fault."""
    return check(read_yaml(path), Gallery)


def recorded(shown: ShownRobot, folder: Path, seconds: float) -> RecordedRobot:
    """A robot's episode, from the moment at which its film begins."""
    scene = load(folder / shown.robot)
    if not isinstance(scene, Scene):
        raise UserError(f"{folder / shown.robot}: its robot is still to evolve")
    robot = record_robot(Source(shown.title, scene), shown.after + seconds)
    return replace(robot, recording=replace(robot.recording, time=robot.recording.time - shown.after))


def cost_of(path: Path) -> str:
    """How many evaluations found a robot, from its file; empty for one that no run wrote."""
    title = read_title(path)
    scene = load(path)
    if title is None or not isinstance(scene, Scene):
        return ""
    return f"found by evaluation {count(title.individual + 1)} of its run, {scene.task.duration:g} s each"


def score_of(title: Title | None) -> str:
    """The score in a robot's file."""
    if title is None:
        return ""
    return f"{title.measure.replace('_', ' ')} {number(title.value)} {UNITS.get(title.measure, '')}".rstrip()


def banner(gallery: Gallery, folder: Path, target: Path) -> None:
    """Draw the banner, a GIF."""
    described = gallery.banner
    robots = [recorded(shown, folder, described.seconds) for shown in described.robots]
    film = Film(
        robots,
        Look(),
        described.rate,
        panel=described.panel,
        seconds=described.seconds,
        columns=len(robots),
        bare=True,
    )
    with replace_when_closed(target) as partial:
        write_gif(film, partial, lambda: None)


def film_of(tile: Tile, folder: Path, panel: Pixels) -> tuple[bytes, bytes]:
    """A robot in motion as an animated WebP, and its first moment."""
    untitled = replace(recorded(tile, folder, tile.seconds), name="")  # the page has the title
    film = Film([untitled], Look(tile.color), RATE, panel=panel, seconds=tile.seconds, bare=True)
    frames = list(film.frames())
    moving, still = io.BytesIO(), io.BytesIO()
    wait = round(1000 / RATE)
    frames[0].save(
        moving, "webp", save_all=True, append_images=frames[1:], duration=wait, loop=0, quality=QUALITY, method=4
    )
    frames[len(frames) // 2].save(still, "webp", quality=QUALITY)
    return moving.getvalue(), still.getvalue()


def page(gallery: Gallery, folder: Path) -> str:
    """The whole page."""
    tiles = []
    for tile in gallery.robots:
        say(f"simulating {tile.title}")
        moving, still = (base64.b64encode(film).decode() for film in film_of(tile, folder, gallery.panel))
        path = folder / tile.robot
        facts = "; ".join(part for part in (score_of(read_title(path)), tile.cost or cost_of(path)) if part)
        fields = {name: html.escape(text) for name, text in (("title", tile.title), ("words", tile.words))}
        tiles.append(
            TILE.format(
                **fields,
                facts=f'<p class="facts">{html.escape(facts[:1].upper() + facts[1:])}</p>' if facts else "",
                command=_breakable(tile.command),
                play=_breakable(f"vsr play {_from_root(path)}"),
                moving=moving,
                still=still,
                width=gallery.panel[0],
                height=gallery.panel[1],
            )
        )
    return PAGE.replace("@@TILES@@", "\n".join(tiles))


def _breakable(command: str) -> str:
    """As HTML, with places where a narrow page may begin another line."""
    return re.sub("([/_])", r"\1<wbr>", html.escape(command, quote=False))


def _from_root(path: Path) -> str:
    """A file as commands in the repository's folder name it."""
    whole = path.resolve()
    return (whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole).as_posix()


TILE = """<article>
<picture>
<source media="(prefers-reduced-motion: reduce)" srcset="data:image/webp;base64,{still}">
<img src="data:image/webp;base64,{moving}" width="{width}" height="{height}" alt="{title}: {words}">
</picture>
<h2>{title}</h2>
<p>{words}</p>
{facts}
<dl>
<dt>make</dt><dd><code>{command}</code></dd>
<dt>see</dt><dd><code>{play}</code></dd>
</dl>
</article>"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gallery of robots</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #222; --soft: #5c5c5c; --panel: #f4f4f1; --line: #c8c8c4; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181b; --ink: #e8e8e6; --soft: #a9adb2; --panel: #202428; --line: #454b52; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1500px; padding: 18px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
}
h1 { margin: 0 0 4px; font-size: 24px; }
h2 { margin: 0; font-size: 16px; }
p { margin: 0; }
header { margin-bottom: 16px; color: var(--soft); }
header h1 { color: var(--ink); }
main { display: grid; gap: 16px; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); }
article {
  display: flex; flex-direction: column; gap: 6px; min-width: 0; padding: 12px; background: var(--panel);
  border: 1px solid var(--line); border-radius: 8px;
}
img { width: 100%; height: auto; display: block; border-radius: 4px; background: #fff; }
.facts { font-size: 13px; color: var(--soft); }
dl { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 4px 10px; margin: auto 0 0; font-size: 13px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
@media (max-width: 500px) { body { padding: 10px; } article { padding: 8px; } }
</style>
</head>
<body>
<header>
<h1>Gallery</h1>
<p>Each film is simulated from the robot's file. Colors are the area or volume of voxels over that at rest: red is
smaller, yellow larger, blue is water.</p>
</header>
<main>
@@TILES@@
</main>
</body>
</html>
"""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--page", "page_file", help="Write the page.", metavar="FILE.html")
@click.option("--banner", "banner_file", help="Draw the banner.", metavar="FILE.gif")
def main(file: Path, page_file: str | None, banner_file: str | None) -> None:
    """Make the page, the banner, or both, of a gallery's FILE."""
    prepare()
    gallery = read_gallery(file)
    if banner_file is not None:
        target = target_file("--banner", banner_file, (".gif",))
        banner(gallery, file.parent, target)
        say(f"drawn in {target}")
    if page_file is not None:
        target = target_file("--page", page_file, (".html",))
        write_text(target, page(gallery, file.parent))
        say(f"written to {target}")


if __name__ == "__main__":
    main()
