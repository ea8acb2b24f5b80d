"""The table of formats in the documentation, written from the records: `python -m parsers.formatdocs docs/formats.md`.

What must not come in: anything about a format that is not in its record.
"""

import sys
from pathlib import Path
from typing import Final

from parsers.format import Format
from parsers.names import FORMATS

BEGIN: Final = "<!-- table of formats: written by python -m parsers.formatdocs -->\n"
END: Final = "<!-- end of the table -->\n"
HEAD: Final = "| id | models | aliases | markers | starts | switch (default) | notes |\n|---|---|---|---|---|---|---|\n"


def table() -> str:
    return HEAD + "".join(map(_row, FORMATS))


def written_anew(page: str) -> str:
    """The page with its table as the records are now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}{table()}{end}{after}"


def _row(record: Format) -> str:
    cells = (
        f"`{record.id}`",
        record.models,
        ", ".join(record.aliases) or "–",
        f"{_code(record.open[0])} … {_code(record.close[0])}" if record.open else "–",
        _start(record),
        _switch(record),
        "; ".join(_notes(record)) or "–",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _start(record: Format) -> str:
    if record.framing is not None:
        return "in a header"
    return {"open": "inside", "closed": "outside"}[record.start]


def _switch(record: Format) -> str:
    if not record.switch:
        return "–"
    names = ", ".join(f"`{name}`" for name in record.switch)
    values = "" if record.switch_on is True else f" = {record.switch_on} / {record.switch_off}"
    return f"{names}{values} ({'on' if record.default_on else 'off'})"


def _notes(record: Format) -> list[str]:
    notes: list[str] = []
    if record.interrupts:
        where = " (at the start of a line)" if record.interrupt_at == "line_start" else ""
        notes.append(f"a call ends a thought: {_code(record.interrupts[0])}{where}")
    if record.spans:
        notes.append(f"calls inside thoughts: {_code(record.spans[0][0])}")
    if wrappers := (*record.content_open, *record.drop):
        notes.append("removed from answers: " + " ".join(map(_code, wrappers)))
    if record.reopen or record.framing is not None:
        notes.append("may think again")
    if record.late_close == "drop":
        notes.append("late close markers are dropped")
    if record.on_no_close == "content":
        notes.append("an unended thought is also the answer")
    if record.needs_special_tokens:
        notes.append("needs `skip_special_tokens: false`")
    return notes


def _code(text: str) -> str:
    return f"`{text.replace(chr(10), '⏎')}`"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written_anew(file.read_text(encoding="utf-8")), encoding="utf-8")
