"""Workers and pools: who may be chosen, and who is."""

from gateway.pools.pool import Pool
from gateway.pools.registry import Registry
from gateway.pools.states import State
from gateway.pools.worker import Worker

__all__ = ["Pool", "Registry", "State", "Worker"]
