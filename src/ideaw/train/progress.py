"""The log of a run: JSON lines, TensorBoard if it is installed, a bar on a terminal."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ideaw.train.recipe import Recipe


@contextmanager
def open_log(out: Path, recipe: Recipe, step: int, rank: int) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """A function that logs values at a step.

    Args:
        out: Folder of the run.
        recipe: Gives the name and the last step.
        step: Where the run stands.
        rank: Only process 0 logs.
    """
    if rank:
        yield lambda step, values: None
        return
    out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    values_column = TextColumn("{task.fields[summary]}")
    columns = (TextColumn(recipe.name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), values_column)
    try:
        from torch.utils.tensorboard import SummaryWriter

        board = SummaryWriter(str(out / "tensorboard"), purge_step=step)
    except ImportError:
        board = None
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    with (out / "log.jsonl").open("a") as lines, bar:
        task = bar.add_task("", total=recipe.steps, completed=step, summary="")

        def log(step: int, values: dict[str, float]) -> None:
            rounded = {k: v if isinstance(v, int) else float(f"{v:.6g}") for k, v in values.items()}
            finite = {key: value if math.isfinite(value) else None for key, value in rounded.items()}
            lines.write(json.dumps({"step": step} | finite) + "\n")
            lines.flush()
            summary = " ".join(f"{key} {value:.4g}" for key, value in rounded.items())
            bar.update(task, completed=step, summary=summary)
            if not console.is_terminal:
                console.print(f"step {step}: {summary}", soft_wrap=True, highlight=False)
            if board:
                for key, value in values.items():
                    board.add_scalar(key, value, step)

        yield log
        if board:
            board.close()
