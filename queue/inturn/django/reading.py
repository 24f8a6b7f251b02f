"""Models and querysets that refuse to write.

A job and its lane change together, in SQL functions. A row that the ORM changes would leave the
lane as it was: a deleted job that holds its lane stops it.
"""

from typing import Any, NoReturn

from django.db import models

from inturn.django.configuration import configuration
from inturn.django.exceptions import ReadOnlyModel


class ReadOnlyQuerySet(models.QuerySet):
    """A queryset that refuses to write. Its async methods call these."""

    def create(self, **kwargs: Any) -> Any:
        self._refuse("create")
        return super().create(**kwargs)

    def get_or_create(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("create")
        return super().get_or_create(*args, **kwargs)

    def update_or_create(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("update")
        return super().update_or_create(*args, **kwargs)

    def bulk_create(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("create")
        return super().bulk_create(*args, **kwargs)

    def bulk_update(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("update")
        return super().bulk_update(*args, **kwargs)

    def update(self, **kwargs: Any) -> Any:
        self._refuse("update")
        return super().update(**kwargs)

    def delete(self) -> Any:
        self._refuse("delete")
        return super().delete()

    def _refuse(self, verb: str) -> None:
        refuse_write(self.model, verb)

    # Django reads these marks from a method.
    delete.alters_data = True  # type: ignore[attr-defined]  # templates must not call it
    delete.queryset_only = True  # type: ignore[attr-defined]  # managers need not offer it


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
    if configuration().readonly_models:
        raise_read_only(model, verb)


def raise_read_only(model: Any, verb: str) -> NoReturn:
    instead = model.instead.get(verb)
    remedy = f"Use {instead}" if instead else "Only the queue changes it"
    raise ReadOnlyModel(
        f"inturn.django.models.{model.__name__} is read-only, so you cannot {verb} it. {remedy}."
    )
