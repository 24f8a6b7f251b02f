"""The first example of docs/dashboard.md."""

from typing import Any

from starlette.testclient import TestClient

from tests.pages import read_blocks
from tests.web.conftest import EMPTY, SAME_ORIGIN


def test_the_example_of_the_page_lets_each_person_do_what_it_says(
    app_dsn: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("INTURN_DSN", app_dsn)
    example, _ = read_blocks("dashboard.md")  # the other one is for Django
    names: dict[str, Any] = {"__name__": "example"}
    exec(example, names)  # noqa: S102 (our own page)
    client = TestClient(names["site"], headers=SAME_ORIGIN, follow_redirects=False)
    pause = "/queue/lane/pause?lock=a"
    for user, sees, pauses in ((None, 403, 403), ("eve", 200, 403), ("ana", 200, 303)):
        headers = {} if user is None else {"x-user": user}
        assert client.get("/queue/", headers=headers).status_code == sees
        assert client.post(pause, data=EMPTY, headers=headers).status_code == pauses
