"""Search spaces of configs, with one base class."""

from costmodel.spaces._base import DrawnConfigs, Param, SearchSpace
from costmodel.spaces._declared import DeclaredSpace
from costmodel.spaces._kernel import KernelSpace
from costmodel.spaces._pool import Pool

__all__ = ["DeclaredSpace", "DrawnConfigs", "KernelSpace", "Param", "Pool", "SearchSpace"]
