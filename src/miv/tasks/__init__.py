"""Tasks: each builds exemplar sets from raw files or from a seed. One file per task."""

from miv.tasks.base import (
    Task,
    build_once,
    built_folder,
    create_task,
    list_tasks,
    register_task,
    task_help,
    task_options,
)

__all__ = [
    "Task",
    "build_once",
    "built_folder",
    "create_task",
    "list_tasks",
    "register_task",
    "task_help",
    "task_options",
]
