"""The ClientApp: one agent, whose state is in its own file beside the SuperNode.

Node configuration: `invitation` and `pool`, the paths of both; `file`, the agent's file (default: beside the
invitation); `command` or `python` to measure inside this app, for at most `seconds` per message (default 20,
because Flower ends an app that is silent for too long). Longer trials are measured beside it, with
`manyarms agents measure` or by hand with `manyarms agents tell`, on the same file.
"""

from __future__ import annotations

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from manyarms.federation.flower.node import answered

app = ClientApp()


def packet(message: Message, context: Context) -> Message:
    """Take the packet of the hub, measure for a while, and reply with a packet."""
    received = bytes(message.content.config_records["packet"]["data"])
    reply = answered(received, dict(context.node_config))
    return Message(RecordDict({"packet": ConfigRecord({"data": reply})}), reply_to=message)


app.query("packet")(packet)
