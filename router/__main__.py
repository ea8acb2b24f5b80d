"""`python -m router`: verdicts on prompts from standard input, and retraining on one's own log. Offline.

`python -m router --json < prompts.jsonl` prints one line for each line it reads, in order: the Decision, whatever the
line is. A JSON object is read by its `messages` or `text` (and `tools`, `history`); what cannot be read in it counts as
absent. Any other line, broken JSON and binary included, is taken as the prompt itself; an empty line is an empty turn.
A line whose verdict fails gets `{"error": …}` instead. Exit code 0, or 1 when a line failed. The other commands are for
operators: calibrate, refit, finetune, diff, eval, outcomes, explain.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, cast

from router.ask import Ask
from router.classifier import Classifier
from router.decision import Decision, Mode, Route
from router.explaining import Explainer
from router.loading import RouterUnavailable, load, load_exemplars
from router.retrain.commands import calibrate_on, differ, evaluate_on, finetune_on, outcomes_on, refit_on
from router.retrain.log import ask_of
from router.retrain.refit import Refused


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
    command = commands.add_parser("finetune", help="train the encoder too, on 1000 labelled rows or more; needs torch")
    command.add_argument("--log", type=Path, required=True)
    command.add_argument("--work", type=Path, required=True, help="folder for what is made on the way")
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


def _decide(options: argparse.Namespace) -> int:
    classifier = load(mode=options.mode, head=options.head)
    failed = 0
    for line in sys.stdin.buffer:
        try:
            decision = classifier.decide(read_prompt(line.decode("utf-8", "replace")))
        except Exception as error:  # one line's trouble must not take the verdicts of those after it
            failed = 1
            sys.stdout.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}) + "\n")
        else:
            sys.stdout.write(_line(decision, as_object=options.json) + "\n")
        sys.stdout.flush()
    return failed


def _line(decision: Decision, *, as_object: bool) -> str:
    if as_object:
        return json.dumps(as_json(decision))
    return f"{decision.route} {decision.p_reasoning:.2f} {decision.reasons[0]}"


def _calibrate(options: argparse.Namespace) -> None:
    _say(calibrate_on(options.log, options.out, head=options.head, encoder=options.encoder))


def _refit(options: argparse.Namespace) -> None:
    _say(refit_on(options.log, options.out, head=options.head, encoder=options.encoder))


def _eval(options: argparse.Namespace) -> None:
    _say(*evaluate_on(options.log, head=options.head))


def _outcomes(options: argparse.Namespace) -> None:
    _say(*outcomes_on(options.log))


def _diff(options: argparse.Namespace) -> None:
    _say(*differ(options.old, options.new, options.log))


def _finetune(options: argparse.Namespace) -> None:
    _say(finetune_on(options.log, options.work, options.out))


def _say(*lines: dict[str, Any]) -> None:
    for line in lines:
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")


def _explain(options: argparse.Namespace) -> None:
    classifier: Classifier = load()
    explanation = Explainer(classifier, load_exemplars()).explain(Ask(options.prompt), sentences=True)
    sys.stdout.write(json.dumps(explanation.as_json(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
