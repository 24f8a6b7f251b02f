"""The Django part of docs/integrations.md, as a project of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inturn.testing import Databases

pytestmark = pytest.mark.landing

ROOT = Path(__file__).parents[2]
STORE = ROOT / "examples" / "django_store"
GUIDE = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
SETTINGS = """
exec(open({store!r}).read())
INSTALLED_APPS = [*INSTALLED_APPS[:-1], "shop"]
LOGGING = {{
    "version": 1,
    "formatters": {{"shop": {{"format": "SHOP %(name)s %(message)s"}}}},
    "handlers": {{"shop": {{"class": "logging.StreamHandler", "formatter": "shop"}}}},
    "loggers": {{"inturn": {{"handlers": ["shop"], "level": "INFO", "propagate": False}}}},
}}
{guide}
"""
ON_APP_READY = """
def prepare(app):
    print("prepared", len(app.tasks) > 1)
"""
Manage = Callable[..., str]


@pytest.fixture(scope="module")
def manage(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manage]:
    """Make the project of the guide, migrate it, and run commands in it."""
    folder = tmp_path_factory.mktemp("guide")
    part = GUIDE.partition("## FastAPI")[0]
    blocks = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    files = [re.match(r"# (\S+\.py)\n", block) for block in blocks]
    settings = [block for block, file in zip(blocks, files, strict=True) if not file]
    for block, file in zip(blocks, files, strict=True):
        if file:
            path = folder / file[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(block, encoding="utf-8")
    for name in ("shop/__init__.py", "shop/reports.py"):
        (folder / name).touch()
    (folder / "shop" / "queue.py").write_text(ON_APP_READY, encoding="utf-8")
    (folder / "guide_settings.py").write_text(
        SETTINGS.format(store=str(STORE / "settings.py"), guide="\n".join(settings)),
        encoding="utf-8",
    )
    with databases.empty() as dsn:
        environment = os.environ | {
            "INTURN_DSN": dsn,
            "DJANGO_SETTINGS_MODULE": "guide_settings",
            "PYTHONPATH": os.pathsep.join(map(str, [folder, STORE, ROOT / "queue"])),
        }

        def run(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout + done.stderr

        run("-m", "django", "makemigrations", "shop", "--verbosity=0")
        run("-m", "django", "migrate", "--verbosity=0")
        yield run


def shell(manage: Manage, code: str) -> str:
    return manage("-c", f"import django; django.setup()\n{code}")


def test_its_tests_pass_with_djangos_runner(manage: Manage) -> None:
    assert "Ran 2 tests" in manage("-m", "django", "test", "shop")


def test_its_tests_pass_with_pytest(manage: Manage) -> None:
    options = ("-p", "no:inturn", "-p", "inturn.testing.plugin", "-p", "no:xdist")
    named = ("-o", "inturn_app=inturn.django:app", "test_shop.py", "shop/tests.py")
    assert "3 passed" in manage("-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *named)


def test_its_settings_apply_and_its_function_is_called(manage: Manage) -> None:
    code = "from inturn.django import app; print(app.worker_defaults, app.import_paths)"
    assert shell(manage, code) == "prepared True\n{'concurrency': 4} ['shop.reports']\n"


def test_the_app_works_before_django_has_loaded_its_apps(manage: Manage) -> None:
    code = (
        "from django.apps import apps; from inturn.django import app\n"
        "job = app.configure_task('early').defer(); print(apps.ready, app.job_manager.cancel_job_by_id(job))"
    )
    assert manage("-c", code) == "False True\n"


def test_its_views_defer_and_its_script_works(manage: Manage) -> None:
    shell(
        manage,
        "import asyncio\nfrom shop.views import buy, praise\nbuy(None); asyncio.run(praise(None))",
    )
    manage("work_off.py")
    shown = shell(
        manage,
        "from shop.models import Order\norder = Order.objects.select_related('job').get()\n"
        "print(order.shipped, order.thanked, order.job.status)",
    )
    assert shown == "prepared True\nTrue True succeeded\n"


def test_the_dashboard_in_asgi_py_is_for_superusers(manage: Manage) -> None:
    page = (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n# store/asgi.py\n(.*?)```", page, re.DOTALL)
    code += (
        "from django.contrib.auth.models import User\n"
        "from django.test import Client\n"
        "from starlette.testclient import TestClient\n"
        "def look(*cookie):\n"
        "    with TestClient(application, cookies=dict(cookie)) as browser:\n"
        "        return browser.get('/queue/').status_code\n"
        "def visit(name, **rights):\n"
        "    client = Client()\n"
        "    client.force_login(User.objects.create_user(name, **rights))\n"
        "    return look(('sessionid', client.cookies['sessionid'].value))\n"
        "print(look(), visit('eve', is_staff=True), visit('ann', is_superuser=True))\n"
    )
    assert manage("-c", code).splitlines()[-1] == "403 403 200"


def test_its_commands_answer(manage: Manage) -> None:
    assert "ok" in manage("-m", "django", "queue", "healthchecks").lower()
    assert '"inturn.' not in manage("-m", "django", "dumpdata", "--exclude", "inturn")


def test_its_task_of_the_framework_runs(manage: Manage) -> None:
    result = shell(
        manage,
        "from shop.framework_tasks import welcome\n"
        "print(welcome.using(lock='customer:ann').enqueue('ann').id)",
    ).split()[-1]
    log = manage("-m", "django", "queue", "worker", "--one-shot")
    assert re.search(r"^SHOP inturn\S* job\.succeeded", log, re.MULTILINE), log  # by LOGGING
    code = f"from shop.framework_tasks import welcome; r = welcome.get_result('{result}')\n"
    assert shell(manage, code + "print(r.return_value, r.task.lock)").endswith(
        "welcome, ann customer:ann\n"
    )
