"""A connection to a Dask cluster: which workers there are, calls to actors, and what counts as a loss."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from manyarms.errors import (
    EngineError,
    InvalidParameterError,
    MissingExtraError,
    SchedulerLostError,
)

_PATIENCE = 5.0  # seconds without an answer after which the scheduler is asked whether the worker is alive
_SAFE = ("tls", "inproc", "wss")  # inproc does not leave the process


class Cluster:
    """A client of a Dask scheduler, with the errors of this package."""

    def __init__(self, client: Any, insecure: bool, timeout: float) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise MissingExtraError("distributed", "dask", "an engine on a Dask cluster") from None
        if not isinstance(client, Client) or client.asynchronous:
            rule = "a distributed.Client that is not asynchronous"
            raise InvalidParameterError("client", client, rule)
        self.client, self.timeout, self.insecure = client, timeout, insecure
        self.address = str(client.scheduler.address if client.scheduler else "an unknown address")
        check_safe(self.address, insecure)

    def workers(self) -> list[str]:
        """The addresses of the workers; if there is none, waits for one."""
        deadline = time.monotonic() + self.timeout
        while True:
            found = sorted(self._scheduler_info()["workers"])
            if found:
                for address in found:
                    check_safe(address, self.insecure)
                return found
            if time.monotonic() > deadline:
                raise EngineError(f"the Dask scheduler at {self.address} has no workers")
            time.sleep(0.2)

    def actors(self, kind: type, homes: Sequence[str]) -> list[Any]:
        """A new actor of this kind on each of these workers; None where the worker was lost meanwhile."""
        try:
            futures = [self.client.submit(kind, actor=True, workers=[home], pure=False) for home in homes]
        except Exception as problem:
            raise self._scheduler_lost() from problem
        return [self._actor(future, home) for future, home in zip(futures, homes, strict=True)]

    def _actor(self, future: Any, home: str) -> Any:
        """The actor; None if its worker was lost before it was made, after which Dask would wait for ever."""
        from distributed import TimeoutError

        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            try:
                with self.client.as_current():
                    return future.result(timeout=1.0)
            except TimeoutError:
                if home not in self._scheduler_info()["workers"]:
                    future.cancel()
                    return None
            except ImportError as problem:
                raise EngineError(f"the workers at {self.address} need manyarms: {problem}") from None
            except Exception:
                self._scheduler_info()
                return None
        return None

    def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Begin a call; None if the actor is known to be lost."""
        if actor is None:
            return None
        try:
            with self.client.as_current():
                return getattr(actor, method)(*args)
        except Exception:  # Dask knows already that the worker is lost
            return None

    def answers(self, calls: Sequence[Any], homes: Sequence[str]) -> list[Any]:
        """The answer to each call, or None if its worker (at this address of `homes`) is gone.

        All are waited for together: to wait for one after the other takes the client twice the time.
        """
        from distributed import TimeoutError

        waiting = [i for i, call in enumerate(calls) if call is not None]
        found: list[Any] = [None] * len(calls)
        while waiting:
            try:
                outcomes = self._together([calls[i] for i in waiting])
            except TimeoutError:
                workers = self._scheduler_info()["workers"]
                waiting = [i for i in waiting if homes[i] in workers or calls[i].done()]
                continue
            except Exception:  # the client is closed
                break
            for i, outcome in zip(waiting, outcomes, strict=True):
                found[i] = None if isinstance(outcome, BaseException) else outcome
            break
        if None in found:
            self._scheduler_info()  # if the scheduler is gone too, nothing can be made again
        return found

    def _together(self, calls: Sequence[Any]) -> list[Any]:
        sync: Any = self.client.sync
        outcomes: list[Any] = sync(_outcomes, calls, callback_timeout=_PATIENCE)
        return outcomes

    def _scheduler_info(self) -> dict[str, Any]:
        try:
            if self.client.status != "running":
                raise OSError(self.client.status)
            info: dict[str, Any] = self.client.scheduler_info()
            return info
        except Exception as problem:
            raise self._scheduler_lost() from problem

    def _scheduler_lost(self) -> SchedulerLostError:
        return SchedulerLostError(
            f"the Dask scheduler at {self.address} does not answer. A saved run can be continued with "
            "manyarms.Optimizer.load(path, engine=...), on a new cluster or without one",
            self.address,
        )


async def _outcomes(calls: Sequence[Any]) -> list[Any]:
    """What each of these calls gave, or the exception that it ended with."""
    return list(await asyncio.gather(*calls, return_exceptions=True))


def check_safe(address: str, insecure: bool) -> None:
    """Refuse a connection to another machine without encryption, unless it is allowed."""
    parts = urlsplit(address)
    if insecure or parts.scheme in _SAFE or _is_loopback(parts.hostname or ""):
        return
    raise EngineError(
        f"the connection to {address} is not encrypted. Start the cluster with TLS (addresses that begin "
        "with tls://), or allow clear text with insecure=True (--engine-insecure)"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def pack(value: Any) -> bytes:
    """A value as bytes; what `pickle` cannot write, such as a function defined in a notebook, is included."""
    from distributed.protocol.pickle import dumps

    try:
        return bytes(dumps(value))  # type: ignore[no-untyped-call]
    except Exception as problem:
        raise EngineError(f"the workers cannot be sent {type(value).__name__}: {problem}") from problem


def unpack(packed: bytes) -> Any:
    """The value that `pack` wrote."""
    from distributed.protocol.pickle import loads

    return loads(packed)  # type: ignore[no-untyped-call]
