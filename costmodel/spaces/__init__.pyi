from ._base import SearchSpace as SearchSpace
from ._declared import DeclaredSpace as DeclaredSpace
from ._kernel import KernelSpace as KernelSpace
from ._pool import Pool as Pool
