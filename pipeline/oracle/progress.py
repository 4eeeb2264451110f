"""A bar that counts up to a known number, on stderr; several threads may advance it."""

import sys
from types import TracebackType
from typing import Self

from .. import log


class Progress:
    """Use it in a `with` block. Where stderr is no terminal, it prints one line at the end: how many, how fast."""

    def __init__(self, title: str, total: int, *, unit: str = "kernels") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._title = title
        self._unit = unit
        self._bar = Bar(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            *(TimeElapsedColumn(), TimeRemainingColumn()),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task(title, total=total)

    def advance(self) -> None:
        self._bar.advance(self._task)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        task = self._bar.tasks[0]
        if task.completed and task.elapsed:
            log.info(
                f"{self._title}: {task.completed:.0f} {self._unit} in {task.elapsed:.1f} s, "
                f"{task.completed / task.elapsed:.2f} a second"
            )
