"""The task framework of Django 6, or of the package django-tasks for earlier versions."""

from django.utils.module_loading import import_string

from inturn.errors import ConfigurationError


def _find_package() -> str:
    for package in ("django.tasks", "django_tasks"):
        try:
            import_string(f"{package}.TaskResult")
        except ImportError:
            continue
        return package
    raise ConfigurationError(
        "This Django has no task framework. Use Django 6, or: pip install django-tasks"
    )


PACKAGE = _find_package()

BaseTaskBackend = import_string(f"{PACKAGE}.backends.base.BaseTaskBackend")
Task = import_string(f"{PACKAGE}.base.Task")
TaskContext = import_string(f"{PACKAGE}.base.TaskContext")
TaskError = import_string(f"{PACKAGE}.base.TaskError")
TaskResult = import_string(f"{PACKAGE}.base.TaskResult")
TaskResultStatus = import_string(f"{PACKAGE}.base.TaskResultStatus")
TaskResultDoesNotExist = import_string(f"{PACKAGE}.exceptions.TaskResultDoesNotExist")
task_enqueued = import_string(f"{PACKAGE}.signals.task_enqueued")
task_finished = import_string(f"{PACKAGE}.signals.task_finished")
task_started = import_string(f"{PACKAGE}.signals.task_started")
if PACKAGE == "django.tasks":
    InvalidTask = import_string("django.tasks.exceptions.InvalidTask")
    normalize_json = import_string("django.utils.json.normalize_json")
else:
    InvalidTask = import_string("django_tasks.exceptions.InvalidTaskError")
    normalize_json = import_string("django_tasks.utils.normalize_json")
