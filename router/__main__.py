"""`python -m router`: verdicts on prompts from standard input, and retraining on one's own log. Offline.

`python -m router --json < prompts.jsonl` prints one Decision a line; each input line is a JSON object with `messages`
or `text`, or plain text. The other commands are for operators: calibrate, refit, finetune, diff, eval, outcomes,
explain.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from router.ask import Ask
from router.classifier import Classifier
from router.decision import Decision, Mode, Route
from router.explaining import Explainer
from router.loading import RouterUnavailable, load, load_exemplars, load_models, read_head
from router.retrain.log import LogRow, ask_of, read_log
from router.retrain.outcomes import curves
from router.retrain.refit import Refused, calibrate, check_guard, evaluate, probabilities, refit, write_version

_SHOWN: Final = 100


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 done, 1 refused or unavailable, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except (Refused, RouterUnavailable, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m router", description=__doc__)
    parser.add_argument("--json", action="store_true", help="read prompts from standard input, one a line")
    parser.add_argument("--mode", type=Mode, default=Mode.BALANCED, choices=list(Mode))
    parser.add_argument("--head", type=Path, help="a retrained head instead of the shipped one")
    parser.set_defaults(run=_decide, encoder=None)
    commands = parser.add_subparsers()
    for name, run, about in (
        ("calibrate", _calibrate, "fit calibration and knob on a labelled log (100 rows or more)"),
        ("refit", _refit, "fit a new output layer on a labelled log (500 rows or more)"),
    ):
        command = commands.add_parser(name, help=about)
        command.add_argument("--log", type=Path, required=True, help="labelled requests, JSON lines")
        command.add_argument("--out", type=Path, required=True, help="folder that takes the new head")
        command.add_argument("--head", type=Path, help="the head to start from")
        command.add_argument("--encoder", type=Path, help="a sentence-transformers folder of your own")
        command.set_defaults(run=run)
    command = commands.add_parser("eval", help="figures of a head on a labelled log")
    command.add_argument("--log", type=Path, required=True)
    command.add_argument("--head", type=Path)
    command.set_defaults(run=_eval, encoder=None)
    command = commands.add_parser("outcomes", help="routing curves from the outcomes of two models")
    command.add_argument("--log", type=Path, required=True)
    command.set_defaults(run=_outcomes)
    command = commands.add_parser("diff", help="prompts whose route differs between two heads")
    command.add_argument("old", type=Path)
    command.add_argument("new", type=Path)
    command.add_argument("--log", type=Path, required=True)
    command.set_defaults(run=_diff)
    command = commands.add_parser("finetune", help="train the encoder too, with the log beside DATA; needs torch")
    command.add_argument("--log", type=Path, required=True)
    command.add_argument("--data", type=Path, required=True)
    command.add_argument("--work", type=Path, required=True, help="folder for checkpoints")
    command.add_argument("--out", type=Path, required=True)
    command.set_defaults(run=_finetune)
    command = commands.add_parser("explain", help="everything that went into one verdict")
    command.add_argument("prompt")
    command.set_defaults(run=_explain, head=None)
    return parser


def as_json(decision: Decision) -> dict[str, Any]:
    """A Decision for a line of output; `route` is reasoning or simple."""
    return {
        "route": "reasoning" if decision.route is Route.REASONING else "simple",
        "p_reasoning": round(decision.p_reasoning, 5),
        "complexity": round(decision.complexity, 4),
        "confidence": round(decision.confidence, 4),
        "tier": decision.tier.value,
        "reasons": list(decision.reasons),
    }


def read_prompt(line: str) -> Ask:
    """A JSON object's ask; any other line is taken as the prompt itself."""
    try:
        fields: object = json.loads(line)
    except (ValueError, RecursionError):
        return Ask(line.strip())
    if isinstance(fields, dict):
        return ask_of(cast("dict[str, Any]", fields))
    return Ask(fields if isinstance(fields, str) else line.strip())


def _decide(options: argparse.Namespace) -> None:
    classifier = load(mode=options.mode, head=options.head)
    for line in sys.stdin.buffer:
        decision = classifier.decide(read_prompt(line.decode("utf-8", "replace")))
        if options.json:
            sys.stdout.write(json.dumps(as_json(decision)) + "\n")
        else:
            sys.stdout.write(f"{decision.route} {decision.p_reasoning:.2f} {decision.reasons[0]}\n")
        sys.stdout.flush()


def _calibrate(options: argparse.Namespace) -> None:
    rows = read_log(options.log)
    models = load_models(head=options.head, encoder=options.encoder)
    _write(options, calibrate(models, rows), {"by": "calibrate", "rows": len(rows)})


def _refit(options: argparse.Namespace) -> None:
    rows = read_log(options.log)
    models = load_models(head=options.head)
    if options.encoder is not None:
        models = replace(models, encoder=load_models(encoder=options.encoder, any_head=True).encoder)
    head = refit(models, rows)
    notes: dict[str, Any] = {"by": "refit", "rows": len(rows)}
    if options.encoder is None:
        notes["guard"] = dict(zip(("before", "after"), check_guard(models, head), strict=True))
    _write(options, head, notes)


def _write(options: argparse.Namespace, head: Any, notes: dict[str, Any]) -> None:
    path = write_version(head, options.out, notes)
    sys.stdout.write(json.dumps({"head": str(path), **notes}) + "\n")


def _eval(options: argparse.Namespace) -> None:
    figures = evaluate(load_models(head=options.head), read_log(options.log))
    sys.stdout.write(json.dumps(figures) + "\n")


def _outcomes(options: argparse.Namespace) -> None:
    for name, figures in curves(load_models(), read_log(options.log)).items():
        sys.stdout.write(json.dumps({"router": name, **figures}) + "\n")


def _diff(options: argparse.Namespace) -> None:
    rows: list[LogRow] = read_log(options.log)
    models = load_models()
    old, new = (probabilities(replace(models, head=read_head(path)), rows) for path in (options.old, options.new))
    flipped = 0
    for row, before, after in zip(rows, old.tolist(), new.tolist(), strict=True):
        if (before >= 0.5) != (after >= 0.5):
            flipped += 1
            line = {"old": round(before, 3), "new": round(after, 3), "text": row.ask.text[:_SHOWN]}
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.write(json.dumps({"rows": len(rows), "flipped": flipped}) + "\n")


def _finetune(options: argparse.Namespace) -> None:
    try:
        from router.training.__main__ import run  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise RouterUnavailable("fine-tuning needs torch: pip install 'thinkgate[train]'") from error
    cast("Any", run)(options.data, options.out, options.work, log=options.log)


def _explain(options: argparse.Namespace) -> None:
    classifier: Classifier = load()
    explanation = Explainer(classifier, load_exemplars()).explain(Ask(options.prompt), sentences=True)
    sys.stdout.write(json.dumps(explanation.as_json(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
