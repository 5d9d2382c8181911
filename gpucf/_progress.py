"""Progress on a terminal: rows done, rate, time left; silent where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any


class Progress:
    """A bar on stderr, if that is a terminal and `quiet` is not set.

    Parameters
    ----------
    n_rows : int
        Rows expected; corrected when more come.
    """

    def __init__(self, n_rows: int, quiet: bool) -> None:
        self._n_rows = n_rows
        self._bar: Any = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"),
            TextColumn("{task.fields[rate]}"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("building the map", total=n_rows, rate="")

    def within(self, first_row: int) -> Callable[[int, int], None]:
        """A callback for one batch that begins at `first_row`."""
        return lambda done, total: self.done(first_row + done)

    def done(self, n: int) -> None:
        """Set the number of rows done."""
        if self._bar is None:
            return
        speed = self._bar.tasks[0].speed
        rate = f"{speed:,.0f} rows/s" if speed else ""
        self._n_rows = max(self._n_rows, n)
        self._bar.update(self._task, completed=n, total=self._n_rows, rate=rate, description="answering")

    def close(self) -> None:
        """Remove the bar, so that a message can be printed."""
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
