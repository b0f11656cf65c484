"""Feature maps: finite-dimensional approximations of a kernel."""

from manyarms.embeddings.accuracy import kernel_error
from manyarms.embeddings.base import Embedding
from manyarms.embeddings.eigenfunctions import Eigenfunctions, HilbertSpaceFeatures
from manyarms.embeddings.fourier import FourierFeatures, QuadratureFourierFeatures, RandomFourierFeatures
from manyarms.embeddings.nystrom import Nystrom
from manyarms.embeddings.projection import Projection, RandomProjection

__all__ = [
    "Eigenfunctions",
    "Embedding",
    "FourierFeatures",
    "HilbertSpaceFeatures",
    "Nystrom",
    "Projection",
    "QuadratureFourierFeatures",
    "RandomFourierFeatures",
    "RandomProjection",
    "kernel_error",
]
