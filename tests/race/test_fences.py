"""Stories of check_fence under concurrency, told as in test_interleavings."""

import psycopg

from tests.race.harness import Mutation, Session, Stage, promise, story


def check(session: Session, token: int) -> bool:
    try:
        session.run("SELECT check_fence('account', %s)", token)
        return True
    except psycopg.errors.ObjectNotInPrerequisiteState:
        return False


@story(
    Mutation(
        "a check with an equal token does not lock the row",
        "check_fence.sql",
        "    INSERT INTO",
        "    IF EXISTS (SELECT FROM fences_seen WHERE resource = p_resource AND token = p_token) THEN RETURN; END IF;\n"
        "    INSERT INTO",
    ),
)
def test_a_later_start_waits_for_the_write_of_an_earlier_one_that_was_let_through(
    stage: Stage,
) -> None:
    """Otherwise the earlier write could come after the later one."""
    early, late = stage.session(), stage.session()
    promise(check(early, 5), "the first")
    early.begin()
    promise(check(early, 5), "the same again")
    late.start(check, late, 6)
    waited = bool(stage.waits_of(late))
    early.commit()
    promise(late.result() and waited, "the later one goes on when the write is there")
    promise(not check(early, 5), "and shuts the earlier one out")


@story(
    Mutation(
        "the highest is looked up before the row is locked",
        "check_fence.sql",
        "WHERE seen.token <= excluded.token;",
        "WHERE (SELECT max(f.token) FROM fences_seen AS f WHERE f.resource = p_resource) <= excluded.token;",
    ),
    Mutation(
        "any token is let through", "check_fence.sql", " WHERE seen.token <= excluded.token;", ";"
    ),
)
def test_an_earlier_start_that_waits_for_a_later_one_is_refused(stage: Stage) -> None:
    early, late, other = stage.session(), stage.session(), stage.session()
    promise(check(other, 4), "there is a row")
    late.begin()
    promise(check(late, 6), "the later one is first")
    early.start(check, early, 5)
    late.commit()
    promise(not early.result(), "it is stale by now")
    promise(check(late, 6) and check(late, 7), "the later ones go on")


@story(
    Mutation(
        "any token is let through", "check_fence.sql", " WHERE seen.token <= excluded.token;", ";"
    ),
)
def test_two_starts_that_are_the_first_to_write_are_put_in_order(stage: Stage) -> None:
    early, late = stage.session(), stage.session()
    late.begin()
    promise(check(late, 6), "there was no row")
    early.start(check, early, 5)
    late.commit()
    promise(not early.result(), "it is stale by now")
