"""Maps over a picture in its own size: pixel by pixel, coloured in the frame alone."""

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from reproduction.plots.overlay import Overlay, overlay_figure

BOX = (160, 0, 480, 320)


def drawn(figure, axis):
    """The pixels of one panel at the figure's own dpi."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    left, bottom, right, top = axis.get_window_extent().extents.round().astype(int)
    whole = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    return whole[len(whole) - top : len(whole) - bottom, left:right]


def picture(width=640, height=320):
    ramp = np.linspace(0, 255, width * height * 3).reshape(height, width, 3)
    return Image.fromarray(ramp.astype(np.uint8))


def test_a_picture_keeps_its_pixels_and_only_the_frame_is_coloured():
    figure = overlay_figure(picture(), "$5_$10", [[Overlay(torch.rand(32, 32), BOX, "$5_$10")]])
    image, heat = figure.axes[:2]
    assert image.get_title().splitlines() == ["$5_$10", "framed: what the model sees"]
    found = drawn(figure, image)
    inside = np.s_[8:-8, 8:150]  # beside the frame's own lines
    assert np.abs(found - np.array(picture()))[inside].max() <= 2
    colour = np.ptp(drawn(figure, heat), axis=2) > 3
    assert colour[:, 170:470].mean() > 0.9
    assert not colour[:, :155].any() and not colour[:, 485:].any()


@pytest.mark.parametrize(("size", "longest"), [((3000, 900), 2000), ((60, 90), 480)])
def test_the_longer_side_has_bounds(size, longest):
    box = (0, 0, *size)
    figure = overlay_figure(picture(*size), "a", [[Overlay(torch.ones(2, 2), box, "b")]])
    assert max(figure.axes[0].get_window_extent().size) == pytest.approx(longest, abs=1)
    assert figure.axes[0].get_title() == "a", "nothing is left out, so there is no frame"
    many = [[Overlay(torch.ones(2, 2), box, "b")] * 9] * 2
    assert max(overlay_figure(picture(*size), "a", many).bbox.size) <= 10_001
