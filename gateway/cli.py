"""thinkgate's command line: serve, check, explain, router, keys, formats, config. Parses, prints, and sets exit codes.

Exit codes: 0 done, 1 a check failed or the service could not start, 2 wrong usage. What a command does lives in the
room it belongs to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gateway import __version__
from gateway.clirouter import router_app
from gateway.config import Config, LogFormat
from gateway.configfile import ConfigError, json_schema, redacted
from gateway.configsource import Source
from gateway.edge.keys import hash_key, new_key
from parsers import FORMATS

app = typer.Typer(
    name="thinkgate",
    help="An OpenAI-compatible gateway for reasoning models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
keys_app = typer.Typer(help="Client keys.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration: its schema, and what a file amounts to.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")
app.add_typer(router_app, name="router")
app.add_typer(config_app, name="config")

DEFAULT_FILE = Path("thinkgate.yaml")
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file. Unset: thinkgate.yaml here, else the embedded engine."),
]


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="Address to bind, instead of server.host.")] = None,
    port: Annotated[int | None, typer.Option(help="Port, instead of server.port; 0 takes a free one.")] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="Instead of logs.format.")] = None,
) -> None:
    """Run the gateway until SIGTERM or Ctrl-C; running streams are let finish. SIGHUP reloads the file."""
    told = {"server": {"host": host, "port": port}, "logs": {"format": log_format}}
    overrides = {
        section: {name: value for name, value in keys.items() if value is not None} for section, keys in told.items()
    }
    source = Source(_found(config), {section: keys for section, keys in overrides.items() if keys})
    settings = _read(source)
    from gateway.server import StartFailed, run  # noqa: PLC0415 - only those who serve wait for it to load

    try:
        run(settings, source)
    except StartFailed as error:
        _die(str(error))


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The configuration file.")] = DEFAULT_FILE) -> None:
    """Validate a configuration file: every problem with its line, and the nearest key."""
    settings = _load(file)
    pools = ", ".join(f"{name} ({pool.engine}, {pool.model})" for name, pool in settings.pools.items())
    typer.echo(f"{file}: fine. Pools: {pools}. Routes: {', '.join(settings.routes) or 'none'}.")


@app.command()
def explain(
    prompt: Annotated[str, typer.Argument(help="What a user would type.")],
    before: Annotated[
        list[str] | None, typer.Option("--before", help="A user turn before it, oldest first; may be repeated.")
    ] = None,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as /v1/route has it.")] = False,
) -> None:
    """Say where a prompt would be routed, and why: by the `router` of the configuration. Needs no server."""
    settings = _load(config).router
    from gateway.api.explained import ExplanationTold, read_aloud  # noqa: PLC0415 - numpy and encoder only when asked
    from gateway.routing import load_classifier  # noqa: PLC0415
    from router import NOISE_TAGS, Explainer, RouterUnavailable, load_exemplars, read_ask  # noqa: PLC0415

    turns = [{"role": "user", "content": text} for text in (*(before or ()), prompt)]
    try:
        explainer = Explainer(load_classifier(settings), load_exemplars())
    except (RouterUnavailable, ValueError) as error:
        _die(str(error))
    ask = read_ask(turns, noise=(*NOISE_TAGS, *settings.noise_tags))
    told = ExplanationTold.of(explainer.explain(ask, sentences=True))
    typer.echo(told.model_dump_json() if as_json else read_aloud(told))


@app.command()
def formats() -> None:
    """List the reasoning formats and the names they go by."""
    for record in FORMATS:
        names = ", ".join(record.aliases) or "-"
        typer.echo(f"{record.id}\n  for: {record.models}\n  also called: {names}")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@keys_app.command("new")
def keys_new(alias: Annotated[str, typer.Argument(help="The name that logs and metrics will show.")]) -> None:
    """Make a key. It is printed once; the configuration holds only its hash."""
    key = new_key()
    typer.echo(
        f"Key (shown once): {key}\n\nFor thinkgate.yaml:\n\nkeys:\n  - alias: {alias}\n    hash: {hash_key(key)}"
    )


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON Schema of thinkgate.yaml."""
    typer.echo(json.dumps(json_schema(), indent=2))


@config_app.command("show")
def config_show(config: ConfigOption = None) -> None:
    """Print the whole configuration with its defaults; secrets are redacted."""
    typer.echo(json.dumps(redacted(_load(config)), indent=2))


def main() -> None:
    app()


def _load(file: Path | None) -> Config:
    return _read(Source(_found(file)))


def _found(file: Path | None) -> Path | None:
    return DEFAULT_FILE if file is None and DEFAULT_FILE.is_file() else file


def _read(source: Source) -> Config:
    try:
        return source.load()
    except ConfigError as error:
        _die(str(error))


def _die(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    main()
