"""Hand-offs: how the KV cache of a prompt gets from the worker that prefilled it to the one that decodes.

One file a family of connectors; `pairing` chooses who takes part.
"""

from gateway.pools.handoff.base import Pair, Place, Report, TransferFailed
from gateway.pools.handoff.encode import Encoding
from gateway.pools.handoff.errands import Errands
from gateway.pools.handoff.handoff import HandOff, Witness
from gateway.pools.handoff.pairing import Pairing, Wish
from gateway.pools.handoff.ways import Way, way_of

__all__ = [
    "Encoding",
    "Errands",
    "HandOff",
    "Pair",
    "Pairing",
    "Place",
    "Report",
    "TransferFailed",
    "Way",
    "Wish",
    "Witness",
    "way_of",
]
