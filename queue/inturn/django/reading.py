"""Models and querysets that refuse to write.

A job and its lane change together, in SQL functions. A row that the ORM changes would leave the
lane as it was: a deleted job that holds its lane stops it.
"""

from functools import wraps
from typing import Any

from django.db import models

from inturn.django.configuration import configuration
from inturn.django.exceptions import ReadOnlyModel


def _refusing(usual: Any, verb: str) -> Any:
    """Return the method of Django's queryset, with its marks, but refusing to write."""

    @wraps(usual)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_write(self.model, verb)
        return usual(self, *args, **kwargs)

    return write


class ReadOnlyQuerySet(models.QuerySet):
    """A queryset that refuses to write. Its async methods call these."""

    create = _refusing(models.QuerySet.create, "create")
    get_or_create = _refusing(models.QuerySet.get_or_create, "create")
    bulk_create = _refusing(models.QuerySet.bulk_create, "create")
    update = _refusing(models.QuerySet.update, "update")
    update_or_create = _refusing(models.QuerySet.update_or_create, "update")
    bulk_update = _refusing(models.QuerySet.bulk_update, "update")
    delete = _refusing(models.QuerySet.delete, "delete")


class ReadOnlyModelBase(models.Model):
    """A model that refuses to write. `instead` names the calls to use."""

    instead: dict[str, str] = {}

    objects = ReadOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        refuse_write(type(self), "delete")
        return super().delete(*args, **kwargs)


def refuse_save(sender: Any, instance: models.Model, **_: Any) -> None:
    """Refuse to save. It receives Django's signal, because `loaddata` calls no method of ours."""
    refuse_write(sender, "create" if instance._state.adding else "update")


def refuse_write(model: Any, verb: str) -> None:
    """Raise ReadOnlyModel, unless the setting READONLY_MODELS is False."""
    if not configuration().readonly_models:
        return
    instead = model.instead.get(verb)
    remedy = f"Use {instead}" if instead else "Only the queue changes it"
    raise ReadOnlyModel(
        f"inturn.django.models.{model.__name__} is read-only, so you cannot {verb} it. {remedy}."
    )
