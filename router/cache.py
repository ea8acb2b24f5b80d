"""A small LRU that remembers results without remembering what was asked.

Keys are digests under a key drawn when the cache is made, so neither the text nor a digest anyone else could compute
is kept. Safe from several threads: every touch of the table happens under one lock, held for a dictionary operation
and never while a value is computed; two threads that miss on the same key both compute, and the results are equal.
"""

import os
from collections import OrderedDict
from hashlib import blake2b
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LRU(Generic[Value]):
    """At most `size` values, least recently used first out; size 0 remembers nothing."""

    __slots__ = ("_lock", "_salt", "_size", "_table")

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"cache size must be 0 or more, not {size}")
        self._size = size
        self._salt = os.urandom(32)
        self._table: OrderedDict[bytes, Value] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._table)

    def key(self, *texts: str) -> bytes:
        """A 16-byte digest of the texts, each framed by its length."""
        digest = blake2b(digest_size=16, key=self._salt)
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.digest()

    def get(self, key: bytes) -> Value | None:
        with self._lock:
            value = self._table.get(key)
            if value is not None:
                self._table.move_to_end(key)
            return value

    def put(self, key: bytes, value: Value) -> None:
        with self._lock:
            self._table[key] = value
            self._table.move_to_end(key)
            while len(self._table) > self._size:
                self._table.popitem(last=False)
