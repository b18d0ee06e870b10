"""Films and strips of frames: GIF and MP4 in real time, PNG with a few moments of every robot."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from experiments.config.problems import UserError
from experiments.play.recordings import RecordedRobot
from vsr.drawing.colours import MATERIALS, SCALES, Scale, rgb
from vsr.drawing.grains import grain_scale
from vsr.drawing.legend import legend
from vsr.drawing.outlines import BRIGHTNESS
from vsr.drawing.overlays import PAPER, SenseMark, sense_marks
from vsr.drawing.painter import Look, Painter
from vsr.drawing.recording import size_word

GIF_RATE, MP4_RATE = 20, 30
"""Frames per second; a GIF counts in hundredths of a second."""
PANEL, SMALL_PANEL, STRIP_PANEL = (640, 420), (440, 300), (300, 230)
"""Size of a picture of one robot: alone, among others (also in strips with the many bars of sensors), in a strip
[pixels]."""
STRIP_MOMENTS = 6
Tick = Callable[[], None]
"""Called after every frame."""


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
    ):
        """rate: frames per second; seconds: how long it is at most."""
        self.panel = panel or (PANEL if len(robots) == 1 else SMALL_PANEL)
        end = min(seconds, max(float(robot.recording.time[-1]) for robot in robots))
        times = np.arange(round(end * rate) + 1) / rate
        self.moments = len(times)
        grains = _grain_colours(robots, look)
        self.painters = _painters(robots, look, times, self.panel, _marks(robots), grains)
        self.columns = math.ceil(math.sqrt(len(robots)))
        self.key = _legend(robots, look, self.columns * self.panel[0])
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
    """All moments with one palette, which is made from the first, a middle and the last frame's colours."""
    frames: list[Image.Image] = []
    palette: Image.Image | None = None
    for image in film.frames():
        palette = palette or _palette(film)
        frames.append(image.quantize(palette=palette, dither=Image.Dither.NONE))
        tick()
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=round(1000 / GIF_RATE), loop=0, optimize=False
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
        output_params=["-preset", "veryfast"],  # half the time; flat colours lose nothing
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
            f"{path}: MP4 needs imageio-ffmpeg: pip install 'vsr[video]' (or imageio-ffmpeg itself), or choose .gif"
        ) from None
    return imageio_ffmpeg


def write_strip(
    robots: Sequence[RecordedRobot], look: Look, path: Path, tick: Tick, span: tuple[float, float] | None = None
) -> None:
    """A row of moments for every robot, equally apart from the first to the last; span: only between these [s]."""
    panel = width, height = SMALL_PANEL if "sensors" in look.overlays else STRIP_PANEL
    key, marks, grains = _legend(robots, look, STRIP_MOMENTS * width), _marks(robots), _grain_colours(robots, look)
    sheet = Image.new("RGB", (STRIP_MOMENTS * width, len(robots) * height + key.height), PAPER)
    for row, robot in enumerate(robots):
        times = np.linspace(*(span or (0, robot.recording.time[-1])), STRIP_MOMENTS)
        # The camera and the path need the moments between.
        fine = np.unique(np.concatenate([robot.recording.time, times]))
        painter = _painters([robot], look, fine, panel, marks, grains)[0]
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
    marks: Sequence[SenseMark],
    grains: Scale | None,
) -> list[Painter]:
    return [
        Painter(
            robot.recording.at(times),
            robot.ground,
            look,
            title=robot.name,
            size=panel,
            marks=marks,
            grain_colours=grains,
        )
        for robot in robots
    ]


def _marks(robots: Sequence[RecordedRobot]) -> tuple[SenseMark, ...]:
    return sense_marks(robot.recording for robot in robots)


def _grain_colours(robots: Sequence[RecordedRobot], look: Look) -> Scale | None:
    return grain_scale((robot.recording.grains for robot in robots), look.grains_by)


def _legend(robots: Sequence[RecordedRobot], look: Look, width: int) -> Image.Image:
    size = size_word(robot.recording for robot in robots)
    grains = _grain_colours(robots, look)
    return legend(look, width, _symbols(robots), size=size, marks=_marks(robots), grains=grains)


def _symbols(robots: Sequence[RecordedRobot]) -> tuple[str, ...]:
    """Of the first robot's materials; those of the others if they are the same, else by number."""
    first = robots[0].symbols
    if all(robot.symbols == first for robot in robots):
        return first
    return tuple(f"material {number + 1}" for number in range(max(len(robot.symbols) for robot in robots)))


def _palette(film: Film) -> Image.Image:
    """Colours of all scales, which no single frame may have, beside those of some frames."""
    chosen = [
        painter.paint(moment) for painter in film.painters[:4] for moment in (0, film.moments // 2, film.moments - 1)
    ]
    width = max(film.size[0], chosen[0].width)
    pieces = [film.key.resize((width, film.key.height)), *chosen]
    if (
        film.painters[0].grain_colours is not None
    ):  # the colours of grains would crowd those of voxels out of the palette
        pieces += [_voxel_colours(film.painters[0].look, width, image.height // 4) for image in chosen]
    sample = Image.new("RGB", (width, sum(image.height for image in pieces)), PAPER)
    top = 0
    for image in pieces:
        sample.paste(image, (0, top))
        top += image.height
    return sample.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def _voxel_colours(look: Look, width: int, height: int) -> Image.Image:
    """All that a face may have, from the left to the right, in rows of equal brightness."""
    if look.colour_by == "material":
        table = rgb(MATERIALS[look.palette])
        colours = table[np.arange(width) * len(table) // width]
    else:
        scale = SCALES[look.palette][look.colour_by]
        colours = scale.colours(np.linspace(*scale.ends, width))
    rows = np.stack([colours * shade for shade in BRIGHTNESS.values()])
    return Image.fromarray(rows.astype(np.uint8)).resize((width, height), Image.Resampling.NEAREST)
