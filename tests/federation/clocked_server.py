"""The application of `manyarms serve` with a clock that a file moves: `python -m ... FOLDER PORT`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import uvicorn

from manyarms.federation.mailbox import Mailbox
from manyarms.service.app import create_app
from manyarms.service.places import Folder

OFFSET = "clock offset.txt"  # in the folder: seconds by which the clock of the hub is ahead


def main(folder: Path, port: int) -> None:
    def clock() -> float:
        file = folder / OFFSET
        return time.time() + (float(file.read_text()) if file.exists() else 0.0)

    app = create_app(Folder(folder))
    app.state.mailbox = Mailbox(folder, clock)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
