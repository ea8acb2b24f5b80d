"""One leg's way over a pair of workers: the hand-off, and the books about it.

To its leg it is what a single worker's connection would be. Who takes part was chosen before, by `pairing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from gateway.edge.errors import ApiError
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.pools.handoff.base import Report, Side, Transfer, TransferFailed
from gateway.pools.handoff.encode import Encoding
from gateway.pools.handoff.pairing import Pairing
from gateway.pools.handoff.witness import Witness
from gateway.pools.verdict import NEUTRAL, Kind, Verdict, judge
from gateway.pools.worker import Worker
from gateway.upstream import End, Response


class HandOff:
    """`post` once, `confirm` before the first delta is passed on, `end` always."""

    def __init__(
        self,
        transfer: Transfer,
        pairing: Pairing,
        workers: tuple[Worker, Worker],
        *,
        pool: str,
        witness: Witness | None,
        encoding: Encoding | None,
    ) -> None:
        """`workers`: who prefills, and who decodes. `encoding`: before both, where there are workers for it."""
        self._transfer = transfer
        self._pairing = pairing
        self._prefill, self._decode = workers
        self._pool = pool
        self._witness = witness
        self._encoding = encoding
        self._stamp = pairing.begin(*workers)
        self._is_prefilling = False
        self._is_over = False

    @property
    def report(self) -> Report:
        return self._transfer.report

    @property
    def prefill(self) -> Worker:
        return self._prefill

    @property
    def failure(self) -> TransferFailed | None:
        return self._transfer.failure

    @property
    def has_asked(self) -> bool:
        """Has the decode worker been sent anything?"""
        return self._transfer.has_asked

    async def post(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Response:
        """Raises TransferFailed, UpstreamError."""
        # Connectors match the two legs by this id, so a client's must not come twice.
        own = {**headers, REQUEST_ID: f"{headers[REQUEST_ID][:100]}-{token_hex(8)}"}
        extra: dict[str, Any] = {}
        if self._encoding is not None and "messages" in body:
            body, extra = await self._encoding.run(own, body)
        self._is_prefilling = True
        try:
            return await self._transfer.post(path, own, body, extra)
        except TransferFailed:
            self._is_prefilling = False
            raise

    async def confirm(self, *, strictly: bool = False) -> None:
        """The decode worker has generated. Raises TransferFailed if it had nothing to do so from, as far as is known by
        now; `strictly`: once it is."""
        await self._transfer.confirm(strictly=strictly)
        report = self.report
        if report.is_local:
            return
        report.is_handed = True
        if self._witness is not None:
            since = report.began if report.prefilled is None else report.prefilled
            self._witness.handed(self._pool, max(0.0, _now() - since), report.prompt or 0)

    def late(self, error: ApiError) -> TransferFailed | None:
        """The first token has not come in time. Whose doing that was, if the decode worker still waits for another: the
        prefill worker's; nobody's, as long as pictures are encoded."""
        if self.report.prefilled is not None:
            return None
        verdict = judge(error) if self._is_prefilling else NEUTRAL
        self._transfer.blame(verdict)
        return TransferFailed(self._prefill, error, verdict)

    def end(self, how: End, verdict: Verdict) -> Verdict:
        """What of `verdict` is held against the decode worker. Safe to call twice; never waits."""
        self._transfer.end(how)
        if self._is_over:
            return verdict
        self._is_over = True
        self._tell()
        failure = self.failure
        is_the_pairs = failure is None and not self.report.is_local
        of_the_pair = verdict if is_the_pairs else NEUTRAL
        if failure is not None and failure.side is Side.TRANSFER:
            of_the_pair = Verdict(Kind.FAILURE)
        held = self._pairing.note(self._prefill, self._decode, of_the_pair, self._stamp)
        if self.failure is not None and verdict.kind is Kind.FAILURE:
            return NEUTRAL
        return held if is_the_pairs else verdict

    def _tell(self) -> None:
        """What came of the prompt, if it was prefilled."""
        report, witness = self.report, self._witness
        if witness is None or report.is_handed:
            return
        if report.is_missing:
            witness.not_handed(self._pool)
        elif self._is_prefilling and self.failure is None:
            until = _now() if report.prefilled is None else report.prefilled
            witness.orphaned(self._pool, until - report.began)


def _now() -> float:
    return asyncio.get_running_loop().time()
