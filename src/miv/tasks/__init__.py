"""Tasks: each builds exemplar sets from raw files or from a seed. One file per task; all files here are imported."""

from importlib import import_module
from pkgutil import iter_modules

from miv.tasks.base import TASKS, Task, build_once, built_folder, create_task, list_tasks, register_task, task_options

__all__ = ["TASKS", "Task", "build_once", "built_folder", "create_task", "list_tasks", "register_task", "task_options"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
