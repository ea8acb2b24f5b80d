"""`thinkgate router …`: the router retrained and judged on a log of one's own. Parses, prints, and sets exit codes.

What each command does lives in `router.retrain`; `python -m router` is the same without the service installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

router_app = typer.Typer(help="The router, retrained and judged on a log of your own.", no_args_is_help=True)

LogOption = Annotated[
    Path, typer.Option("--log", help="JSON lines: `messages` or `text`, and `label`, `weak`, `strong` where known.")
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder that takes the new version; nothing is overwritten.")]
HeadOption = Annotated[Path | None, typer.Option("--head", help="A retrained head instead of the shipped one.")]
EncoderOption = Annotated[Path | None, typer.Option("--encoder", help="A sentence-transformers folder of your own.")]


@router_app.command()
def calibrate(log: LogOption, out: OutOption, head: HeadOption = None, encoder: EncoderOption = None) -> None:
    """Fit probability and knob to 100 labelled rows or more; seconds."""
    from router.retrain.commands import calibrate_on  # noqa: PLC0415 - numpy and the encoder only when asked

    _print(lambda: [calibrate_on(log, out, head=head, encoder=encoder)])


@router_app.command()
def refit(log: LogOption, out: OutOption, head: HeadOption = None, encoder: EncoderOption = None) -> None:
    """Fit a new output layer to 500 labelled rows or more; seconds."""
    from router.retrain.commands import refit_on  # noqa: PLC0415

    _print(lambda: [refit_on(log, out, head=head, encoder=encoder)])


@router_app.command()
def finetune(
    log: LogOption,
    out: OutOption,
    work: Annotated[Path, typer.Option("--work", help="Folder for what is made on the way.")],
) -> None:
    """Train the encoder too, on 1000 labelled rows or more; needs the extra `train`, and about ten minutes."""
    from router.retrain.commands import finetune_on  # noqa: PLC0415

    _print(lambda: [finetune_on(log, work, out)])


@router_app.command("eval")
def evaluate(
    log: LogOption,
    head: HeadOption = None,
    folder: Annotated[Path | None, typer.Option("--folder", help="A fine-tuned router instead of the shipped.")] = None,
) -> None:
    """Accuracy, AUROC, calibration error; with the outcomes of two models their routing curves too."""
    from router.retrain.commands import evaluate_on  # noqa: PLC0415

    _print(lambda: evaluate_on(log, head=head, folder=folder))


@router_app.command()
def outcomes(log: LogOption) -> None:
    """P(the strong model wins) from 300 outcomes or more: its curve beside prompt length and chance."""
    from router.retrain.commands import outcomes_on  # noqa: PLC0415

    _print(lambda: outcomes_on(log))


@router_app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="A head.")],
    new: Annotated[Path, typer.Argument(help="Another.")],
    log: LogOption,
) -> None:
    """Prompts whose route differs between two heads, then how many."""
    from router.retrain.commands import differ  # noqa: PLC0415

    _print(lambda: differ(old, new, log))


def _print(work: Callable[[], Iterable[dict[str, Any]]]) -> None:
    """One line of JSON each, as they come; exit code 1 with one line on stderr where it cannot be done."""
    from router import RouterUnavailable  # noqa: PLC0415
    from router.retrain.refit import Refused  # noqa: PLC0415

    try:
        for line in work():
            typer.echo(json.dumps(line, ensure_ascii=False))
    except (Refused, RouterUnavailable, ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
