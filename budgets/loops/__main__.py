"""`python -m budgets.loops`: show where a trace begins to loop and why, or run a file of traces. For people.

    python -m budgets.loops < trace.txt          a plot of the signals, and the finding in words
    python -m budgets.loops --json FILE.jsonl    one JSON object a line; recall and false alarms on stderr

What must not come in: detection, and what a trace is (`budgets.loops.labelled`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from budgets.loops.finding import Channel
from budgets.loops.labelled import BadTrace, Score, read_traces, run
from budgets.loops.plot import LEGEND, draw, tell, watch


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m budgets.loops", description="Find loops in a text from stdin.")
    options.add_argument("--json", type=Path, metavar="FILE", help="run this file of traces (JSON lines) instead")
    options.add_argument(
        "--channel", choices=list(Channel), default=Channel.REASONING, help="answers get twice the rope"
    )
    options.add_argument("--prompt", default="", help="the prompt: whether it asks for repetition is seen in it")
    given = options.parse_args(argv)
    channel = Channel(given.channel)
    if given.json is not None:
        return _run_file(given.json, channel)
    detector, seen = watch(sys.stdin.read(), channel, given.prompt)
    _print(draw(seen, detector.finding))
    _print(f"\n{tell(detector.finding, detector.seen)}\n\n{LEGEND}")
    return 0


def _run_file(file: Path, channel: Channel) -> int:
    score = Score()
    try:
        with file.open(encoding="utf-8") as lines:
            for trace in read_traces(lines):
                outcome = run(trace, channel)
                score.add(outcome)
                _print(json.dumps(outcome.as_json(), ensure_ascii=False))
    except OSError as error:
        return _fail(f"{file}: {error.strerror}")
    except (BadTrace, UnicodeDecodeError) as error:
        return _fail(f"{file}: {error}")
    if any(score.total.values()):
        sys.stderr.write(f"{score}\n")
    return 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def _fail(message: str) -> int:
    sys.stderr.write(message + "\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
