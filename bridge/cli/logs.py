"""Configures structured logging to stderr."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(*, as_json: bool = False, level: int = logging.INFO) -> None:
    """Configures logging for this process.

    Args:
        as_json: whether to write one JSON object per line instead of text.
        level: the minimum level.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    # A JSON line carries its traceback as text; the console draws it itself.
    traceback = [structlog.processors.format_exc_info] if as_json else []
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *traceback,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Looked up at each line, not once: a process that embeds this may redirect stderr later.
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
