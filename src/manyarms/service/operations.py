"""Asks that take long: the requester gets the name of an operation and asks for its result later.

The name of an operation is the key of its ask, which is stored with the batch. After a restart of the
service, the result of an ask that was handed out is still found under that name; one that had not finished is
unknown, nothing was handed out, and repeating the request with the same Idempotency-Key computes it again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from concurrent.futures import Future

from manyarms.campaigns.orders import Issued
from manyarms.errors import RepeatedKeyError
from manyarms.service.model_thread import AskRequest, ModelThread

_FINISHED = 1_000  # finished operations whose result is kept in memory


def operation_name(caller: str, key: str | None) -> str:
    """The name of an ask: callers have keys of their own, and an ask without a key gets a random one."""
    text = f"{caller}\n{key}" if key is not None else secrets.token_hex(32)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Operations:
    """The asks of one campaign that are being computed, and the latest that were."""

    def __init__(self, model: ModelThread) -> None:
        self._model, self._lock = model, threading.Lock()
        self._known: OrderedDict[str, tuple[str, Future[list[Issued]]]] = OrderedDict()

    def start(self, request: AskRequest) -> Future[list[Issued]]:
        """Start an ask, or join the same one that is being computed."""
        name, digest = request.share.key or "", request.share.digest
        with self._lock:
            known, running = self._known.get(name, ("", None))
            if running is not None and not running.done() and known != digest:
                raise RepeatedKeyError("this Idempotency-Key is being used for another request")
            if running is None or running.done():
                running = self._model.ask(request)
                self._known[name] = digest, running
                self._known.move_to_end(name)
                self._forget_old()
            return running

    def find(self, name: str) -> Future[list[Issued]] | None:
        """The ask of this name, if this service has computed it or is computing it."""
        with self._lock:
            return self._known.get(name, ("", None))[1]

    def _forget_old(self) -> None:
        finished = [name for name, (_, future) in self._known.items() if future.done()]
        for name in finished[: max(0, len(self._known) - _FINISHED)]:
            del self._known[name]
