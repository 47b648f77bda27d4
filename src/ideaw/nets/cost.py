"""What a network costs: its parameters, and the multiply-adds of each of its functions for a second of audio."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS, SEGMENT_SAMPLES
from ideaw.nets.build import AnyNet
from ideaw.nets.rivals.wavelet import WaveletNet


def count_parameters(model: AnyNet) -> dict[str, int]:
    """Part of the network → its trained numbers; "carriers" are all that belong to no other part."""
    if isinstance(model, WaveletNet):
        parts: dict[str, nn.Module] = {"encoder": model.encoder, "decoder": model.decoder}
    else:
        parts = {"stage 1": model.message_stage, "stage 2": model.code_stage, "balance block": model.balance}
        if model.message_reader and model.code_reader:
            parts |= {"extractor's stage 1": model.message_reader, "extractor's stage 2": model.code_reader}
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    return counts | {"carriers": sum(p.numel() for p in model.parameters()) - sum(counts.values())}


def count_multiply_adds(model: AnyNet) -> dict[str, int]:
    """Function → multiply-adds of its convolutions for one second of audio."""
    device = model.llr_scale.device
    if isinstance(model, WaveletNet):
        audio = torch.zeros((1, SEGMENT_SAMPLES), device=device)
        stream = torch.zeros((1, FRAMES_PER_SECOND, model.stream_width), device=device)
        return {
            "embed": _count(model, lambda: model.mark(audio, stream)),
            "message": _count(model, lambda: model.listen(audio)),
        }
    # Convolutions over frames cost the same in each, so one frame is enough.
    spectrum = torch.zeros((1, 1, NUM_BINS, 2), device=device)
    stream = torch.zeros((1, 1, model.stream_width), device=device)
    return {
        "embed": FRAMES_PER_SECOND * _count(model, lambda: model.mark(spectrum, stream, stream)),
        "locate": FRAMES_PER_SECOND * _count(model, lambda: model.locate(spectrum)),
        "message": FRAMES_PER_SECOND * _count(model, lambda: model.read(*model.locate(spectrum)[1:])),
    }


@torch.no_grad()
def _count(model: nn.Module, run: Callable[[], object]) -> int:
    """Multiply-adds of the convolutions that a call runs."""
    total = 0

    def add(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        assert isinstance(layer, nn.Conv1d | nn.Conv2d)
        total += output[0, 0].numel() * layer.weight.numel()

    hooks = [m.register_forward_hook(add) for m in model.modules() if isinstance(m, nn.Conv1d | nn.Conv2d)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return total
