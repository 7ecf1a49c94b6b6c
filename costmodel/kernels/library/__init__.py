"""What PyTorch runs of an operator, as kernels beside others. Importing this loads no PyTorch."""

from costmodel.kernels.library._note import load_call
from costmodel.kernels.library._source import LibrarySource
from costmodel.kernels.library._space import LibrarySpace

__all__ = ["LibrarySource", "LibrarySpace", "load_call"]
