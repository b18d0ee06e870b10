"""Films and strips of frames: GIF and MP4 in real time, PNG with a few moments of every robot."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from vsr.drawing.chambers import pressure_scale
from vsr.drawing.colors import MATERIALS, SCALES, Scale, rgb
from vsr.drawing.grains import grain_scale
from vsr.drawing.legend import legend
from vsr.drawing.outlines import BRIGHTNESS
from vsr.drawing.overlays import PAPER, SensorMark, sensor_marks
from vsr.drawing.painter import GROUND_FROM_ABOVE, SEE_THROUGH, Look, Painter
from vsr.drawing.recording import size_word
from vsr.experiments.config.problems import UserError
from vsr.experiments.play.recordings import RecordedRobot

GIF_RATE, MP4_RATE = 20, 30
"""Frames per second; a GIF counts in hundredths of a second."""
PANEL, SMALL_PANEL, STRIP_PANEL = (640, 420), (440, 300), (300, 230)
"""Size of a picture of one robot: alone, among others (also in strips with the many bars of sensors), in a strip
[pixels]."""
STRIP_MOMENTS = 6
Tick = Callable[[], None]
"""Called after every frame."""


class _Keys(NamedTuple):
    """Settings shared by all robots that are shown side by side."""

    marks: tuple[SensorMark, ...]
    grains: Scale | None
    fluid: Scale | None


class Film:
    """All robots side by side, moment by moment."""

    def __init__(
        self,
        robots: Sequence[RecordedRobot],
        look: Look,
        rate: float,
        *,
        panel: tuple[int, int] | None = None,
        seconds: float = math.inf,
        columns: int | None = None,
        bare: bool = False,
    ):
        """rate: frames per second; seconds: how long it is at most; columns: side by side, by default as many as in a
        square; bare: without axes and legend."""
        self.rate = rate
        self.panel = panel or (PANEL if len(robots) == 1 else SMALL_PANEL)
        end = min(seconds, max(float(robot.recording.time[-1]) for robot in robots))
        times = np.arange(round(end * rate) + 1) / rate
        self.moments = len(times)
        self.painters = _painters(robots, look, times, self.panel, _keys(robots, look), bare=bare)
        self.columns = columns or math.ceil(math.sqrt(len(robots)))
        width = self.columns * self.panel[0]
        self.key = Image.new("RGB", (width, 0)) if bare else _legend(robots, look, width)
        rows = math.ceil(len(robots) / self.columns)
        width, height = self.columns * self.panel[0], rows * self.panel[1] + self.key.height
        self.size = width + width % 2, height + height % 2  # video codecs need even sizes

    def frames(self) -> Iterator[Image.Image]:
        """One after the other."""
        for moment in range(self.moments):
            image = Image.new("RGB", self.size, PAPER)
            for index, painter in enumerate(self.painters):
                row, column = divmod(index, self.columns)
                image.paste(painter.paint(moment), (column * self.panel[0], row * self.panel[1]))
            image.paste(self.key, (0, self.size[1] - self.key.height))
            yield image


def write_gif(film: Film, path: Path, tick: Tick) -> None:
    """All moments with one palette, which is made from the first, a middle and the last frame's colors."""
    frames: list[Image.Image] = []
    palette: Image.Image | None = None
    for image in film.frames():
        palette = palette or _palette(film)
        frames.append(image.quantize(palette=palette, dither=Image.Dither.NONE))
        tick()
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=round(1000 / film.rate), loop=0, optimize=False
    )


def write_mp4(film: Film, path: Path, tick: Tick) -> None:
    """H.264 that plays everywhere; needs imageio-ffmpeg."""
    ffmpeg = require_ffmpeg(path)
    writer = ffmpeg.write_frames(
        str(path),
        film.size,
        fps=MP4_RATE,
        codec="libx264",
        quality=6,
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-preset", "veryfast"],  # half the time; flat colors lose nothing
    )
    with warnings.catch_warnings():
        # JAX warns of forks because of its threads; this one becomes ffmpeg at once.
        warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
        writer.send(None)
    try:
        for image in film.frames():
            writer.send(image.tobytes())
            tick()
    finally:
        writer.close()


def require_ffmpeg(path: Path):
    """The module that brings ffmpeg along; raises UserError where it is absent."""
    try:
        import imageio_ffmpeg  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError(
            f"{path}: MP4 needs imageio-ffmpeg: pip install 'voxel-soft-robots[video]' (or imageio-ffmpeg itself), "
            "or choose .gif"
        ) from None
    return imageio_ffmpeg


def write_strip(
    robots: Sequence[RecordedRobot], look: Look, path: Path, tick: Tick, span: tuple[float, float] | None = None
) -> None:
    """A row of moments for every robot, equally apart from the first to the last; span: only between these [s]."""
    panel = width, height = SMALL_PANEL if "sensors" in look.overlays else STRIP_PANEL
    key, keys = _legend(robots, look, STRIP_MOMENTS * width), _keys(robots, look)
    sheet = Image.new("RGB", (STRIP_MOMENTS * width, len(robots) * height + key.height), PAPER)
    for row, robot in enumerate(robots):
        times = np.linspace(*(span or (0, robot.recording.time[-1])), STRIP_MOMENTS)
        # The camera and the path need the moments between.
        fine = np.unique(np.concatenate([robot.recording.time, times]))
        painter = _painters([robot], look, fine, panel, keys)[0]
        for column, moment in enumerate(np.searchsorted(fine, times)):
            sheet.paste(painter.paint(int(moment)), (column * width, row * height))
            tick()
    sheet.paste(key, (0, len(robots) * height))
    sheet.save(path)


def _painters(
    robots: Sequence[RecordedRobot],
    look: Look,
    times: np.ndarray,
    panel: tuple[int, int],
    keys: _Keys,
    *,
    bare: bool = False,
) -> list[Painter]:
    return [
        Painter(
            robot.recording.at(times),
            robot.ground,
            look,
            title=robot.name,
            size=panel,
            bare=bare,
            marks=keys.marks,
            grain_colors=keys.grains,
            fluid_colors=keys.fluid,
        )
        for robot in robots
    ]


def _keys(robots: Sequence[RecordedRobot], look: Look) -> _Keys:
    recordings = [robot.recording for robot in robots]
    return _Keys(
        sensor_marks(recordings),
        grain_scale((recording.grains for recording in recordings), look.grains_by),
        pressure_scale(recording.chambers for recording in recordings),
    )


def _legend(robots: Sequence[RecordedRobot], look: Look, width: int) -> Image.Image:
    size, keys = size_word(robot.recording for robot in robots), _keys(robots, look)
    symbols = _symbols(robots)
    return legend(look, width, symbols, size=size, marks=keys.marks, grains=keys.grains, fluid=keys.fluid)


def _symbols(robots: Sequence[RecordedRobot]) -> tuple[str, ...]:
    """Of the first robot's materials; those of the others if they are the same, else by number."""
    first = robots[0].symbols
    if all(robot.symbols == first for robot in robots):
        return first
    return tuple(f"material {number + 1}" for number in range(max(len(robot.symbols) for robot in robots)))


def _palette(film: Film) -> Image.Image:
    """Colors of all scales, which no single frame may have, beside those of some frames."""
    chosen = [
        painter.paint(moment) for painter in film.painters[:6] for moment in (0, film.moments // 2, film.moments - 1)
    ]
    width = max(film.size[0], chosen[0].width)
    pieces = [film.key.resize((width, film.key.height)), *chosen] if film.key.height else [*chosen]
    first = film.painters[0]
    if first.grain_colors or first.fluid_colors:  # their colors would crowd those of voxels out of the palette
        pieces += [_voxel_colors(first.look, width, image.height // 4) for image in chosen]
    if first.fluid_colors:
        pieces += [_shaded(first.fluid_colors, width, image.height // 4) for image in chosen]
    if first.fluid_colors and first.is_3d:
        behind = (PAPER, GROUND_FROM_ABOVE)
        pieces += [_before(color, _voxel_colors(first.look, width, chosen[0].height // 2)) for color in behind]
    sample = Image.new("RGB", (width, sum(image.height for image in pieces)), PAPER)
    top = 0
    for image in pieces:
        sample.paste(image, (0, top))
        top += image.height
    return sample.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def _voxel_colors(look: Look, width: int, height: int) -> Image.Image:
    """All that a face may have, from the left to the right, in rows of equal brightness."""
    if look.color_by == "material":
        table = rgb(MATERIALS[look.palette])
        colors = table[np.arange(width) * len(table) // width]
    else:
        return _shaded(SCALES[look.palette][look.color_by], width, height)
    return _in_rows(colors, height)


def _shaded(scale: Scale, width: int, height: int) -> Image.Image:
    """All colors of a scale, likewise."""
    return _in_rows(scale.colors(np.linspace(*scale.ends, width)), height)


def _before(color: str, faces: Image.Image) -> Image.Image:
    """Faces through which a color is seen."""
    return Image.blend(Image.new("RGB", faces.size, color), faces, SEE_THROUGH / 255)


def _in_rows(colors: np.ndarray, height: int) -> Image.Image:
    rows = np.stack([colors * shade for shade in BRIGHTNESS.values()])
    return Image.fromarray(rows.astype(np.uint8)).resize((len(colors), height), Image.Resampling.NEAREST)
