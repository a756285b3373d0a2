"""Arrays in a page: filtered, deflated, base64; `web/data.js` turns them back."""

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Blobs", "quantise"]

FAILED = 65535
"""Code of an infinite loss in a quantised row."""


@dataclass
class Blobs:
    """The binary part of a page; equal arrays are stored once.

    Args:
        texts: deflated arrays as base64, in the order of their numbers.
    """

    texts: list[str] = field(default_factory=list)
    _known: dict[bytes, int] = field(default_factory=dict)

    def add(self, array: NDArray[Any], *, width: int = 0) -> dict[str, Any]:
        """Store an array and return what a reader needs to know about it.

        Args:
            array: numbers; integers of up to 16 bits may be filtered.
            width: length of a line of cells that are neighbours in a picture. With
                it each cell is stored as its difference to what its left, upper and
                upper left neighbours predict: smooth fields become runs of zeros.

        Returns:
            `blob`, `type`, `shape`, and `width` where the array was filtered.
        """
        array = np.ascontiguousarray(array)
        about: dict[str, Any] = {
            "type": array.dtype.newbyteorder("<").str.lstrip("<|"),
            "shape": list(array.shape),
        }
        if width:
            about["width"] = width
            raw = _predicted(array, width).tobytes()
        else:
            raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        packed = zlib.compress(raw, 6)
        if packed not in self._known:
            self._known[packed] = len(self.texts)
            self.texts.append(base64.b64encode(packed).decode())
        return {"blob": self._known[packed], **about}


def _predicted(array: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Zigzag of the difference to the prediction, low bytes first, then high ones."""
    cells = array.reshape(len(array), -1, width).astype(np.int32)
    across = cells.copy()
    across[:, :, 1:] -= cells[:, :, :-1]
    rest = across.copy()
    rest[:, 1:] -= across[:, :-1]
    # Modulo the range of the type: signed, so that small differences are small.
    bits = 8 * array.dtype.itemsize
    half = 1 << (bits - 1)
    rest = ((rest + half) & ((1 << bits) - 1)) - half
    zigzag = (rest << 1) ^ (rest >> 31)
    planes = [zigzag & 255] if bits == 8 else [zigzag & 255, zigzag >> 8]
    return np.stack(planes).astype(np.uint8)


def quantise(
    losses: NDArray[np.float64], scale: float
) -> tuple[NDArray[np.uint16], dict[str, float]]:
    """Losses as 16 bits, for colours and approximate labels only.

    Even steps in asinh(loss / scale): a relative error of some 1e-4 for losses far
    above `scale`, an absolute one below.

    Args:
        losses: any numbers, also infinite.
        scale: about the smallest loss that matters, `> 0`.

    Returns:
        Codes, `FAILED` for an infinite loss, and `low`, `step`, `scale` with which
        `loss = scale * sinh(low + step * code)`.
    """
    bent = np.arcsinh(losses / scale)
    finite = np.isfinite(bent)
    low = float(bent[finite].min()) if finite.any() else 0.0
    high = float(bent[finite].max()) if finite.any() else 1.0
    step = (high - low) / (FAILED - 1) or 1.0
    codes = np.full(losses.shape, FAILED, np.uint16)
    codes[finite] = np.round((bent[finite] - low) / step).astype(np.uint16)
    return codes, {"low": low, "step": step, "scale": scale}
