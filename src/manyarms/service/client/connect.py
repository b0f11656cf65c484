"""`ma.connect`: a campaign of a service for Python programs."""

from __future__ import annotations

from pathlib import Path

from manyarms.campaigns.python_api import Campaign
from manyarms.service.client.http import PATIENCE, Connection
from manyarms.service.client.remote import RemoteCampaign


def connect(
    url: str,
    *,
    token: str | None = None,
    frames: str | None = None,
    patience: float = PATIENCE,
    ca: str | Path | None = None,
) -> Campaign:
    """A campaign of a service, such as "https://host/screen", with the methods of `ma.Campaign`.

    token: made by `manyarms token new`; by default that of the environment, MANYARMS_TOKEN or the file that
        MANYARMS_TOKEN_FILE names.
    frames: the library of the frames that are returned, "pandas" or "polars"; None returns dicts of lists.
    patience: the seconds for which requests are repeated while the service cannot be reached.
    ca: a file with the certificates to trust, by default those of the system.
    """
    remote = RemoteCampaign(Connection(url, token, patience=patience, ca=ca))
    try:
        made = Campaign.over(remote, frames)
        _ = remote.form  # a wrong address or token is an error now, not at the first ask
        return made
    except BaseException:
        remote.close()
        raise
