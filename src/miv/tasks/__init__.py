"""Tasks: each builds exemplar sets from raw files or from a seed. One file per task."""

from miv.tasks.task_base import Task, TaskOption, create_task, list_tasks, register_task, task_help, task_options
from miv.tasks.task_building import build_once, built_folder

__all__ = [
    "Task",
    "TaskOption",
    "build_once",
    "built_folder",
    "create_task",
    "list_tasks",
    "register_task",
    "task_help",
    "task_options",
]
