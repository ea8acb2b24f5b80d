"""The embedded engine: a small model in a child process, for trying thinkgate without a GPU.

Other rooms import from here only. No request of a client passes through this room.
"""

from gateway.embedded.engine import EmbeddedEngine
from gateway.embedded.unavailable import EmbeddedUnavailable

__all__ = ["EmbeddedEngine", "EmbeddedUnavailable"]
