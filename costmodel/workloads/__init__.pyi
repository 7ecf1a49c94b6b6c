from ._catalogue import catalogue as catalogue
from ._extract import extract_workloads as extract_workloads
from ._programs import recognise_program as recognise_program
from .networks._bert import Bert as Bert
from .networks._export import export_network as export_network
