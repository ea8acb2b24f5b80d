"""Runs of one character, and runs of blanks, at the end of a text. Counting only: what is too long is not said here."""

from __future__ import annotations


class FloodCounter:
    """`run`: how often the last character stands there in a row. `blanks`: how many blanks of any sort stand there,
    `line_ends` of them line ends."""

    __slots__ = ("blanks", "character", "line_ends", "run")

    def __init__(self) -> None:
        self.character: str = ""
        self.run = 0
        self.blanks = 0
        self.line_ends = 0

    def add(self, block: str) -> None:
        """Take in the next block, which is not empty."""
        last = block[-1]
        tail = len(block) - len(block.rstrip(last))
        self.run = self.run + tail if tail == len(block) and last == self.character else tail
        self.character = last
        if not last.isspace():
            self.blanks = self.line_ends = 0
            return
        blanks = len(block) - len(block.rstrip())
        if blanks < len(block):
            self.blanks = self.line_ends = 0
        self.blanks += blanks
        self.line_ends += block.count("\n", len(block) - blanks)
