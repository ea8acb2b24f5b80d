"""The one error of this room, apart so that every file here can raise it. Nothing else may come in."""

from __future__ import annotations


class EmbeddedUnavailable(RuntimeError):
    """The embedded engine cannot run; the message says why and what to do about it."""
