"""The job filter as people write it: `task:mail.* state:failed error:"no money" waited>5m`.

The filter text is the only state; it lives in the URL. The page reports invalid terms; they never
widen the filter.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from inturn.formatting import visible
from inturn.operations.changes.jobs import JobFilter
from inturn.states import ENDED, STATUSES, WAITING
from inturn.web.terms import BadTerm, read_length, read_number, show

LONGEST = 2_000  # characters
MOST_TERMS = 20
TERM = re.compile(r'\s*(?P<name>[^\s":>]*)(?P<sign>[:>]?)(?P<value>"(?:[^"\\]|\\.)*"|[^\s"]*)')
EXAMPLES = 'task:mail.* queue:default lock:"order:4711" state:failed error:Timeout waited>5m'


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a filter. `raw` is its original text."""

    raw: str
    name: str
    sign: str
    value: str
    is_quoted: bool


@dataclass
class Asked:
    """A parsed filter. If it has problems, it matches no jobs."""

    terms: list[Term] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)  # of JobFilter
    task_prefix: str | None = None
    like: int | None = None  # jobs that failed like this one in the last hour

    @property
    def text(self) -> str:
        """The filter as written, with single spaces."""
        return " ".join(term.raw for term in self.terms)

    @property
    def statuses(self) -> tuple[str, ...]:
        return tuple(self.fields.get("statuses", ()))

    @property
    def which(self) -> JobFilter:
        """The part that list_jobs and find_jobs support."""
        return JobFilter(**self.fields)

    @property
    def can_count(self) -> bool:
        """True if count_jobs supports all of it."""
        return not ("id" in self.fields or self.task_prefix or self.like or self.problems)

    def without(self, *names: str) -> str:
        """Return the text of the filter without the terms of these names."""
        return " ".join(term.raw for term in self.terms if term.name not in names)

    def with_state(self, state: str) -> str:
        """Return the text of the filter with only this state."""
        return f"{self.without('state')} {f'state:{state}' if state else ''}".strip()


def read_filter(text: str, now: datetime) -> Asked:
    """Parse a filter. `now` is the server's time."""
    asked = Asked()
    if len(text) > LONGEST:
        asked.problems.append(f"The filter is longer than {LONGEST:,} characters.")
        return asked
    for written in _split(text):
        try:
            term = _unquote(written)
            if term.name == "status":  # the name in commands and the API
                term = replace(term, name="state", raw=f"state{term.raw.removeprefix('status')}")
            _take(asked, term, now)
        except BadTerm as bad:
            asked.problems.append(str(bad))
            term = replace(written, raw=visible(written.raw))
        asked.terms.append(term)
    if len(asked.terms) > MOST_TERMS:
        asked.problems.append(f"A filter can have at most {MOST_TERMS} terms.")
    if not asked.problems:
        _complete(asked)
    return asked


def quote(value: str) -> str:
    """Return a value as written in a filter: plain, or as a JSON string."""
    if value.isprintable() and re.fullmatch(r'[^\s"]+', value) and not value.endswith("*"):
        return value
    return json.dumps(value, ensure_ascii=not value.isprintable())


def _split(text: str) -> Iterator[Term]:
    at = 0
    while at < len(text.rstrip()):
        found = TERM.match(text, at)
        if found is None or found.end() == at:  # an unclosed or misplaced quote
            rest = text[at:].strip()
            yield Term(rest, "", "", rest, False)
            return
        at = found.end()
        value = found["value"]
        yield Term(found[0].strip(), found["name"], found["sign"], value, value.startswith('"'))


def _unquote(term: Term) -> Term:
    """Return the term with its unquoted value, and with visible text."""
    if not term.is_quoted:
        shown = term.raw if term.raw.isprintable() else f"{term.name}{term.sign}{quote(term.value)}"
        return replace(term, raw=shown)
    try:
        value = json.loads(term.value, strict=False)
        value.encode()
    except ValueError:
        raise BadTerm(
            f"“{show(term.raw)}” cannot be read. Inside quotes, write \\\\ for a backslash "
            'and \\" for a quote.'
        ) from None
    if "\0" in value:
        raise BadTerm("No value can contain NUL.")
    raw = f"{term.name}{term.sign}{json.dumps(value, ensure_ascii=not value.isprintable())}"
    return replace(term, value=value, raw=raw)


def _take(asked: Asked, term: Term, now: datetime) -> None:
    word = WORDS.get(term.name)
    if word is None or term.sign != word.sign:
        raise BadTerm(_say_what_is_known(term))
    if not term.value:
        raise BadTerm(f"{term.name}{term.sign} needs a value.")
    if any(each.name == term.name for each in asked.terms):
        raise BadTerm(f"{term.name} occurs twice. Use it once.")
    word.take(asked, term, now)


def _say_what_is_known(term: Term) -> str:
    shown = show(term.raw)
    if word := WORDS.get(term.name):
        return f"“{shown}” is invalid. Write {term.name}{word.sign}{word.example}"
    if term.name.isdecimal() and not term.sign:
        return f"“{shown}” is only a number. For a job, write id:{shown}"
    if '"' in term.raw and not term.sign:
        return f"“{shown}” has an unclosed quote."
    known = ", ".join(name + word.sign for name, word in WORDS.items())
    return f"“{shown}” is not a filter. Use one of: {known}"


def _take_text(asked: Asked, term: Term, now: datetime) -> None:
    asked.fields[term.name] = term.value


def _take_number(asked: Asked, term: Term, now: datetime) -> None:
    asked.fields[term.name] = read_number(term.value, f"{term.name}:9001")


def _take_task_or_lock(asked: Asked, term: Term, now: datetime) -> None:
    if term.is_quoted or not term.value.endswith("*"):
        asked.fields[term.name] = term.value
    elif term.name == "task":
        asked.task_prefix = term.value[:-1]
    else:
        asked.fields["lock_prefix"] = term.value[:-1]


def _take_state(asked: Asked, term: Term, now: datetime) -> None:
    names = tuple(dict.fromkeys(term.value.split(",")))
    for name in names:
        if name not in STATUSES:
            raise BadTerm(f"“{visible(name)}” is not a state. Use one of: {', '.join(STATUSES)}")
    asked.fields["statuses"] = names


def _take_worker(asked: Asked, term: Term, now: datetime) -> None:
    try:
        asked.fields["worker_id"] = UUID(term.value)
    except ValueError:
        raise BadTerm("worker: needs a worker id, as shown on its jobs.") from None


def _take_like(asked: Asked, term: Term, now: datetime) -> None:
    asked.like = read_number(term.value, f"{term.name}:9001")


def _take_length(asked: Asked, term: Term, now: datetime) -> None:
    length = read_length(term.value, f"{term.name}>5m")
    if "before" in asked.fields:
        raise BadTerm("waited> and ended> exclude each other.")
    try:
        asked.fields["before"] = now - length
    except OverflowError:
        raise BadTerm(f"“{visible(term.value)}” is too long ago.") from None


def _complete(asked: Asked) -> None:
    """Add the states that some terms imply, and refuse those they exclude."""
    names = {term.name for term in asked.terms}
    for name, implied in (("waited", WAITING), ("ended", ENDED), ("like", ("failed",))):
        if name not in names:
            continue
        if not asked.statuses:
            asked.fields["statuses"] = implied
        elif not set(asked.statuses) <= set(implied):
            states = ", ".join(implied)
            asked.problems.append(f"{name} only applies to jobs in these states: {states}")


class Word(NamedTuple):
    """What may follow a name in a filter, and the function that reads it."""

    sign: str
    example: str
    take: Callable[[Asked, Term, datetime], None]


WORDS = {
    "task": Word(":", "mail.send", _take_task_or_lock),
    "queue": Word(":", "default", _take_text),
    "lock": Word(":", "order:*", _take_task_or_lock),
    "state": Word(":", "failed", _take_state),
    "error": Word(":", "Timeout", _take_text),
    "id": Word(":", "9001", _take_number),
    "group": Word(":", "customer:7", _take_text),
    "batch": Word(":", "12", _take_number),
    "worker": Word(":", "0198…", _take_worker),
    "like": Word(":", "9001", _take_like),
    "waited": Word(">", "5m", _take_length),
    "ended": Word(">", "1d", _take_length),
}
