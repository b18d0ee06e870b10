"""Numbers as people read them, the same in terminals, in reports and on the page of `vsr watch` (watch.js)."""

from __future__ import annotations

import math
from collections.abc import Iterable

UNITS = {
    "travel_velocity": "m/s",
    "relative_velocity": "1/s",
    "average_height": "m",
    "average_squared_control": "",
    "broken_springs": "",
}


def count(value: float) -> str:
    """How many, or how many a second: thousands apart by commas, three digits of what is below a hundred."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def number(value: float) -> str:
    """A measure: four digits, or that there is none."""
    return f"{value:.4g}" if math.isfinite(value) else "failed"


def clock(seconds: float) -> str:
    """Seconds as text for people."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def duration_text(seconds: float) -> str:
    """An estimate of seconds as text for people: two digits of a short one."""
    return f"{seconds:.2g} s" if seconds < 60 else clock(seconds)


def volume(size: float) -> str:
    """From cubic meters to cubic centimeters or litres, in three digits: 0.0018 is 1.8 l."""
    return f"{1e6 * size:.3g} cm³" if size < 1e-3 else f"{1e3 * size:.3g} l"


def pressures(low: float, high: float) -> str:
    """A range from pascals to pascals or kilopascals, in three digits: '0 to 1.5 kPa'."""
    unit, per = ("kPa", 1e3) if max(abs(low), abs(high)) >= 1e3 else ("Pa", 1.0)
    return f"{low / per:.3g} to {high / per:.3g} {unit}"


def in_ranges(noun: str, numbers: Iterable[int]) -> str:
    """Growing numbers as 'generation 3 is' or 'generations 3 to 5, 9 are'."""
    given = list(numbers)
    return f"{noun} {ranges_of(given)} is" if len(given) == 1 else f"{noun}s {ranges_of(given)} are"


def ranges_of(numbers: Iterable[int]) -> str:
    """Growing numbers as '3 to 5, 9'."""
    ranges: list[list[int]] = []
    for one in numbers:
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)
