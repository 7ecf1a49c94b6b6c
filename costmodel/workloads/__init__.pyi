from ._catalogue import catalogue as catalogue
from ._catalogue import extract_workloads as extract_workloads
from ._programs import recognise_program as recognise_program
from .networks._layers import export_network as export_network
from .networks._transformers import Bert as Bert
