"""`queue schema grants` works for any user, any number of times, before or after migrations."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier

from inturn import App, PsycopgConnector, sql
from inturn.errors import ConnectorException
from inturn.schema.migrate import downgrade, grant, migrate
from inturn.sql import KINDS, OWNER
from tests.cli.calling import invoke
from tests.privileges.conftest import Session
from tests.roles import as_login

OUTDATED = "UPDATE inturn.applied_code SET checksum = 'an older one'"
ACCESS = """
SELECT pg_class.oid::regclass::text, relowner::regrole::text, relacl::text, array_agg(attacl::text ORDER BY attnum)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = 'inturn'::regnamespace GROUP BY 1, 2, 3
UNION ALL
SELECT pg_proc.oid::regprocedure::text, proowner::regrole::text, proacl::text, NULL
FROM pg_proc WHERE pronamespace = 'inturn'::regnamespace
UNION ALL
SELECT nspname, nspowner::regrole::text, nspacl::text, NULL FROM pg_namespace WHERE nspname = 'inturn'
ORDER BY 1
"""


class Cluster:
    """A database to be migrated, and roles of its own on the server that vanish with it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.prefix = f"test_{uuid4().hex[:8]}"
        self._ends = ExitStack()
        self.admin = self._ends.enter_context(psycopg.connect(dsn, autocommit=True))

    def login(self, name: str, options: LiteralString = "") -> str:
        role = f"{self.prefix}_{name}"
        self.admin.execute(SQL("CREATE ROLE {} LOGIN {}").format(Identifier(role), SQL(options)))
        return role

    def logged_in(self, role: str) -> Session:
        return self._ends.enter_context(psycopg.connect(as_login(self.dsn, role), autocommit=True))

    def access(self) -> list[tuple[object, ...]]:
        return self.admin.execute(ACCESS).fetchall()

    def allow_to_create_schemas(self, role: str) -> None:
        database = conninfo_to_dict(self.dsn)["dbname"]
        self.admin.execute(
            SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                Identifier(str(database)), Identifier(role)
            )
        )

    def close(self) -> None:
        roles = self.admin.execute(
            "SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", [self.prefix]
        )
        for (role,) in roles.fetchall():
            self.admin.execute(SQL("DROP OWNED BY {} CASCADE").format(Identifier(role)))
        for (role,) in self.admin.execute(
            "SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", [self.prefix]
        ).fetchall():
            self.admin.execute(SQL("DROP ROLE {}").format(Identifier(role)))
        self._ends.close()


@pytest.fixture
def cluster(empty_dsn: str) -> Iterator[Cluster]:
    cluster = Cluster(empty_dsn)
    yield cluster
    cluster.close()


def assert_it_works(cluster: Cluster, producer: str, worker: str, schema: str = "inturn") -> None:
    seen: list[int] = []
    app = App(connector=PsycopgConnector(as_login(cluster.dsn, worker), schema=schema))
    app.task(name="note")(lambda n: seen.append(n))
    with App(
        connector=PsycopgConnector(as_login(cluster.dsn, producer), schema=schema)
    ).open() as deferring:
        deferring.configure_task("note").defer(n=1)
    app.run_worker(wait=False, install_signal_handlers=False)
    assert seen == [1]


def test_a_superuser_hands_the_schema_over_and_a_second_time_changes_nothing(
    cluster: Cluster,
) -> None:
    migrate(cluster.dsn)
    web, jobs = cluster.login("web"), cluster.login("jobs")
    members = {"producer": [web], "worker": [jobs]}
    grant(cluster.dsn, prefix=cluster.prefix, members=members)
    once = cluster.access()
    assert {owner for _, owner, *_ in once} == {f"{cluster.prefix}_owner"}
    assert_it_works(cluster, web, jobs)
    with psycopg.connect(cluster.dsn) as connection:
        connection.execute("SELECT inturn.prepare_history(0)")
    grant(cluster.dsn, prefix=cluster.prefix, members=members)
    assert [row for row in cluster.access() if row in once] == once


@pytest.mark.parametrize("inherits", ["INHERIT", "NOINHERIT"])
def test_an_owner_who_is_no_superuser_but_may_create_roles_does_it_all(
    cluster: Cluster, inherits: LiteralString
) -> None:
    deploy = cluster.login("deploy", f"CREATEROLE {inherits}")
    web, jobs = cluster.login("web"), cluster.login("jobs")
    cluster.allow_to_create_schemas(deploy)
    dsn = as_login(cluster.dsn, deploy)
    migrate(dsn)
    for _ in range(2):
        grant(dsn, prefix=cluster.prefix, members={"producer": [web], "worker": [jobs]})
    assert {owner for _, owner, *_ in cluster.access()} == {f"{cluster.prefix}_owner"}
    assert_it_works(cluster, web, jobs)
    cluster.admin.execute(OUTDATED)
    assert "applied" in str(migrate(dsn))
    assert_it_works(cluster, web, jobs)


def test_an_owner_who_may_create_no_roles_uses_those_that_a_dba_has_created(
    cluster: Cluster,
) -> None:
    deploy, web, jobs = cluster.login("deploy"), cluster.login("web"), cluster.login("jobs")
    cluster.allow_to_create_schemas(deploy)
    for kind in (OWNER, *KINDS):
        cluster.admin.execute(
            SQL("CREATE ROLE {} NOLOGIN").format(Identifier(f"{cluster.prefix}_{kind}"))
        )
    for kind, member in ((OWNER, deploy), ("producer", web), ("worker", jobs)):
        cluster.admin.execute(
            SQL("GRANT {} TO {}").format(Identifier(f"{cluster.prefix}_{kind}"), Identifier(member))
        )
    dsn = as_login(cluster.dsn, deploy)
    migrate(dsn)
    grant(dsn, prefix=cluster.prefix, members={"owner": [deploy], "producer": [web]})
    assert_it_works(cluster, web, jobs)


def test_without_the_right_to_create_roles_the_error_says_so_and_nothing_changes(
    cluster: Cluster,
) -> None:
    migrate(cluster.dsn)
    before = cluster.access()
    nobody = cluster.login("nobody")
    with pytest.raises(
        ConnectorException, match=r"permission denied to create role.*Nothing was changed.*owner"
    ):
        grant(as_login(cluster.dsn, nobody), prefix=cluster.prefix)
    assert cluster.access() == before


def test_a_member_of_the_owner_migrates_and_what_it_creates_belongs_to_the_owner(
    cluster: Cluster,
) -> None:
    migrate(cluster.dsn)
    deploy, web, jobs = cluster.login("deploy"), cluster.login("web"), cluster.login("jobs")
    grant(
        cluster.dsn,
        prefix=cluster.prefix,
        members={"owner": [deploy], "producer": [web], "worker": [jobs]},
    )
    before = cluster.access()
    dsn = as_login(cluster.dsn, deploy)
    downgrade(dsn, "base")
    migrate(dsn)
    assert {owner for _, owner, *_ in cluster.access()} == {f"{cluster.prefix}_owner"}
    grant(dsn, prefix=cluster.prefix)
    assert cluster.access() == before
    assert_it_works(cluster, web, jobs)


def test_a_stranger_does_not_migrate_and_the_error_names_the_owner(cluster: Cluster) -> None:
    migrate(cluster.dsn)
    with pytest.raises(ConnectorException, match="as a member of the role that owns it"):
        migrate(as_login(cluster.dsn, cluster.login("stranger")))


def test_a_migration_grants_what_a_new_version_adds_and_takes_what_was_given_by_hand(
    cluster: Cluster,
) -> None:
    migrate(cluster.dsn)
    grant(cluster.dsn, prefix=cluster.prefix)
    before = cluster.access()
    producer = Identifier(f"{cluster.prefix}_producer")
    cluster.admin.execute(
        SQL("REVOKE ALL ON FUNCTION inturn.defer, inturn.await_end FROM {}").format(producer)
    )
    cluster.admin.execute(SQL("GRANT SELECT ON inturn.jobs TO {}").format(producer))
    cluster.admin.execute("DROP FUNCTION inturn.cancel_job")
    cluster.admin.execute(OUTDATED)
    migrate(cluster.dsn)
    assert cluster.access() == before


def test_a_migration_does_not_mind_a_role_that_was_dropped(cluster: Cluster) -> None:
    migrate(cluster.dsn)
    grant(cluster.dsn, prefix=cluster.prefix)
    monitor = Identifier(f"{cluster.prefix}_monitor")
    cluster.admin.execute(SQL("DROP OWNED BY {}").format(monitor))
    cluster.admin.execute(SQL("DROP ROLE {}").format(monitor))
    cluster.admin.execute(OUTDATED)
    assert "applied" in str(migrate(cluster.dsn))


THEIRS = """
CREATE TABLE inturn.theirs (id bigserial);
CREATE VIEW inturn.their_view AS SELECT 1 AS one;
CREATE FUNCTION inturn.theirs() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE PROCEDURE inturn.their_procedure() LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION inturn.defer(colour point) RETURNS int LANGUAGE sql AS 'SELECT 1';
GRANT SELECT ON inturn.theirs TO PUBLIC;
"""


def test_foreign_objects_in_the_schema_keep_their_owner_and_stop_no_migration(
    cluster: Cluster,
) -> None:
    deploy, other = cluster.login("deploy", "CREATEROLE"), cluster.login("other")
    web, jobs = cluster.login("web"), cluster.login("jobs")
    cluster.allow_to_create_schemas(deploy)
    dsn = as_login(cluster.dsn, deploy)
    migrate(dsn)
    cluster.admin.execute(
        SQL("GRANT USAGE, CREATE ON SCHEMA inturn TO {}").format(Identifier(other))
    )
    before = cluster.access()
    cluster.logged_in(other).execute(THEIRS)
    theirs = [row for row in cluster.access() if row not in before]
    assert len(theirs) == 6
    for _ in range(2):
        grant(dsn, prefix=cluster.prefix, members={"producer": [web], "worker": [jobs]})
        cluster.admin.execute(OUTDATED)
        assert "applied" in str(migrate(dsn))
        assert_it_works(cluster, web, jobs)
    downgrade(dsn, "base")
    assert [row for row in cluster.access() if row in theirs] == theirs


def test_two_schemas_of_one_database_have_roles_of_their_own(cluster: Cluster) -> None:
    names = ("inturn", 'my "own" schema')
    for number, schema in enumerate(names):
        migrate(cluster.dsn, schema)
        who = [cluster.login(f"{kind}{number}") for kind in ("web", "jobs")]
        prefix = f'{cluster.prefix} "{number}"'
        grant(cluster.dsn, schema, prefix, {"producer": [who[0]], "worker": [who[1]]})
        assert_it_works(cluster, who[0], who[1], schema)
    with pytest.raises(InsufficientPrivilege):
        cluster.logged_in(f"{cluster.prefix}_web1").execute("SELECT inturn.defer('t')")


def test_the_printed_grants_are_the_applied_ones(cluster: Cluster, tmp_path: Path) -> None:
    migrate(cluster.dsn)
    web = cluster.login("web")
    options = ["schema", "grants", "--prefix", cluster.prefix, "--producer", web]
    printed = invoke(*options, folder=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout == sql.grants(prefix=cluster.prefix, members={"producer": [web]})
    cluster.admin.execute(printed.stdout.encode())
    by_hand = cluster.access()
    done = invoke(*options, "--apply", "--dsn", cluster.dsn, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"owned by {cluster.prefix}_owner" in done.stdout
    assert cluster.access() == by_hand


def test_without_a_prefix_the_roles_of_the_last_run_stay(cluster: Cluster, tmp_path: Path) -> None:
    migrate(cluster.dsn)
    deploy, web, jobs = (cluster.login(name) for name in ("deploy", "web", "jobs"))
    options = ["schema", "grants", "--apply", "--dsn", cluster.dsn]
    first = invoke(
        *options, "--prefix", cluster.prefix, "--owner", deploy, "--producer", web, folder=tmp_path
    )
    before = cluster.access()
    again = invoke(*options, "--worker", jobs, folder=tmp_path)
    assert again.stdout == first.stdout
    assert (again.stderr, cluster.access()) == ("", before)
    cluster.admin.execute(sql.grants().encode())
    assert cluster.access() == before
    assert_it_works(cluster, web, jobs)
    cluster.admin.execute(OUTDATED)
    assert "applied" in str(migrate(as_login(cluster.dsn, deploy)))


def test_another_prefix_says_what_becomes_of_the_roles(cluster: Cluster, tmp_path: Path) -> None:
    migrate(cluster.dsn)
    web, jobs = cluster.login("web"), cluster.login("jobs")
    grant(cluster.dsn, prefix=cluster.prefix, members={"producer": [web], "worker": [jobs]})
    other = f"{cluster.prefix}_b"
    options = ["schema", "grants", "--apply", "--dsn", cluster.dsn]
    done = invoke(*options, "--prefix", other, folder=tmp_path)
    assert done.stderr == (
        f"warning: the roles were {cluster.prefix}_owner, {cluster.prefix}_producer and so on. "
        f"They keep their rights, but {other}_owner owns the schema now, and the members of "
        f"{cluster.prefix}_owner can no longer migrate.\n"
    )
    assert f"owned by {other}_owner" in done.stdout
    assert_it_works(cluster, web, jobs)
    assert invoke(*options, folder=tmp_path).stdout == done.stdout, "the owner's roles count"


def test_a_queue_in_another_schema_is_named(cluster: Cluster, tmp_path: Path) -> None:
    migrate(cluster.dsn, "shop")
    done = invoke("schema", "grants", "--apply", "--dsn", cluster.dsn, folder=tmp_path)
    assert "inturn is not in the schema 'inturn' (found in: shop)" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "not in the schema 'inturn' (found in: none)). Create or update it: queue migrate"),
        (
            ("--prefix", "x" * 55),
            "prefix: it has 55 bytes, but the names of roles allow at most 54",
        ),
    ],
)
def test_a_grant_that_fails_is_explained(
    empty_dsn: str, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    command = ["schema", "grants", "--apply", "--dsn", empty_dsn]
    done = invoke(*command, *options, folder=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_member_that_does_not_exist_is_named_and_nothing_changes(cluster: Cluster) -> None:
    migrate(cluster.dsn)
    before = cluster.access()
    with pytest.raises(ConnectorException, match="no role nobody_by_that_name, which"):
        grant(cluster.dsn, prefix=cluster.prefix, members={"worker": ["nobody_by_that_name"]})
    assert cluster.access() == before
