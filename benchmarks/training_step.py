"""Segments per second of one training step, eager and compiled, and where the time goes.

python benchmarks/training_step.py --data DIR [--recipe recipes/46+10.yaml] [--batch 128 256] [--steps 30]
"""

import argparse
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from ideaw.attacks.draw import Draw
from ideaw.nets.model import Ideaw
from ideaw.train.data import SegmentPool, load_pools
from ideaw.train.loop import MIN_MARGIN_SAMPLES, compile_blocks, make_optimiser
from ideaw.train.recipe import Recipe, read_recipe
from ideaw.train.schedule import schedule_at
from ideaw.train.step import training_step

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Steps:
    """Training steps of one recipe from the middle of its schedule on, attacks and all."""

    def __init__(self, recipe: Recipe, pool: SegmentPool, compiled: bool) -> None:
        self.recipe, self.pool = recipe, pool
        self.model = Ideaw(recipe.net).to(DEVICE)
        if DEVICE.type == "cuda":
            self.model.to(memory_format=torch.channels_last)
        if compiled:
            compile_blocks(self.model)
        self.optimiser = make_optimiser(recipe, self.model)
        self.second = Ideaw(recipe.net).to(DEVICE)

    def run(self, number: int) -> float:
        """Seconds that so many steps take, the device's work included."""
        began, in_flight = time.perf_counter(), None
        for step in range(self.recipe.steps // 2, self.recipe.steps // 2 + number):
            draw, schedule = Draw.at(self.recipe.seed, step, DEVICE), schedule_at(self.recipe, step)
            result = training_step(
                self.model, None, self.pool, self.recipe, self.recipe.batch, schedule, draw, in_flight, self.second
            )
            in_flight = result.in_flight
            self.optimiser.zero_grad(set_to_none=True)
            result.loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began


def main() -> None:
    """Measure every mode at every size of batch; profile each mode at the first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/46+10.yaml"))
    parser.add_argument("--batch", type=int, nargs="+", default=[128])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--modes", nargs="+", default=["eager", "compiled"])
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    pool, _ = load_pools(arguments.data, MIN_MARGIN_SAMPLES, DEVICE)
    for mode in arguments.modes:
        for batch in arguments.batch:
            steps = Steps(read_recipe(arguments.recipe, batch=batch), pool, mode == "compiled")
            start, took = steps.run(8), steps.run(arguments.steps) / arguments.steps
            speed = f"{1e3 * took:7.1f} ms a step, {batch / took:7.0f} segments/s"
            print(f"{mode:9} batch {batch:4}: {speed}, start {start:.0f} s", flush=True)
            if batch == arguments.batch[0]:
                print_profile(steps)


def print_profile(steps: Steps) -> None:
    """Print the most expensive operations of three steps."""
    on_gpu = DEVICE.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as profiler:
        steps.run(3)
    key = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
    print(profiler.key_averages().table(sort_by=key, row_limit=28, max_name_column_width=60), flush=True)


if __name__ == "__main__":
    main()
