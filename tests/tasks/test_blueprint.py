"""Collections of tasks: the names of tasks, and the app through which they are deferred."""

import pytest

from inturn import App, Blueprint, Task
from inturn.errors import (
    BadArgument,
    TaskAlreadyRegistered,
    TaskDefinitionError,
    TaskNotFound,
    UnboundTaskError,
)


@pytest.fixture
def app() -> App:
    return App("postgresql://")


@pytest.fixture
def mail() -> Blueprint:
    return Blueprint()


def declare(blueprint: Blueprint, name: str = "send", *aliases: str) -> Task[[str], None]:
    @blueprint.task(name=name, aliases=list(aliases))
    def send(to: str) -> None: ...

    return send


def declared(app: App) -> dict[str, object]:
    """Return the names of the tasks, without those that every app has."""
    return {name: task for name, task in app.tasks.items() if not name.startswith("builtin:")}


def test_tasks_of_a_blueprint_are_found_under_its_namespace_with_their_aliases(
    app: App, mail: Blueprint
) -> None:
    send = declare(mail, "send", "old.send")
    app.add_tasks_from(mail, namespace="mail")
    assert declared(app) == {"mail:send": send, "mail:old.send": send}
    assert (send.name, send.aliases) == ("mail:send", ("mail:old.send",))


def test_no_namespace_leaves_the_names_as_they_are(app: App, mail: Blueprint) -> None:
    send = declare(mail)
    app.add_tasks_from(mail, namespace="")
    assert declared(app) == {"send": send}


def test_blueprints_nest(app: App, mail: Blueprint) -> None:
    send, outer = declare(mail), Blueprint()
    outer.add_tasks_from(mail, namespace="mail")
    app.add_tasks_from(outer, namespace="outer")
    assert declared(app) == {"outer:mail:send": send}
    assert send.name == "outer:mail:send"


def test_a_task_declared_after_its_blueprint_was_added_is_found_too(
    app: App, mail: Blueprint
) -> None:
    outer = Blueprint()
    outer.add_tasks_from(mail, namespace="mail")
    app.add_tasks_from(outer, namespace="outer")
    send = declare(mail, "send", "old")
    assert declared(app) == {"outer:mail:send": send, "outer:mail:old": send}


def test_a_blueprint_may_be_added_under_two_namespaces(app: App, mail: Blueprint) -> None:
    send = declare(mail)
    app.add_tasks_from(mail, namespace="mail")
    app.add_tasks_from(mail, namespace="post")
    assert declared(app) == {"mail:send": send, "post:send": send}
    assert (send.name, send.aliases) == ("mail:send", ("post:send",))


def test_names_that_are_taken_are_refused_and_nothing_is_changed(app: App, mail: Blueprint) -> None:
    first = declare(app, "mail:send")
    send = declare(mail)
    declare(mail, "receive")
    with pytest.raises(
        TaskAlreadyRegistered, match=r"Two tasks are named 'mail:send'.*another namespace"
    ):
        app.add_tasks_from(mail, namespace="mail")
    assert declared(app) == {"mail:send": first}
    assert send.name == "send"


def test_a_later_name_that_is_taken_in_the_app_is_refused_in_the_blueprint_too(
    app: App, mail: Blueprint
) -> None:
    declare(app, "mail:send")
    app.add_tasks_from(mail, namespace="mail")
    with pytest.raises(TaskAlreadyRegistered, match="'mail:send'"):
        declare(mail)
    assert mail.tasks == {}


@pytest.mark.parametrize("other", ["send", "other"])
def test_a_name_or_an_alias_twice_is_refused(mail: Blueprint, other: str) -> None:
    declare(mail, "send", "alias")
    with pytest.raises(TaskAlreadyRegistered, match="Two tasks are named"):
        declare(mail, other, "alias")


def test_a_blueprint_is_not_added_to_itself(mail: Blueprint) -> None:
    outer = Blueprint()
    outer.add_tasks_from(mail, namespace="mail")
    for inner, target in [(mail, mail), (outer, mail)]:
        with pytest.raises(TaskDefinitionError, match="cannot be added to itself"):
            target.add_tasks_from(inner, namespace="round")


def test_an_alias_can_be_given_later(app: App, mail: Blueprint) -> None:
    send = declare(mail)
    app.add_tasks_from(mail, namespace="mail")
    app.add_task_alias(send, "shop.send")
    assert app.find_task("shop.send") is send
    assert (send.name, send.aliases) == ("mail:send", ("shop.send",))
    with pytest.raises(TaskAlreadyRegistered, match=r"'shop.send'"):
        app.add_task_alias(send, "shop.send")
    with pytest.raises(TaskNotFound, match="not in this collection"):
        Blueprint().add_task_alias(send, "x")


def test_aliases_are_a_list(mail: Blueprint) -> None:
    with pytest.raises(BadArgument, match=r"aliases is the text 'abc'. Pass a list"):
        mail.task(aliases="abc")
    mail.task(aliases=None)


def test_a_task_without_an_app_cannot_be_deferred(mail: Blueprint) -> None:
    send = declare(mail)
    with pytest.raises(UnboundTaskError, match=r"was not added to an App.*app\.add_tasks_from"):
        send.defer("ann")
