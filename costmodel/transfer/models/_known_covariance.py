"""What normally distributed values that are known say of others: Gaussian process regression, by Cholesky.

Notations:
    m: known values, n: asked ones; similar: ``(n, m)`` covariance between asked and known values.

Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1.
"""

from functools import cached_property

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError


class KnownCovariance:
    """Covariance of known values, factored to condition others on them.

    Args:
        covariance: ``(m, m)``, with what is each value's own on the diagonal, such as noise.

    Raises:
        CostModelError: It is not positive definite, as that of values that are alike and have no noise.
    """

    def __init__(self, covariance: FloatArray) -> None:
        from scipy import linalg  # takes a while to import, and all that searches imports this

        try:
            self._factor: tuple[FloatArray, bool] = linalg.cho_factor(covariance)
        except linalg.LinAlgError:
            raise CostModelError(
                "The noise of a model must tell measurements of like candidates apart, but it is too small. "
                "Train the model again, with more noise."
            ) from None

    def solve(self, values: FloatArray) -> FloatArray:
        """Of ``(m,)`` or ``(m, n)`` values, the inverse of the covariance times these."""
        from scipy import linalg

        return np.asarray(linalg.cho_solve(self._factor, values))

    @cached_property
    def by_one(self) -> FloatArray:
        """``(m,)`` the inverse times ones: the weight of each value in the level that they share."""
        return self.solve(np.ones(len(self._factor[0])))

    def level(self, values: FloatArray) -> float:
        """The level most likely for ``(m,)`` values that share one, of which nothing else is known."""
        return float(self.by_one @ values) / float(self.by_one.sum())

    def misfit(self, values: FloatArray) -> float:
        """Squared length of ``(m,)`` values in units of the covariance; m is to be expected."""
        return float(values @ self.solve(values))

    def explained_variance(self, similar: FloatArray) -> FloatArray:
        """``(n,)`` by how much the variance of asked values falls."""
        return np.asarray(np.einsum("nm,mn->n", similar, self.solve(similar.T)))

    def explained_covariance(self, similar: FloatArray) -> FloatArray:
        """``(n, n)`` by how much the covariance of asked values falls."""
        return np.asarray(similar @ self.solve(similar.T))

    @property
    def log_determinant(self) -> float:
        """Natural log of the determinant of the covariance."""
        return 2.0 * float(np.log(np.diag(self._factor[0])).sum())
