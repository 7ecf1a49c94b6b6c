from ._base import Engine as Engine
from ._base import EngineLostError as EngineLostError
from ._dask import DaskEngine as DaskEngine
from ._local import LocalEngine as LocalEngine
from ._open import open_engine as open_engine
from ._ray import RayEngine as RayEngine
