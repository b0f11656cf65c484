"""The ServerApp: a hub that polls the nodes of a Flower federation.

Run configuration: `run`, the path of the run file on the machine of the SuperLink; `pool`, the table of
candidates, if it has moved; `poll-seconds`; `patience-seconds`, after which a node that has not answered is
asked again; and `ttl-days`, how long Flower keeps a message for a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from manyarms.federation.flower.polling import Polling, Reply
from manyarms.federation.mailbox import open_hub

MESSAGE_TYPE = "query.packet"
_DAY = 86_400.0
_SECONDS = {"poll": 60.0, "patience": 600.0}


class GridNodes:
    """The nodes of a Flower grid."""

    def __init__(self, grid: Grid, ttl: float) -> None:
        self._grid, self._ttl = grid, ttl

    def present(self) -> Iterable[int]:
        """The nodes that are connected."""
        return list(self._grid.get_node_ids())

    def send(self, node: int, packet: bytes) -> str:
        """Push one message."""
        content = RecordDict({"packet": ConfigRecord({"data": packet})})
        message = Message(content, dst_node_id=node, message_type=MESSAGE_TYPE, ttl=self._ttl)
        (sent,) = self._grid.push_messages([message])
        return str(sent)

    def replies(self, questions: list[str]) -> Iterable[Reply]:
        """Pull the replies that have arrived."""
        for message in self._grid.pull_messages(questions) if questions else []:
            question = message.metadata.reply_to_message_id
            if message.has_error():
                yield Reply(question, None, str(message.error))
            else:
                yield Reply(question, bytes(message.content.config_records["packet"]["data"]))


app = ServerApp()


def main(grid: Grid, context: Context) -> None:
    """Serve the run until it is over."""
    config = context.run_config
    pool = str(config.get("pool", ""))
    hub = open_hub(Path(str(config["run"])), Path(pool) if pool else None)
    try:
        nodes = GridNodes(grid, float(config.get("ttl-days", 14.0)) * _DAY)
        poll, patience = (float(config.get(f"{name}-seconds", of)) for name, of in _SECONDS.items())
        Polling(hub, nodes, poll, patience).run()
    finally:
        hub.close()


app.main()(main)
