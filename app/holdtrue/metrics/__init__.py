"""the Prometheus names and collectors; reads the store"""

from holdtrue.metrics.counters import Counters, ReplicaReading
from holdtrue.metrics.exposition import Exposition
from holdtrue.metrics.names import METRICS, Metric

__all__ = ["METRICS", "Counters", "Exposition", "Metric", "ReplicaReading"]
