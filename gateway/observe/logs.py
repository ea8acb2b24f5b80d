"""Logs: structlog for our own lines, one handler for uvicorn's, pretty for people or JSON for collectors.

Everything goes to stderr. Nothing here or above it logs prompts, answers, keys or bodies.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from gateway.config import LogFormat, Logs


def configure_logs(settings: Logs) -> None:
    """Before anything logs, and again when the settings have changed."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
        _without_colors,
    ]
    as_json = settings.format is LogFormat.JSON
    last: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        # Plain tracebacks: the default formatter prints local variables, and with them keys and prompts.
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
    for noisy in ("httpx", "httpcore", "uvicorn.access", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _without_colors(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """uvicorn hangs a second, coloured copy of its message on every line."""
    del logger, method
    event.pop("color_message", None)
    return event
