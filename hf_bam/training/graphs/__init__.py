"""Node classification on citation graphs, plain and with Bayesian attention: Table 1 of Fan et al. (2020).

The whole graph is one batch, so this has a loop of its own. torch_geometric is imported when a run starts.
"""

from .run import run, run_all
from .settings import DATASETS, VARIANTS, GraphJob

__all__ = ["DATASETS", "VARIANTS", "GraphJob", "run", "run_all"]
