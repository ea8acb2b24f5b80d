"""Hand-offs: how the KV cache of a prompt gets from the worker that prefilled it to the one that decodes.

One file a family of connectors; `pairing` chooses who takes part.
"""

from gateway.pools.handoff.base import Pair, Transfer, TransferFailed, Place, Report, Side
from gateway.pools.handoff.ways import Way, way_of

__all__ = ["Pair", "Transfer", "TransferFailed", "Place", "Report", "Side", "Way", "way_of"]
