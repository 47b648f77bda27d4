"""Segments per second of one training step, eager and compiled, and where the time goes.

    python benchmarks/training_step.py --data DIR [--recipe recipes/46+10.yaml] [--batch 128] [--steps 30]
"""

import argparse
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from ideaw.attacks.batch import Draw
from ideaw.nets.model import Ideaw
from ideaw.train.data import load_pools
from ideaw.train.loop import MARGIN, compile_blocks, make_optimiser
from ideaw.train.recipe import read_recipe
from ideaw.train.step import moment, take


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/46+10.yaml"))
    parser.add_argument("--batch", type=int, nargs="+", default=[128])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--modes", nargs="+", default=["eager", "compiled"])
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    pool, _ = load_pools(arguments.data, MARGIN, device)
    for mode in arguments.modes:
        for batch in arguments.batch:
            recipe = read_recipe(arguments.recipe, batch=batch)
            model = Ideaw(recipe.net).to(device)
            if device.type == "cuda":
                model.to(memory_format=torch.channels_last)
            if mode == "compiled":
                compile_blocks(model)
            optimiser = make_optimiser(recipe, model)

            def step(number: int) -> None:
                draw = Draw.at(recipe.seed, number, device)
                now = moment(recipe, recipe.steps // 2 + number)
                outcome = take(model, None, pool, recipe, batch, now, draw)
                optimiser.zero_grad(set_to_none=True)
                outcome.loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()

            began = time.perf_counter()
            for number in range(8):
                step(number)
            wait(device)
            warmed = time.perf_counter()
            for number in range(arguments.steps):
                step(number)
            wait(device)
            took = (time.perf_counter() - warmed) / arguments.steps
            print(f"{mode:9} batch {batch:4}: {1e3 * took:7.1f} ms a step, {batch / took:7.0f} segments/s, start {warmed - began:.0f} s", flush=True)
            if batch == arguments.batch[0]:
                with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] if device.type == "cuda" else [ProfilerActivity.CPU]) as found:
                    for number in range(3):
                        step(number)
                    wait(device)
                key = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
                print(found.key_averages().table(sort_by=key, row_limit=28, max_name_column_width=60).replace("-" * 20, ""), flush=True)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
