"""The figures of the model card, as served: int8 encoder, no rules, no policy, threshold one half."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.classifier import Classifier, Models
from router.figures import auroc, calibration_error, wasted_at
from router.retrain.fitting import fit_platt, folds, logistic
from router.training import fit
from router.training.data import Corpus, Row, is_grade_held
from router.training.finetune import Trainer

Floats = NDArray[np.float64]


def judge(models: Models, corpus: Corpus, trainer: Trainer) -> dict[str, Any]:
    sets = {
        "handwritten_held": corpus.held,
        "crossed_held_templates": corpus.held_crossed,
        "groups_held": corpus.held_pairs,
        "hard_open": corpus.hard,
        "ood": corpus.ood,
    }
    found: dict[str, Any] = {}
    scores: dict[str, Floats] = {}
    for name, rows in sets.items():
        p, complexity, cheap = score(models, rows)
        scores[name] = p
        found[name] = {
            "encoder": fit.figures(p, rows),
            "cheap": fit.figures(cheap, rows),
            "by_language": fit.grouped(p, rows, "lang"),
            "by_source": fit.grouped(p, rows, "source"),
            "english": fit.figures(*_part(p, rows, english=True)),
            "complexity": fit.within_source(complexity, rows),
        }
        if name != "ood":
            found[name]["other_languages"] = fit.figures(*_part(p, rows, english=False))
            found[name]["parity"] = parity(models, rows, trainer)
    found["hard_open"]["by_category"] = fit.grouped(scores["hard_open"], corpus.hard, "sub")
    found["hard_open"]["five_folds"] = five_folds(scores["hard_open"], corpus.hard)
    found["complexity"] = graded(models, corpus)
    return found


def score(models: Models, rows: Sequence[Row]) -> tuple[Floats, Floats, Floats]:
    """p, complexity, and the cheap tier's p."""
    classifier = Classifier(models, cache_size=0)
    columns: list[tuple[float, float, float]] = []
    for row in rows:
        working = classifier.work(row.ask)
        full = classifier.full_score(row.ask, working)
        columns.append((full.p_reasoning, full.complexity, classifier.cheap_score(row.ask, working).p_reasoning))
    p, complexity, cheap = np.array(columns).T
    return p, complexity, cheap


def five_folds(p: Floats, rows: Sequence[Row]) -> dict[str, float]:
    """hard_open when each fifth is calibrated on the other four."""
    logits = np.log(np.clip(p, 1e-6, 1 - 1e-6) / (1 - np.clip(p, 1e-6, 1 - 1e-6)))
    labels = fit.labels_of(rows)
    part = folds(len(rows))
    calibrated = np.zeros(len(rows))
    for fold in range(5):
        left_out = part == fold
        slope, offset = fit_platt(logits[~left_out], labels[~left_out])
        calibrated[left_out] = logistic(slope * logits[left_out] + offset)
    whole = labels.astype(np.int64)
    return {
        "accuracy": round(float(((calibrated >= 0.5) == whole).mean()), 3),
        "auroc": round(auroc(calibrated, whole), 3),
        "ece": round(calibration_error(calibrated, whole), 3),
        "wasted_at_5_percent_missed": round(wasted_at(calibrated, whole, 0.05), 3),
    }


def graded(models: Models, corpus: Corpus) -> dict[str, float]:
    """Spearman of the complexity with each graded source's own grade, on rows no epoch was fitted on."""
    seen = {row.ask.text for epoch in corpus.epochs() for row in corpus.epoch(epoch)}
    found: dict[str, float] = {}
    for source in ("gsm8k", "cmath_zh", "reasoning_gym", "college_math", "olympiadbench"):
        graded_rows = [row for row in corpus.plain if row.source == source and is_grade_held(row)]
        rows = [row for row in graded_rows if row.ask.text not in seen][:500]
        if len(rows) > 50 and len({row.complexity for row in rows}) > 1:
            found[f"{source} ({len(rows)})"] = fit.within_source(score(models, rows)[1], rows)
    return found


def parity(models: Models, rows: Sequence[Row], trainer: Trainer) -> dict[str, float]:
    """The served int8 model against the float32 one it was made from: share of equal verdicts, and of p."""
    chosen = rows[:400]
    logits = trainer.logits(chosen)[:, 0].astype(np.float64)
    torch_p = logistic(float(models.head.platt[0]) * logits + float(models.head.platt[1]))
    onnx_p = score(models, chosen)[0]
    return {
        "same_route": round(float(((torch_p >= 0.5) == (onnx_p >= 0.5)).mean()), 4),
        "mean_difference_of_p": round(float(np.abs(torch_p - onnx_p).mean()), 4),
    }


def _part(p: Floats, rows: Sequence[Row], *, english: bool) -> tuple[Floats, list[Row]]:
    index = [i for i, row in enumerate(rows) if (row.lang == "en") is english]
    return p[index], [rows[i] for i in index]
