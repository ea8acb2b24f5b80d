"""A name for a unit that says nothing of its text: for counting which loops come again."""

from __future__ import annotations

from hashlib import blake2s


def fingerprint(unit: str) -> str:
    """12 hex digits, the same wherever in a cycle the unit was taken to begin. Anagrams share one."""
    counted = "".join(f"{character}{unit.count(character)} " for character in sorted(set(unit)))
    return blake2s(counted.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
