"""What the convolution should give, by Fourier transforms in double precision."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

FILTER_SHAPE = (15, 15)


def reference(
    inputs: Mapping[str, NDArray[np.float32]], dims: Mapping[str, int]
) -> dict[str, NDArray[np.float64]]:
    """The output ``(h, w)`` of the input image ``(h + 14, w + 14)`` and the filter."""
    height, width = FILTER_SHAPE
    image = inputs["input_image"].reshape(dims["h"] + height - 1, dims["w"] + width - 1).astype(np.float64)
    flipped = inputs["d_filter"].reshape(FILTER_SHAPE)[::-1, ::-1].astype(np.float64)
    return {"output_image": fftconvolve(image, flipped, mode="valid")}
