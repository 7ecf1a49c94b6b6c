from ._predict import predict_seconds as predict_seconds
from ._product import Kernel as Kernel
from ._product import Product as Product
