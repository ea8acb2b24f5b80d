"""What can be done with a log of one's own, each as one call: for `thinkgate router …` and `python -m router …` alike.

Takes paths, gives values that become lines of JSON. No parsing of arguments and no printing; the fitting itself stands
in `refit` and `outcomes`.
"""

import hashlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from router.classifier import Models
from router.head import Head
from router.loading import RouterUnavailable, load_models, read_head
from router.retrain.log import LogRow, read_log
from router.retrain.outcomes import LEAST, curves
from router.retrain.refit import Refused, calibrate, check_guard, evaluate, probabilities, refit, write_version

LEAST_FINETUNE: Final = 1_000
"""Labelled rows below which a refit does as well."""
_SHOWN: Final = 100
"""Characters of a prompt in a list of differences."""

Line = dict[str, Any]


def calibrate_on(log: Path, out: Path, *, head: Path | None = None, encoder: Path | None = None) -> Line:
    """A head with new calibration and knob tables. Raises Refused, RouterUnavailable, ValueError, OSError."""
    began = time.monotonic()
    rows = read_log(log)
    models = load_models(head=head, encoder=encoder)
    found = calibrate(models, rows)
    guard = check_guard(models, found)
    return _write(found, out, {"by": "calibrate", "rows": len(rows), "guard": _guarded(guard)}, began)


def refit_on(log: Path, out: Path, *, head: Path | None = None, encoder: Path | None = None) -> Line:
    """A head with a new output layer; with `encoder`, a first head for an encoder of one's own.

    Raises Refused, RouterUnavailable, ValueError, OSError.
    """
    began = time.monotonic()
    rows = read_log(log)
    models = load_models(head=head)
    notes: Line = {"by": "refit", "rows": len(rows)}
    if encoder is not None:
        own = load_models(encoder=encoder, any_head=True)
        # The shipped head knows nothing of this encoder, so that there is nothing to be worse than.
        return _write(refit(replace(models, encoder=own.encoder), rows), out, notes, began)
    found = refit(models, rows)
    return _write(found, out, {**notes, "guard": _guarded(check_guard(models, found))}, began)


def finetune_on(log: Path, work: Path, out: Path) -> Line:
    """A whole router (encoder, head, cheap tier), trained further on the log, in a folder of `out` named by its digest.

    Raises RouterUnavailable without the extra `train`, Refused when the log is too small or the guard set falls.
    """
    began = time.monotonic()
    rows = [row for row in read_log(log) if row.label is not None]
    if len(rows) < LEAST_FINETUNE:
        raise Refused(f"{LEAST_FINETUNE} labelled rows are needed, the log has {len(rows)}")
    try:
        further: Any = import_module("router.training.further")
    except ImportError as error:
        raise RouterUnavailable("fine-tuning needs torch: pip install 'thinkgate[train]'") from error
    candidate = work / "candidate"
    further.run(rows, candidate, work)
    return keep_candidate(candidate, out, {"by": "finetune", "rows": len(rows)}, began)


def keep_candidate(candidate: Path, out: Path, notes: Line, began: float) -> Line:
    """Hold a newly trained router against the shipped one, then copy it to a folder named by its digest."""
    old, new = load_models(), load_models(folder=candidate)
    guard = check_guard(old, new)
    digest = hashlib.sha256()
    for path in sorted(candidate.iterdir()):
        digest.update(path.read_bytes())
    folder = out / f"router-{digest.hexdigest()[:12]}"
    if not folder.exists():
        shutil.copytree(candidate, folder)
    return {"folder": str(folder), **notes, "guard": _guarded(guard), "seconds": round(time.monotonic() - began, 1)}


def evaluate_on(log: Path, *, head: Path | None = None, folder: Path | None = None) -> Iterator[Line]:
    """Figures on the labelled rows; then, if enough rows have outcomes, the routing curves."""
    rows = read_log(log)
    models = load_models(head=head, folder=folder)
    graded = sum(row.weak is not None and row.strong is not None for row in rows)
    if graded < LEAST or any(row.label is not None for row in rows):
        yield evaluate(models, rows)
    if graded >= LEAST:
        yield from _curves(models, rows)


def outcomes_on(log: Path) -> Iterator[Line]:
    """P(strong wins), fitted on the rows with outcomes, as routing curves beside prompt length and chance."""
    yield from _curves(load_models(), read_log(log))


def differ(old: Path, new: Path, log: Path) -> Iterator[Line]:
    """Prompts of the log whose route differs between two heads, then their number."""
    rows = read_log(log)
    models = load_models()
    before, after = (probabilities(replace(models, head=read_head(path)), rows).tolist() for path in (old, new))
    flipped = 0
    for row, was, now in zip(rows, before, after, strict=True):
        if (was >= 0.5) != (now >= 0.5):
            flipped += 1
            yield {"old": round(was, 3), "new": round(now, 3), "text": row.ask.text[:_SHOWN]}
    yield {"rows": len(rows), "flipped": flipped}


def _curves(models: Models, rows: list[LogRow]) -> Iterator[Line]:
    for name, figures in curves(models, rows).items():
        yield {"router": name, **figures}


def _write(head: Head, out: Path, notes: Line, began: float) -> Line:
    path = write_version(head, out, notes)
    return {"head": str(path), **notes, "seconds": round(time.monotonic() - began, 1)}


def _guarded(guard: tuple[float, float]) -> Line:
    return dict(zip(("before", "after"), guard, strict=True))
