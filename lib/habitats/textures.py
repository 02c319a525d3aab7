"""Twelve families of anisotropic 1/f noise, the backgrounds of Cutouts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from jaxtyping import Float, UInt8

SIDE = 128  # pixels of the noise field; every image is cut from one of this size


@dataclass(frozen=True)
class Family:
    """One look: a noise spectrum and a palette.

    The power spectrum is (f / cutoff)^-slope above the cutoff and flat below it, with the
    frequency plane turned by `angle_deg` and stretched by `stretch` along the grain.
    """

    name: str
    slope: float
    cutoff: float  # cycles per image
    stretch: float
    angle_deg: float
    palette: tuple[str, str, str]  # dark, middle, light


SEEN = (
    Family("moss", 2.4, 6.0, 1.0, 0.0, ("#14321a", "#3f7d34", "#a4cf6b")),
    Family("sand", 1.6, 10.0, 3.0, 10.0, ("#a67f45", "#d6b476", "#f4e3b8")),
    Family("water", 3.0, 5.0, 5.0, 0.0, ("#0c3b63", "#2b7fb5", "#b4e3f2")),
    Family("bark", 2.2, 7.0, 8.0, 90.0, ("#2a1a10", "#6b4529", "#b98d61")),
    Family("slate", 2.0, 9.0, 2.0, 45.0, ("#23282e", "#5d6770", "#aab4ba")),
    Family("rust", 2.8, 4.0, 1.5, 120.0, ("#3b1409", "#a6481d", "#efa552")),
    Family("reef", 3.4, 5.0, 1.0, 0.0, ("#5b1247", "#d0537e", "#f7c6a8")),
    Family("straw", 1.8, 8.0, 10.0, 60.0, ("#7c5c12", "#c9a431", "#f6e891")),
)
UNSEEN = (
    Family("ice", 2.6, 6.0, 6.0, 150.0, ("#5e8fa8", "#b5dbe6", "#ffffff")),
    Family("lava", 3.2, 6.0, 2.0, 75.0, ("#120304", "#7d0f0f", "#ff8a1f")),
    Family("velvet", 1.7, 12.0, 2.5, 30.0, ("#1c0b3a", "#51318f", "#a98be0")),
    Family("jade", 2.9, 4.0, 4.0, 105.0, ("#053b37", "#1f9483", "#b3f0d5")),
)
FAMILIES = SEEN + UNSEEN


@lru_cache(maxsize=len(FAMILIES))
def _amplitude(family: int) -> Float[np.ndarray, "side half"]:
    spec = FAMILIES[family]
    fy = scipy.fft.fftfreq(SIDE, 1 / SIDE)[:, None]
    fx = scipy.fft.rfftfreq(SIDE, 1 / SIDE)[None, :]
    angle = np.deg2rad(spec.angle_deg)
    along = (fx * np.cos(angle) + fy * np.sin(angle)) * np.sqrt(spec.stretch)
    across = (-fx * np.sin(angle) + fy * np.cos(angle)) / np.sqrt(spec.stretch)
    frequency = np.hypot(along, across)
    amplitude = np.maximum(frequency / spec.cutoff, 1.0) ** (-spec.slope / 2)
    amplitude[0, 0] = 0.0  # no mean: brightness comes from the palette alone
    return amplitude


@lru_cache(maxsize=len(FAMILIES))
def _palette(family: int) -> UInt8[np.ndarray, "256 3"]:
    stops = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in FAMILIES[family].palette]
    tones = np.linspace(0, 1, 256)
    channels = [np.interp(tones, (0, 0.5, 1), [s[c] for s in stops]) for c in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def draw_textures(
    families: np.ndarray, white: Float[np.ndarray, "batch side side"]
) -> UInt8[np.ndarray, "batch side side 3"]:
    """Colour `white` noise in the look of each family.

    Shapes: `families` is [batch], indices into FAMILIES; the result is RGB, 0..255.
    Computed in float64 and rounded once, so that the bytes do not depend on the processor.
    """
    spectrum = scipy.fft.rfft2(white, workers=-1)
    spectrum *= np.stack([_amplitude(int(f)) for f in families])
    field = scipy.fft.irfft2(spectrum, s=white.shape[-2:], workers=-1, overwrite_x=True)
    field /= field.std(axis=(1, 2), keepdims=True)
    # Two standard deviations on either side fill the palette.
    tones = np.clip(np.rint(field * 63.75 + 127.5), 0, 255).astype(np.uint8)
    return np.stack([_palette(int(f))[tone] for f, tone in zip(families, tones, strict=True)])
