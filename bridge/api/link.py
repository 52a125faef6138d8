"""The line between the relayer's process and the API's: questions and answers as lines of JSON."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import structlog

from bridge.api.backend import BackendError, ErrorCode

_log = structlog.get_logger(__name__)

LONGEST: Final = 1 << 20
"""Bytes of one line."""

Answers = Mapping[str, Callable[..., Awaitable[Any]]]
"""By the question's name, what answers it; may raise `BackendError`."""


class Link:
    """One end of the line; either may ask."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: Answers = MappingProxyType({})
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answers = answers
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def ask(self, question: str, **arguments: Any) -> Any:
        """What the other end answers.

        Raises:
            BackendError: the other end's, or UNAVAILABLE because it is gone.
        """
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"ask": question, "number": number, "arguments": arguments})
            return await answer
        except ConnectionError as error:
            raise _gone() from error
        finally:
            del self._asked[number]

    async def run(self) -> None:
        """Reads and answers until the other end is gone."""
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except ConnectionError:
            pass
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(_gone())
            for task in self._answering:
                task.cancel()
            self._writer.close()

    def _take(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            task = asyncio.create_task(self._answer(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        waiting = self._asked.get(message["number"])
        if waiting is None or waiting.done():
            return
        if (error := message.get("error")) is not None:
            waiting.set_exception(BackendError(ErrorCode(error["code"]), error["message"], error["next"]))
        else:
            waiting.set_result(message["answer"])

    async def _answer(self, message: dict[str, Any]) -> None:
        try:
            said = {"answer": await self._answers[message["ask"]](**message["arguments"])}
        except BackendError as error:
            said = {"error": {"code": error.code, "message": str(error), "next": error.next_step}}
        except Exception as error:  # noqa: BLE001  # one question that fails must not end the link
            _log.exception("a question of the HTTP API failed", question=message["ask"], exc_info=error)
            said = {
                "error": {"code": ErrorCode.UNAVAILABLE, "message": "the relayer failed; see its log", "next": None}
            }
        await self._send({"number": message["number"], **said})

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()


def _gone() -> BackendError:
    return BackendError(ErrorCode.UNAVAILABLE, "the relayer's process has ended")
