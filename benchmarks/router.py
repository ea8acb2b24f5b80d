"""What the router is worth and what it costs, with prompt length and TF-IDF beside it.

    python -m benchmarks.router                 # speed alone: needs nothing but the package
    python -m benchmarks.router --data DIR      # quality too, on labelled rows (hard/, ood/, handwritten/, routing/)

CPU is the process's own account, one thread; a share or an area is judged on rows the weights were not fitted on,
except where the line says so. Nothing here trains the shipped weights; the two baselines are fitted on `train/`.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.router_baselines import Tfidf, fit_length
from benchmarks.router_crowd import crowds
from router import Ask, Classifier, Mode, Tier, load
from router.figures import auroc, calibration_error, rank_correlation, routing_curve, verdicts, wasted_at
from router.loading import ASSETS, load_models
from router.retrain.fitting import fit_platt, folds, logistic
from router.retrain.log import LogRow, ask_of, read_log
from router.retrain.outcomes import cross_scored
from router.retrain.refit import calibrate, refit

ROOT = Path(__file__).parents[1]
SHORT = "Which of {} and {} has more divisors, and by how many exactly, please?"
LONG = "The committee met in the afternoon and read the report of the district aloud. " * 110


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    speed()
    load_cost()
    retraining_cost()
    crowds(mix())
    if options.data is not None:
        everyday(options.data / "train")
        quality(options.data)
        routing(options.data / "routing")


def speed() -> None:
    print("\n## Cost, CPU ms, one thread\n")
    asks = [Ask(SHORT.format(number, number + 7)) for number in range(300)]
    longs = [Ask(f"{number}. {LONG}What did item {number} say?") for number in range(60)]
    huge = [Ask("x y " * 25_000 + str(number)) for number in range(20)]
    accurate, fast, balanced = (load(mode=mode, cache_size=0) for mode in (Mode.ACCURATE, Mode.FAST, Mode.BALANCED))
    accurate.decide(Ask("warm up"))
    for name, work, batch in (
        ("encoder tier, 24 tokens", accurate.decide, asks),
        ("encoder tier, 2k tokens", accurate.decide, longs),
        ("encoder tier, 100 000 characters", accurate.decide, huge),
        ("cheap tier, 24 tokens", fast.decide, asks),
        ("cheap tier, 2k tokens", fast.decide, longs),
        ("cascade, the guard's crossed prompts, half and half", balanced.decide, mix()),
    ):
        times = timed(work, batch)
        print(f"{name}: p50 {np.median(times):.2f}  p99 {np.quantile(times, 0.99):.2f}  mean {np.mean(times):.2f}")
    remembered = load()
    remembered.decide(asks[0])
    times = timed(remembered.decide, [asks[0]] * 300)
    print(f"from memory: p50 {np.median(times):.3f}")


def mix() -> list[Ask]:
    """The shipped guard prompts: half need reasoning, half do not, none were trained on."""
    return [row.ask for row in read_log(ASSETS / "guard.jsonl")]


def timed(work: Callable[[Ask], object], asks: Sequence[Ask]) -> list[float]:
    found: list[float] = []
    for ask in asks:
        began = time.process_time()
        work(ask)
        found.append((time.process_time() - began) * 1e3)
    return found


def load_cost() -> None:
    """A fresh process: CPU and wall time of loading, and memory beside that of the libraries under it."""
    code = (
        "import time,json,numpy,onnxruntime,tokenizers,pathlib\n"
        "def rss(): return int(pathlib.Path('/proc/self/statm').read_text().split()[1]) * 4096 / 1e6\n"
        "b=rss();t=time.process_time();w=time.perf_counter()\n"
        "import router;c=router.load();t=time.process_time()-t;w=time.perf_counter()-w\n"
        "c.decide(router.Ask('Prove it for n and then for n+1'))\n"
        "print(json.dumps([t,w,rss()-b]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    seconds, wall, megabytes = json.loads(found.stdout)
    print(
        f"load: {seconds:.2f} s CPU, {wall:.2f} s wall; memory over numpy, onnxruntime and tokenizers: "
        f"{megabytes:.0f} MB; a wheel of the four packages: {wheel_size() / 1e6:.1f} MB"
    )


def wheel_size() -> int:
    """Bytes: a wheel is a zip of the packages, deflated."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for package in ("gateway", "router", "budgets", "parsers"):
            for path in sorted((ROOT / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    wheel.write(path, path.relative_to(ROOT))
    return target.tell()


def retraining_cost() -> None:
    """The guard twice over stands for a log of 640 rows."""
    rows = read_log(ASSETS / "guard.jsonl") * 2
    for name, work in (("calibrate", calibrate), ("refit", refit)):
        models = load_models()
        cold = seconds_of(lambda work=work, models=models: work(models, rows))
        warm = seconds_of(lambda work=work, models=models: work(models, rows))
        print(f"{name}, {len(rows)} rows: {cold:.1f} s CPU, {warm:.1f} s with their encodings in memory")


def seconds_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def everyday(train: Path) -> None:
    """Commands to an assistant and school problems, half and half; such sources were trained on."""
    asks = [row.ask for name in ("clinc150", "gsm8k") for row in read(train / f"{name}.jsonl")[:300]]
    classifier = load(cache_size=0)
    classifier.decide(Ask("warm up"))
    times = timed(classifier.decide, asks)
    share = np.mean([classifier.decide(ask).tier is Tier.CHEAP for ask in asks])
    print(
        f"cascade, everyday commands and school problems, half and half: p50 {np.median(times):.2f}  "
        f"mean {np.mean(times):.2f} ms CPU; the cheap tier decides {share:.0%}"
    )


def quality(root: Path) -> None:
    train = [row for path in sorted((root / "train").glob("*.jsonl")) for row in read(path)]
    tfidf, longest = Tfidf.fit(train), fit_length(train)
    classifier = load(cache_size=0)
    sets = {"hard_open (calibrated on)": read(root / "hard" / "hard_open.jsonl")}
    sets |= {f"ood/{path.stem}": read(path) for path in sorted((root / "ood").glob("*.jsonl"))}
    sets["guard (held-out handwritten)"] = read_log(ASSETS / "guard.jsonl")
    print("\n## Quality: accuracy / AUROC / ECE\n")
    print("| set | n | encoder | balanced | cheap tier | TF-IDF | length |\n|---|---|---|---|---|---|---|")
    kept: dict[str, Any] = {}
    for name, rows in sets.items():
        labels = np.array([row.label for row in rows])
        p = kept[name] = np.array([full(classifier, row.ask) for row in rows])
        cheap = np.array([classifier.cheap_score(row.ask, classifier.work(row.ask)).p_reasoning for row in rows])
        cascade = np.array([classifier.decide(row.ask).p_reasoning for row in rows])
        columns = (p, cascade, cheap, tfidf.score(rows), longest.score(rows))
        print(f"| {name} | {len(rows)} | " + " | ".join(cell(column, labels) for column in columns) + " |")
    means = [
        verdicts(kept[name], np.array([r.label for r in sets[name]]))["accuracy"] for name in sets if "ood/" in name
    ]
    print(f"\nmean accuracy over the {len(means)} ood sources: {np.mean(means):.3f}")
    hard = sets["hard_open (calibrated on)"]
    served = kept["hard_open (calibrated on)"]
    folded = five_folds(served, hard)
    print("hard_open, five folds of calibration:", json.dumps(figures_of(folded, hard)))
    for name, p in (("as served", served), ("five folds", folded)):
        print(f"hard_open by category, {name}:", categories(root / "hard" / "hard_open.jsonl", p))
    for source in ("gsm8k", "cmath_zh"):
        graded(root / "train" / f"{source}.jsonl", classifier)


def full(classifier: Classifier, ask: Ask) -> float:
    return classifier.full_score(ask, classifier.work(ask)).p_reasoning


def cell(p: Any, labels: Any) -> str:
    found = verdicts(p, labels)
    return f"{found['accuracy']:.3f} / {found.get('auroc', float('nan')):.3f} / {found['ece']:.3f}"


def five_folds(p: Any, rows: Sequence[LogRow]) -> Any:
    """p of each fifth, calibrated on the other four."""
    labels = np.array([row.label for row in rows], dtype=np.float64)
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    logits, part, found = np.log(clipped / (1 - clipped)), folds(len(rows)), np.zeros(len(rows))
    for fold in range(5):
        slope, offset = fit_platt(logits[part != fold], labels[part != fold])
        found[part == fold] = logistic(slope * logits[part == fold] + offset)
    return found


def figures_of(p: Any, rows: Sequence[LogRow]) -> dict[str, float]:
    labels = np.array([row.label for row in rows])
    return {
        "accuracy": round(float(((p >= 0.5) == labels).mean()), 3),
        "auroc": round(auroc(p, labels), 3),
        "ece": round(calibration_error(p, labels), 3),
        "wasted_at_5_percent_missed": round(wasted_at(p, labels, 0.05), 3),
    }


def categories(path: Path, p: Any) -> str:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    groups: dict[str, list[bool]] = {}
    for record, value in zip(records, p.tolist(), strict=True):
        groups.setdefault(record["sub"], []).append((value >= 0.5) == (record["label"] == 1))
    return ", ".join(f"{name} {np.mean(right):.2f}" for name, right in sorted(groups.items()))


def graded(path: Path, classifier: Classifier) -> None:
    """Order of difficulty inside one source. A few hundred of these rows were trained on; the card has the rest."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][:600]
    asks = [ask_of(record) for record in records]
    wanted = np.array([float(record["complexity"]) for record in records])
    found = np.array([classifier.full_score(ask, classifier.work(ask)).complexity for ask in asks])
    lengths = np.array([float(len(ask.text)) for ask in asks])
    ours, length = rank_correlation(found, wanted), rank_correlation(lengths, wanted)
    print(f"complexity within {path.stem}: Spearman {ours:.3f} (length {length:.3f}, n {len(asks)})")


def routing(folder: Path, most: int = 2500) -> None:
    """P(strong wins) from own labels, as RouteLLM measures it; length and chance beside."""
    print("\n## Routing between two models: APGR / CPT50 / CPT80\n")
    classifier = load(cache_size=0)
    for path in sorted(folder.glob("*.jsonl")):
        rows = [row for row in read_log(path) if row.weak is not None and row.strong is not None]
        rows = [rows[index] for index in sorted(np.random.default_rng(20).permutation(len(rows))[:most].tolist())]
        weak, strong = (np.array([bool(getattr(row, name)) for row in rows]) for name in ("weak", "strong"))
        working = [classifier.work(row.ask) for row in rows]
        words = np.stack([np.append(w.scaled, np.log1p(len(r.ask.text))) for w, r in zip(working, rows, strict=True)])
        head = classifier.models.head
        inputs = [classifier.inputs(r.ask, w) for r, w in zip(rows, working, strict=True)]
        units = np.stack([head.units(one) for one in inputs])
        scores = {
            "random": np.random.default_rng(1).random(len(rows)),
            "length": np.array([float(len(row.ask.text)) for row in rows]),
            "p(reasoning)": np.array([head.score(one).p_reasoning for one in inputs]),
            "complexity": np.array([head.score(one).complexity for one in inputs]),
            "words, own labels": cross_scored(words, weak, strong),
            "words and encoder, own labels": cross_scored(np.concatenate((words, units), axis=1), weak, strong),
        }
        for name, score in scores.items():
            found = routing_curve(score, weak, strong)
            print(
                f"{path.stem} ({len(rows)}), {name}: {found['apgr']:.3f} / {found['cpt50']:.1f} / {found['cpt80']:.1f}"
            )


def read(path: Path) -> list[LogRow]:
    return [row for row in read_log(path) if row.label is not None]


if __name__ == "__main__":
    main()
