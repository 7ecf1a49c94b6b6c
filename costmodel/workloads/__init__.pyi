from ._catalogue import catalogue as catalogue
from ._catalogue import extract_workloads as extract_workloads
from ._network_layers import export_network as export_network
from ._network_models import Bert as Bert
from ._programs import recognise_program as recognise_program
