"""Pretrain a Vision Transformer without labels: it fills in the patches that it did not see.

Source: He et al. 2022, Masked Autoencoders Are Scalable Vision Learners (MAE).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from timm.layers import build_sincos2d_pos_embed
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import unfold

from pretraining.unlabelled import UnlabelledSettings, train_unlabelled
from relevit.base.seeding import seeded
from relevit.data.image_set import ImageSet
from relevit.finetune.epochs import History, descend
from relevit.models.spec import ModelSpec

BETAS = (0.9, 0.95)  # MAE Tab. 8
HEAD_WIDTH = 16  # of the decoder's attention heads


@dataclass(frozen=True)
class PretrainSettings(UnlabelledSettings):
    """Pretraining by masking.

    The decoder is used for pretraining alone; MAE finds that a narrow and shallow one suffices.
    """

    mask_share: float = 0.75
    decoder_width: int = 64
    decoder_depth: int = 1


class Decoder(nn.Module):
    """Fills in the pixels of every patch from the encoded visible ones."""

    def __init__(self, grid: tuple[int, int], encoded: int, pixels: int, width: int, depth: int):
        super().__init__()
        self.embed = nn.Linear(encoded, width)
        self.mask_token = nn.Parameter(torch.empty(1, 1, width).normal_(std=0.02))
        self.register_buffer("position", build_sincos2d_pos_embed(grid, width)[None], False)
        heads = max(1, width // HEAD_WIDTH)
        self.blocks = nn.Sequential(*(Block(width, heads, qkv_bias=True) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.predict = nn.Linear(width, pixels)
        self.apply(_init_linear)

    def forward(
        self, encoded: Float[Tensor, "batch tokens dim"], masked: Bool[Tensor, "batch patches"]
    ) -> Float[Tensor, "batch patches pixels"]:
        tokens = self.embed(encoded)
        seen = int((~masked[0]).sum())
        prefix, visible = tokens.split([tokens.shape[1] - seen, seen], dim=1)
        patches = self.mask_token.expand(*masked.shape, -1).to(tokens.dtype)
        patches = patches.masked_scatter(~masked[:, :, None], visible) + self.position
        decoded = self.norm(self.blocks(torch.cat([prefix, patches], dim=1)))
        return self.predict(decoded[:, prefix.shape[1] :])


class MaskedAutoencoder(nn.Module):
    """`encoder`, which is trained in place, with a decoder that is thrown away afterwards.

    Building it restarts the encoder as MAE does (A.1): Xavier weights in the blocks and
    sine-cosine position embeddings of the patches. Unlike MAE's, these are then learned too.
    """

    def __init__(self, encoder: VisionTransformer, width: int, depth: int):
        super().__init__()
        grid, side = encoder.patch_embed.grid_size, encoder.patch_embed.patch_size[0]
        self.encoder = encoder
        # Models that pool an average normalise after the pooling, which the decoder comes before.
        has_norm = not isinstance(encoder.norm, nn.Identity)
        self.norm = nn.Identity() if has_norm else nn.LayerNorm(encoder.embed_dim)
        self.decoder = Decoder(grid, encoder.embed_dim, 3 * side**2, width, depth)
        encoder.blocks.apply(_init_linear)
        with torch.no_grad():
            position = build_sincos2d_pos_embed(grid, encoder.embed_dim)
            encoder.pos_embed[:, -len(position) :] = position

    def forward(
        self, images: Float[Tensor, "batch 3 height width"], masked: Bool[Tensor, "batch patches"]
    ) -> Float[Tensor, "batch patches pixels"]:
        return self.decoder(self.norm(encode_visible(self.encoder, images, masked)), masked)


def build_autoencoder(encoder: VisionTransformer, settings: PretrainSettings) -> MaskedAutoencoder:
    """An untrained autoencoder around `encoder`, drawn from the seed; torch's own is left alone."""
    with seeded(settings.seed):
        model = MaskedAutoencoder(encoder, settings.decoder_width, settings.decoder_depth)
    return model.to(encoder.pos_embed.device)


def draw_masks(
    rng: np.random.Generator, images: int, patches: int, share: float
) -> Bool[Tensor, "images patches"]:
    """True on the patches to hide, as many in each image and any of them alike.

    Source: MAE 3, random sampling without replacement; the number hidden is rounded.
    """
    ranks = rng.random((images, patches)).argsort(axis=1).argsort(axis=1)
    return torch.from_numpy(ranks < round(share * patches))


def encode_visible(
    encoder: VisionTransformer,
    images: Float[Tensor, "batch 3 height width"],
    masked: Bool[Tensor, "batch patches"],
) -> Float[Tensor, "batch tokens dim"]:
    """Class token, where there is one, and visible patches, in their order, after all blocks.

    Source: MAE 3, the encoder gets no mask tokens. A masked patch never enters a block: its
    embedding, which depends on no other patch, is dropped before. All images hide equally many.
    """
    tokens = encoder._pos_embed(encoder.patch_embed(images))
    prefix, patches = tokens[:, : encoder.num_prefix_tokens], tokens[:, encoder.num_prefix_tokens :]
    visible = patches[~masked].view(len(images), -1, patches.shape[2])
    return encoder.norm(encoder.blocks(encoder.norm_pre(torch.cat([prefix, visible], dim=1))))


def patch_targets(
    images: Float[Tensor, "batch 3 height width"], side: int
) -> Float[Tensor, "batch patches pixels"]:
    """Pixels of each patch of `side` x `side`, scaled to mean 0 and variance 1 in each patch.

    Source: MAE 3 (reconstruction target), with the published code's unbiased variance + 1e-6.
    """
    pixels = unfold(images, side, stride=side).transpose(1, 2)
    variance, mean = torch.var_mean(pixels, dim=2, keepdim=True)
    return (pixels - mean) / (variance + 1e-6).sqrt()


def masked_loss(
    predicted: Float[Tensor, "batch patches pixels"],
    targets: Float[Tensor, "batch patches pixels"],
    masked: Bool[Tensor, "batch patches"],
) -> Float[Tensor, ""]:
    """Mean squared error on the masked patches alone (MAE 3); 1.0 is what predicting 0 gives."""
    return (predicted - targets)[masked].square().mean()


def pretrain(
    encoder: VisionTransformer,
    spec: ModelSpec,
    settings: PretrainSettings,
    folder: Path,
    *,
    train: ImageSet,
    validation: ImageSet,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train `encoder` in place without labels; files and log as `train_unlabelled`.

    The files hold the decoder too; take the weights from `encoder`. Its head and the norm
    after the pooling stay as they are. Validation is the loss on `validation`, always under the
    same masks. Raises: as `fit`.
    """
    model = build_autoencoder(encoder, settings)
    shown = validation.read(range(len(validation))).images

    def step(
        optimizer: torch.optim.Optimizer, images: Tensor, rng: np.random.Generator, progress: float
    ) -> float:
        loss = _loss(model, spec, images, rng, settings.mask_share)
        return float(descend(optimizer, {"loss": loss})["loss"])

    @torch.inference_mode()
    def validate() -> dict[str, float]:
        rng = np.random.default_rng(settings.seed)  # the same masks each time
        parts = shown.split(settings.batch_size)
        losses = [_loss(model.eval(), spec, part, rng, settings.mask_share) for part in parts]
        return {"validation_loss": float(np.average(losses, weights=[len(p) for p in parts]))}

    return train_unlabelled(
        model,
        model,
        settings,
        folder,
        betas=BETAS,
        train=train,
        step=step,
        validate=validate,
        architecture=f"{spec.name} with decoder",
        identity={"kind": "masked_autoencoder"},
        on_epoch=on_epoch,
    )


def _loss(
    model: MaskedAutoencoder,
    spec: ModelSpec,
    images: UInt8[Tensor, "batch 3 height width"],
    rng: np.random.Generator,
    share: float,
) -> Tensor:
    patch_embed = model.encoder.patch_embed
    pixels = spec.normalise(images, like=model.encoder.pos_embed)
    masked = draw_masks(rng, len(images), patch_embed.num_patches, share).to(pixels.device)
    targets = patch_targets(pixels, patch_embed.patch_size[0])
    return masked_loss(model(pixels, masked), targets, masked)


def _init_linear(module: nn.Module) -> None:
    """MAE A.1: Xavier's uniform weights, biases of zero."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
