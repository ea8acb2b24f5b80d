"""The library's own rule for cutting a text into pieces, for files that have only text: about what a tokenizer does.

For labelled files and benchmarks. The detector never sees it: it gives the same verdict under any chunking.
"""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,2}"
    r"| ?[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,8}| ?\d{1,3}| ?[^\w\s]{1,4}|\n{1,4}|[^\S\n]{1,8}|."
)


def split_pieces(text: str) -> list[str]:
    """Words of up to 8 letters, numbers of up to 3 digits, up to 4 signs, each with the space before it; CJK by twos.

    Joined, they are the text.
    """
    return _PIECE.findall(text)
