from ._base import StorableModel as StorableModel
from ._base import TransferModel as TransferModel
from ._make import make_model as make_model
from ._plan import shortlist as shortlist
from ._rows import LearningRows as LearningRows
from .prediction._model import Model as Model
from .prediction._model import load_model as load_model
from .prediction.pyfunc import kernel_frame as kernel_frame
