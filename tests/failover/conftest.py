import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from inturn.embedded.binaries import find_binaries, reachable, server_account
from tests.failover.cluster import Cluster


@pytest.fixture
def cluster(bin_dir: Path | None) -> Iterator[Cluster]:
    """A primary, and an asynchronous standby."""
    account = server_account()
    with ExitStack() as ends:
        place = Path(
            tempfile.mkdtemp(prefix="inturn-failover-")
        )  # pytest's own path is too long for a socket
        ends.callback(shutil.rmtree, place)
        if account.uid is not None:
            place.chmod(0o711)  # so that the server's account can enter it
        cluster = Cluster(place, reachable(find_binaries(bin_dir), account, place), account)
        ends.callback(cluster.close)
        cluster.start()
        yield cluster
