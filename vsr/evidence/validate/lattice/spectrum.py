"""Frequencies of traced motion."""

from __future__ import annotations

import numpy as np

PADDING = 8
"""Zeros after the signal, in its lengths: more points on the same spectrum."""


def frequency_of_crossings(time: np.ndarray, value: np.ndarray) -> float:
    """Of a motion about 0 [Hz]: a line through the times at which it crosses, interpolated between samples."""
    before = np.flatnonzero(np.sign(value[:-1]) * np.sign(value[1:]) < 0)
    if len(before) < 3:
        return float("nan")
    share = value[before] / (value[before] - value[before + 1])
    crossings = time[before] + share * (time[before + 1] - time[before])
    return float(0.5 / np.polyfit(np.arange(len(crossings)), crossings, 1)[0])


def amplitudes(time: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies [Hz] and how strong they are: the Fourier transform under Hann's window, padded with zeros."""
    window = np.hanning(len(value) + 1)[:-1]
    spectrum = np.abs(np.fft.rfft((value - value.mean()) * window, PADDING * len(value)))
    return np.fft.rfftfreq(PADDING * len(value), time[1] - time[0]), 2 * spectrum / window.sum()


def frequency_of_peak(time: np.ndarray, value: np.ndarray, near: float, within: float = 0.3) -> float:
    """Of the highest peak in a band [Hz], with a parabola through the logarithms about it.

    near: middle of the band [Hz]; within: half its width, as a share of the middle.
    """
    frequency, strength = amplitudes(time, value)
    band = np.flatnonzero(np.abs(frequency / near - 1) < within)
    if not np.isfinite(strength).all() or len(band) == 0:
        return float("nan")
    top = band[np.argmax(strength[band])]
    left, middle, right = np.log(strength[top - 1 : top + 2])
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    return float(frequency[top] + shift * (frequency[1] - frequency[0]))
