"""Pictures of an episode, fast: one panel per robot, painted with Pillow, without a display.

2-D voxels are filled by color, with their masses and springs over them; of 3-D ones the outer faces are seen from the
front, above and right. Fluid is filled by its pressure, and solid faces around it let it be seen. The camera follows
the robot. Grains are discs or balls; in 3-D of a strip along x, so that its cut shows how deep they lie. Overlays
(`vsr.drawing.overlays`) can be switched on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vsr.drawing.chambers import pressure_scale, walls
from vsr.drawing.colors import MATERIALS, SCALES, GrainQuantity, Palette, Quantity, Scale, is_dark, rgb
from vsr.drawing.faces import look_here, parts_outside_fluid, seen_faces
from vsr.drawing.grains import grain_scale
from vsr.drawing.outlines import RECEDES, ROUND_A_SQUARE, TOWARDS, on_paper
from vsr.drawing.overlays import ARROW_SECONDS, INK, PAPER, PATH, SCALE_3D, Overlay, SensorMark, VoxelPen, sensor_marks
from vsr.drawing.pens import Ball, Item, faces_behind, paint_ball, paint_disc, paint_flat, solid_items, voxel_items
from vsr.drawing.recording import Recording

SMALLER_STEPS = 2
"""How many times larger pictures are painted before they are reduced, which smooths edges."""
LEFT, TOP, RIGHT, BOTTOM = 46, 26, 8, 36
"""Margins of a panel around the view [pixels]."""
BARE = 0, 22, 4, 0
"""The same, of one without axes that has a title; else there are none."""
FAINT = "#e4e4e4"
WALL = "#0a2450"
"""Of the lines around chambers."""
SEE_THROUGH, LINE_OVER_FLUID = 140, 70
"""Of 255: how much solid faces of 3-D bodies with fluid cover, and their lines before it."""
GROUND, GROUND_FROM_ABOVE = "#6b6b6b", "#b8b8b8"
SMOOTH_SECONDS = 1.0
"""Over which the camera's motion is averaged."""
BELOW, DEEPEST = 0.4, 0.62
"""Share of the view below the robot's middle, and at most where grains lie deep."""


@dataclass(frozen=True)
class Look:
    """What a picture shows."""

    color_by: Quantity = "area"
    palette: Palette = "original"
    overlays: frozenset[Overlay] = frozenset()
    grains_by: GrainQuantity = "height"


class Painter:
    """One robot's panel."""

    def __init__(
        self,
        recording: Recording,
        ground: tuple[np.ndarray, np.ndarray] | None,
        look: Look,
        *,
        title: str,
        size: tuple[int, int] = (640, 420),
        timed: bool = True,
        bare: bool = False,
        marks: Sequence[SensorMark] | None = None,
        grain_colors: Scale | None = None,
        fluid_colors: Scale | None = None,
    ):
        """ground: x and y of its line [m], in 3-D where y is 0; size: of the panel [pixels]; timed: whether the
        moment and the place are written above it; bare: without axes, only with its title; marks, grain_colors,
        fluid_colors: how sensor values, grains and fluid are drawn, if not for this robot alone."""
        self.timed, self.bare = timed and not bare, bare
        self.margins = left, top, right, bottom = _margins(title) if bare else (LEFT, TOP, RIGHT, BOTTOM)
        self.marks = sensor_marks([recording]) if marks is None else marks
        self.is_3d = recording.dimension == 3
        if self.is_3d:  # seen from in front of where it is, so that axes and ground are right there
            aside = _smoothed(recording.center, recording.time) * [0, 1, 0]
            recording = recording.moved(-aside)
        self.grain_colors = grain_colors or grain_scale([recording.grains], look.grains_by)
        self.recording, self.ground, self.look, self.title, self.size = recording, ground, look, title, size
        self.center = on_paper(recording.center)
        self.camera = _smoothed(self.center, recording.time)
        self.fluid_colors = fluid_colors or pressure_scale([recording.chambers])
        self.colors = _fill_colors(recording, look, self.fluid_colors)
        self.other_robots = [(other, _fill_colors(other, look, self.fluid_colors)) for other in recording.other_robots]
        self.walls = None if recording.chambers is None else walls(recording.chambers.chamber, recording.place)
        self.faces = seen_faces(recording, self.walls) if self.is_3d else None
        seen = on_paper(recording.corners)
        wide, tall = (seen.max((1, 2)) - seen.min((1, 2))).max(0).tolist()
        view = np.array([size[0] - left - right, size[1] - top - bottom]) * SMALLER_STEPS
        self.pixels_per_meter = float(min(view[0] / (1.7 * wide), view[1] / max(1.35 * tall, 0.7 * wide)))
        self.view = view
        self.springs = None if self.is_3d else SpringLines(recording)
        self.masses = parts_outside_fluid(recording, self.walls)
        # How far before and behind a 3-D robot's middle the ground is seen [m].
        self.aside = max(2.0, 0.5 * np.ptp(recording.place[:, 1]) + 1) * recording.voxel_side if self.is_3d else 0.0
        self.below = self._share_below()

    def paint(self, moment: int) -> Image.Image:
        """One moment."""
        image = Image.new("RGB", tuple(self.view), PAPER)
        draw = ImageDraw.Draw(image, "RGB" if self.walls is None else "RGBA")  # with fluid some colors are blended
        low = self.camera[moment] - self.view * [0.5, self.below] / self.pixels_per_meter
        self._paint_grid(draw, low)
        self._paint_ground(draw, low)
        if not self.is_3d:
            self._paint_discs(draw, low, moment)
            self._paint_objects(draw, low, moment)
        (self._paint_cubes if self.is_3d else self._paint_squares)(draw, low, moment)
        self._paint_overlays(draw, low, moment)
        return self._framed(image.reduce(SMALLER_STEPS), low, moment)

    def _share_below(self) -> float:
        """Share of the view below the robot's middle: more where grains lie, so that they are seen to their bottom."""
        bed = self.recording.grains
        if bed is None:
            return BELOW
        bottom = (bed.position[0, :, -1] - bed.radius).min() - RECEDES[1] * self.aside
        needed = self.camera[:, 1].mean() - bottom + 0.2 * self.recording.voxel_side
        return float(np.clip(needed * self.pixels_per_meter / self.view[1], BELOW, DEEPEST))

    def _points(self, points: np.ndarray, low: np.ndarray) -> list[float]:
        """Meters to pixels, all in one row as Pillow needs them; points: (..., 2)."""
        return self._pixels(points, low).reshape(-1).tolist()

    def _pixels(self, points: np.ndarray, low: np.ndarray) -> np.ndarray:
        placed = (points - low) * self.pixels_per_meter
        return np.stack([placed[..., 0], self.view[1] - placed[..., 1]], -1)

    def _ticks(self, low: np.ndarray, axis: int, room: float) -> np.ndarray:
        """Round values in view; room: pixels of the finished picture that a tick needs, less where there are few."""
        length = self.view[axis] / self.pixels_per_meter
        room = min(room, self.view[axis] / SMALLER_STEPS / 4)
        step = round_step(length * room * SMALLER_STEPS / self.view[axis])
        return np.arange(np.ceil(low[axis] / step), np.floor((low[axis] + length) / step) + 1) * step + 0.0

    def _paint_grid(self, draw: ImageDraw.ImageDraw, low: np.ndarray) -> None:
        width, height = self.view
        for x in self._ticks(low, 0, 70):
            place = (x - low[0]) * self.pixels_per_meter
            draw.line([place, 0, place, height], fill=FAINT, width=SMALLER_STEPS)
        for y in self._ticks(low, 1, 50):
            place = height - (y - low[1]) * self.pixels_per_meter
            draw.line([0, place, width, place], fill=FAINT, width=SMALLER_STEPS)

    def _paint_ground(self, draw: ImageDraw.ImageDraw, low: np.ndarray) -> None:
        if self.ground is None:
            return
        x, y = self.ground
        ends = low[0], low[0] + self.view[0] / self.pixels_per_meter
        inside = (x > ends[0]) & (x < ends[1])
        window = np.concatenate([[ends[0]], x[inside], [ends[1]]])
        level = np.concatenate([[np.interp(ends[0], x, y)], y[inside], [np.interp(ends[1], x, y)]])
        slant = 0.0
        if self.is_3d:  # the ground is seen from as far in front of the robot's middle as behind it
            slant = float(RECEDES[1] * self.aside)
            band = np.concatenate([np.stack([window, level + slant], -1), np.stack([window, level - slant], -1)[::-1]])
            draw.polygon(self._points(band, low), fill=GROUND_FROM_ABOVE)
        bottom = low[1] - 1
        outline = np.concatenate([np.stack([window, level - slant], -1), [[ends[1], bottom], [ends[0], bottom]]])
        draw.polygon(self._points(outline, low), fill=GROUND)

    def _grains(self, low: np.ndarray, moment: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copies of grains in view: centers [m], radii [m] and colors."""
        bed, scale = self.recording.grains, self.grain_colors
        assert bed is not None
        assert scale is not None
        around = float(bed.radius.max()) + RECEDES[0] * self.aside
        wide = self.view[0] / self.pixels_per_meter
        start, end = (low[0] - around, -self.aside), (low[0] + wide + around, self.aside)
        grain, place = bed.copies(moment, start, end)
        if self.ground is not None:  # inside its walls are none
            free = place[:, -1] > np.interp(place[:, 0], *self.ground)
            grain, place = grain[free], place[free]
        return place, bed.radius[grain], scale.colors(bed.values(self.look.grains_by, moment))[grain]

    def _paint_discs(self, draw: ImageDraw.ImageDraw, low: np.ndarray, moment: int) -> None:
        if self.recording.grains is None:
            return
        place, radius, color = self._grains(low, moment)
        for (x, y), size, fill in zip(
            self._pixels(place, low).tolist(), (radius * self.pixels_per_meter).tolist(), color, strict=True
        ):
            paint_disc(draw, (x, y), size, fill, min(SMALLER_STEPS, 0.2 * size))

    def _paint_objects(self, draw: ImageDraw.ImageDraw, low: np.ndarray, moment: int) -> None:
        """Rigid objects, soft ones and further robots in 2-D."""
        objects = self.recording.objects
        if objects is not None:
            place = partial(self._pixels, low=low)
            paint_flat(draw, objects, moment, place, self.pixels_per_meter, SMALLER_STEPS)
        for other, colors in self.other_robots:
            outline = self._pixels(other.corners[moment][:, list(ROUND_A_SQUARE)], low)
            for polygon, fill in zip(outline.reshape(len(outline), -1).tolist(), colors[moment].tolist(), strict=True):
                _paint_outlined(draw, polygon, tuple(fill), "#404040")

    def _items(self, low: np.ndarray, moment: int) -> list[Item]:
        """Rigid objects, soft ones and further robots in 3-D, the farthest first."""
        place, objects = partial(self._pixels, low=low), self.recording.objects
        found = [] if objects is None else solid_items(objects, moment, place, self.pixels_per_meter, SMALLER_STEPS)
        for other, colors in self.other_robots:
            found += voxel_items(other, colors[moment], moment, place, SMALLER_STEPS)
        return sorted(found, key=lambda item: item.near)

    def _paint_squares(self, draw: ImageDraw.ImageDraw, low: np.ndarray, moment: int) -> None:
        recording = self.recording
        outline = self._pixels(recording.corners[moment][:, list(ROUND_A_SQUARE)], low)
        is_fluid = np.zeros(len(outline), bool) if recording.chambers is None else recording.chambers.is_fluid
        for polygon, fill, flows in zip(
            outline.reshape(len(outline), -1).tolist(), self.colors[moment].tolist(), is_fluid.tolist(), strict=True
        ):
            if flows:
                draw.polygon(polygon, fill=tuple(fill))
            else:
                _paint_outlined(draw, polygon, tuple(fill), "#404040")
        dark = is_dark(self.colors[moment])
        assert self.springs is not None
        voxel, ends = self.springs.at(moment)
        lines = self._pixels(ends, low).reshape(-1, 4).tolist()
        for line, on_dark in zip(lines, dark[voxel].tolist(), strict=True):
            draw.line(line, fill="#b4b4b4" if on_dark else "#5c5c5c", width=1)
        if self.walls is not None:
            voxel, corner = self.walls
            for line in self._pixels(recording.corners[moment][voxel[:, None], corner], low).reshape(-1, 4).tolist():
                draw.line(line, fill=WALL, width=2 * SMALLER_STEPS)
        if recording.angle is not None:
            masses = self._pixels(recording.mass_corners[moment][:, :, list(ROUND_A_SQUARE)], low).reshape(-1, 8)
            for polygon, on_dark in zip(masses.tolist(), np.repeat(dark, 4).tolist(), strict=True):
                draw.polygon(polygon, outline="#d0d0d0" if on_dark else "#202020", width=1)
        else:
            for x, y in self._pixels(recording.position[moment][self.masses], low).tolist():
                draw.ellipse([x - 4, y - 4, x + 4, y + 4], fill="#202020")

    def _paint_cubes(self, draw: ImageDraw.ImageDraw, low: np.ndarray, moment: int) -> None:
        assert self.faces is not None
        voxel, corner, shade = self.faces
        corners, chambers = self.recording.corners[moment], self.recording.chambers
        polygon = corners[voxel[:, None], corner]
        order = np.argsort(_nearness(polygon.mean(1)))
        solid = len(order)
        if chambers is not None:  # through solid faces chambers are seen, and not their own far side
            order = order[look_here(polygon, corners.mean(1)[voxel])[order]]
            order = order[np.argsort(chambers.is_fluid[voxel[order]], kind="stable")]
            solid = int((~chambers.is_fluid[voxel[order]]).sum())
        voxel, shade, polygon = voxel[order], shade[order], polygon[order]
        fills = (self.colors[moment][voxel] * shade[:, None]).astype(int).tolist()
        placed = self._pixels(on_paper(polygon), low).reshape(len(order), -1).tolist()
        balls = self._balls(low, moment, polygon, corners.mean(1)[voxel])
        items, near = self._items(low, moment), _nearness(polygon.mean(1)).tolist()
        for number, (outline, fill) in enumerate(zip(placed, fills, strict=True)):
            while items and items[0].near < near[number]:
                items.pop(0).paint(draw)
            for ball in balls.get(number, ()):
                paint_ball(draw, *ball)
            if number >= solid:
                _paint_outlined(draw, outline, tuple(fill), WALL)
            else:
                _paint_outlined(draw, outline, tuple(fill) if chambers is None else (*fill, SEE_THROUGH), "#303030")
        for item in items:
            item.paint(draw)
        for outline in placed[:solid] if chambers is not None else ():
            draw.line([*outline, *outline[:4]], fill=f"#303030{LINE_OVER_FLUID:02x}", width=1)
        for ball in balls.get(len(placed), ()):
            paint_ball(draw, *ball)

    def _balls(self, low: np.ndarray, moment: int, faces: np.ndarray, middle: np.ndarray) -> dict[int, list[Ball]]:
        """Grains by the number of faces painted before them, the farthest first; see `faces_behind`."""
        found: dict[int, list[Ball]] = {}
        if self.recording.grains is None:
            return found
        place, radius, color = self._grains(low, moment)
        if not len(place):
            return found
        order = np.argsort(place @ TOWARDS)
        place, radius, color = place[order], radius[order], color[order]
        behind = faces_behind(faces, middle, place, radius)
        pixels, size = self._pixels(on_paper(place), low).tolist(), (radius * self.pixels_per_meter).tolist()
        for number, (x, y), extent, fill in zip(behind.tolist(), pixels, size, color, strict=True):
            found.setdefault(number, []).append(((x, y), extent, fill))
        return found

    def _paint_overlays(self, draw: ImageDraw.ImageDraw, low: np.ndarray, moment: int) -> None:
        if "path" in self.look.overlays and moment > 0:
            draw.line(self._points(self.center[: moment + 1], low), fill=PATH, width=SMALLER_STEPS + 1)
        middle = self.recording.masses[moment].mean(1)
        pen = VoxelPen(
            draw,
            self.recording,
            moment,
            middle=self._pixels(on_paper(middle), low),
            order=np.argsort(_nearness(middle), kind="stable") if self.is_3d else np.arange(len(middle)),
            side=self.pixels_per_meter * self.recording.voxel_side * (SCALE_3D if self.is_3d else 1),
            line=SMALLER_STEPS,
        )
        if "control" in self.look.overlays:
            pen.paint_control()
        if "sensors" in self.look.overlays:
            pen.paint_sensors(self.marks)
        if "contact" in self.look.overlays:
            pen.paint_contact()
        if "velocity" in self.look.overlays:
            way = on_paper(self.recording.velocity[moment]) * ARROW_SECONDS
            pen.paint_arrows(way * [1, -1] * self.pixels_per_meter)

    def _framed(self, view: Image.Image, low: np.ndarray, moment: int) -> Image.Image:
        """The view with its title, axes and units."""
        image = Image.new("RGB", self.size, PAPER)
        image.paste(view, self.margins[:2])
        draw = ImageDraw.Draw(image)
        if self.bare:
            draw.text((4, TOP - 10), cut(self.title, self.size[0] - 8, font(13)), fill=INK, font=font(13), anchor="ls")
            return image
        width, height = self.view // SMALLER_STEPS
        draw.rectangle([LEFT - 1, TOP - 1, LEFT + width, TOP + height], outline=INK)
        scale, small = self.pixels_per_meter / SMALLER_STEPS, font(12)
        for x in self._ticks(low, 0, 70):
            place = LEFT + (x - low[0]) * scale
            draw.line([place, TOP + height, place, TOP + height + 4], fill=INK)
            if LEFT + 10 < place < LEFT + width - 42 - small.getlength(f"{x:g}") / 2:
                draw.text((place, TOP + height + 5), f"{x:g}", fill=INK, font=small, anchor="ma")
        for y in self._ticks(low, 1, 50):
            place = TOP + height - (y - low[1]) * scale
            draw.line([LEFT - 5, place, LEFT, place], fill=INK)
            if place > TOP + 20:
                draw.text((LEFT - 7, place), f"{y:g}", fill=INK, font=small, anchor="rm")
        draw.text((LEFT + width, TOP + height + 5), "x [m]", fill=INK, font=small, anchor="ra")
        draw.text((LEFT - 7, TOP), "z [m]" if self.is_3d else "y [m]", fill=INK, font=small, anchor="ra")
        status = f"t = {self.recording.time[moment]:.2f} s   x = {self.recording.center[moment, 0]:.1f} m"
        status = status if self.timed else ""
        if self.recording.failed and moment == len(self.recording.time) - 1:
            status += "   failed"
        draw.text((LEFT + width, TOP - 6), status, fill=INK, font=small, anchor="rs")
        room = width - small.getlength(status) - 12
        draw.text((LEFT, TOP - 6), cut(self.title, room, font(13)), fill=INK, font=font(13), anchor="ls")
        return image


def _margins(title: str) -> tuple[int, int, int, int]:
    """Of a panel without axes."""
    return BARE if title else (0, 0, 0, 0)


def _paint_outlined(draw: ImageDraw.ImageDraw, polygon: list[float], fill: tuple[int, ...], line: str) -> None:
    """polygon: x and y in turn. For lines of more than one pixel Pillow's own outlines take an image each."""
    draw.polygon(polygon, fill=fill)
    draw.line([*polygon, *polygon[:4]], fill=line, width=SMALLER_STEPS)


@lru_cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """The one that comes with matplotlib, so that pictures are the same everywhere."""
    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below this."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9)))


def cut(text: str, room: float, kind: ImageFont.FreeTypeFont) -> str:
    """As much of the text as there is room for [pixels]."""
    if kind.getlength(text) <= room:
        return text
    while text and kind.getlength(text + "…") > room:
        text = text[:-1]
    return text + "…" if text else ""


def _nearness(points: np.ndarray) -> np.ndarray:
    """How near to the viewer 3-D points are [m], (points,)."""
    return 0.5 * points[:, 0] - points[:, 1] + 0.5 * points[:, 2]


def _smoothed(path: np.ndarray, time: np.ndarray) -> np.ndarray:
    """A moving average, over fewer moments near the ends."""
    if len(time) < 2:
        return path
    reach = max(1, round(0.5 * SMOOTH_SECONDS / (time[1] - time[0])))
    total = np.concatenate([np.zeros((1, path.shape[1])), path.cumsum(0)])
    index = np.arange(len(path))
    near = np.minimum(reach, np.minimum(index, len(path) - 1 - index))
    return (total[index + near + 1] - total[index - near]) / (2 * near + 1)[:, None]


def _fill_colors(recording: Recording, look: Look, fluid: Scale | None) -> np.ndarray:
    """(moments, voxels, 3)."""
    if look.color_by == "material":
        table = rgb(MATERIALS[look.palette])
        return np.broadcast_to(table[recording.material % len(table)], (*recording.ratio.shape, 3))
    values = {"area": recording.ratio, "control": recording.control}.get(look.color_by)
    colors = SCALES[look.palette][look.color_by].colors(recording.strain if values is None else values)
    if recording.chambers is None or fluid is None:
        return colors
    wet = fluid.colors(recording.chambers.voxel_pressure)
    return np.where(recording.chambers.is_fluid[:, None], wet, colors)


class SpringLines:
    """All springs of a recorded episode."""

    def __init__(self, recording: Recording):
        self.recording = recording
        rows = [
            (voxel, number, *ends)
            for voxel, has in enumerate(recording.springs)
            for number, (group, *ends) in enumerate(recording.spring_ends)
            if has[group] and (recording.lacking is None or not recording.lacking[voxel, number])
        ]
        self.voxel, self._number, *ends = np.array(rows, int).reshape(-1, 6).T
        self._ends = ends[:2], ends[2:]

    def at(self, moment: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the springs that are whole: the voxel, (springs,), and both ends [m], (springs, 2, 2)."""
        lines = np.stack([self._places(moment, *end) for end in self._ends], 1)
        if self.recording.broken is None:
            return self.voxel, lines
        whole = ~self.recording.broken[moment, self.voxel, self._number]
        return self.voxel[whole], lines[whole]

    def _places(self, moment: int, mass: np.ndarray, corner: np.ndarray) -> np.ndarray:
        """Of masses, and of their corners where these are not -1."""
        recording = self.recording
        center = recording.masses[moment, self.voxel, mass]
        if recording.angle is None:
            return center
        return np.where((corner < 0)[:, None], center, recording.mass_corners[moment, self.voxel, mass, corner])
