"""A phrase and an image of two things: where the phrase points."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

import ipywidgets
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from relevit.attribution import METHODS, patch_grid, to_heatmap
from relevit.config.words import Protocol
from relevit.data.batch import Batch
from relevit.evaluate.pointing import points_at_own
from relevit.models.spec import ModelSpec
from relevit.plots.style import FAINT, method_colour
from relevit.plots.widgets.explorer import Explorer, show_heat, show_image, slider, strip
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.clip.encoders import Encoder

SHOWN = 6  # phrases beside the typed one, those that fit best


def phrase_explorer(
    encoder: Encoder,
    spec: ModelSpec,
    pairs: Batch,
    phrases: Sequence[str],
    *,
    methods: Sequence[str] = CLIP_METHODS,
    method: str = "gae",
    protocol: Protocol = "published",
) -> PhraseExplorer:
    """A widget to type a phrase, or choose one, and to see where it points in an image.

    `phrases` has one for each class of the labels, to choose from and to compare with. A phrase of
    which no word is known is refused with the reason, and the picture stays.
    Raises: ValueError without images.
    """
    if not len(pairs):
        raise ValueError("phrase_explorer: no images; give at least one pair")
    return PhraseExplorer(encoder, spec, pairs, phrases, methods, method, protocol)


class PhraseExplorer(Explorer):
    """Made by `phrase_explorer`; `phrase`, `image` and `method` are the controls."""

    def __init__(
        self,
        encoder: Encoder,
        spec: ModelSpec,
        pairs: Batch,
        phrases: Sequence[str],
        methods: Sequence[str],
        method: str,
        protocol: Protocol,
    ) -> None:
        self._encoder, self._spec, self._pairs, self._protocol = encoder, spec, pairs, protocol
        self._phrases = list(phrases)
        self._known = encoder.texts(self._phrases)
        first = self._phrases[int(pairs.labels[0, 0])]
        self.phrase = ipywidgets.Combobox(
            value=first,
            options=sorted(set(self._phrases)),
            description="phrase",
            continuous_update=False,
            layout={"width": "420px"},
        )
        self.image = slider("image", 1, len(pairs))
        self.method = ipywidgets.Dropdown(options=list(methods), value=method, description="method")
        super().__init__([self.phrase, self.image, self.method])

    def look(self) -> tuple[Figure, str]:
        """The phrase's map on the image, and how well it fits beside the known ones."""
        text = self.phrase.value.strip()
        features = self._encoder.texts([text])
        place = self.image.value - 1
        image = self._pairs.images[place]
        pixels = self._pixels(place)
        classifier = self._encoder.dual.image_classifier(torch.cat([features, self._known]))
        with torch.no_grad():
            cosines = (classifier(pixels)[0] / self._encoder.dual.scale).float().cpu()
        target = torch.zeros(1, dtype=torch.int64, device=pixels.device)
        made = METHODS[self.method.value](classifier, pixels, target, protocol=self._protocol)
        relevance = made.detach().float().nan_to_num().cpu()
        figure, axes = strip(2.4, (0.08, 2.4), (0.08, 2.4), (0.15, 3.4))
        show_image(axes[0], image, fill(self._two(place), 34))
        grid = patch_grid(classifier, pixels)
        heat = to_heatmap(relevance, tuple(image.shape[-2:]), grid)[0, 0]
        show_heat(axes[1], image, heat, fill(f"{self.method.value}: {text}", 34))
        self._show_fits(axes[2], text, cosines)
        return figure, self._words(text, place, cosines, relevance, grid)

    def _pixels(self, place: int) -> Tensor:
        device = next(self._encoder.dual.parameters()).device
        return self._spec.normalise(self._pairs.images[place : place + 1].to(device))

    def _show_fits(self, axis: Axes, text: str, cosines: Float[Tensor, " phrases"]) -> None:
        """The cosine of the phrase as a bar, and below it those that fit best."""
        order = cosines[1:].argsort(descending=True).tolist()
        others = [i for i in order if self._phrases[i] != text][:SHOWN]
        rows = [(text, float(cosines[0]), method_colour(self.method.value))]
        rows += [(self._phrases[i], float(cosines[1 + i]), FAINT) for i in others]
        for row, (name, value, colour) in enumerate(rows):
            axis.barh(row, value, height=0.3, color=colour)
            axis.text(min(value, 0), row - 0.22, f"{name}  {value:.2f}", fontsize=8, color="black")
        axis.set(ylim=(len(rows) - 0.5, -0.8), yticks=[], xticks=[])
        axis.set_title("cosine: this phrase, and those that fit best", fontsize=9, pad=3)
        axis.spines[:].set_visible(False)
        axis.grid(False)

    def _words(
        self, text: str, place: int, cosines: Tensor, relevance: Tensor, grid: tuple[int, int]
    ) -> str:
        others = [i for i, phrase in enumerate(self._phrases, start=1) if phrase != text]
        below = int((cosines[others] < cosines[0]).sum())
        said = (
            f"“{text}” on image {place + 1} ({self._two(place)}): cosine "
            f"{float(cosines[0]):.2f}, above {below} of {len(others)} others"
        )
        one = self._pairs.select([place])
        if not bool(one.masks.any()):
            return f"{said}."
        nearer = int(one.labels[0, 0 if bool(points_at_own(one, relevance, 0, grid)) else 1])
        if float(relevance.max()) <= float(relevance.min()):
            return f"{said}; the map is empty."
        return f"{said}; the map is highest near: {self._phrases[nearer]}."

    def _two(self, place: int) -> str:
        return " and ".join(self._phrases[i] for i in self._pairs.labels[place].tolist())
