from ._strategy import CostModelStrategy as CostModelStrategy
