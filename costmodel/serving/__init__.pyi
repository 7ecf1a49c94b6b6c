from ._check import Doubt as Doubt
from ._check import check_tables as check_tables
from ._tables import ServingTables as ServingTables
from ._tables import load_serving_tables as load_serving_tables
from ._tables import serve_tables as serve_tables
