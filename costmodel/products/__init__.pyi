from ._choose import Choice as Choice
from ._choose import choose as choose
from ._choose import explain as explain
from ._choose import top as top
from ._cublaslt_tiles import describe_algorithm as describe_algorithm
from ._predict import predict_seconds as predict_seconds
from ._product import Kernel as Kernel
from ._product import Product as Product
