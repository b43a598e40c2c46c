"""FlexAttention on a GPU: agreement with the matrix backend, and seconds of attention alone, forward and backward."""

from dataclasses import replace

import torch
from torch.nn.functional import scaled_dot_product_attention

from hf_bam import BamConfig
from hf_bam.attention.backends import BACKENDS
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.frame import Frame
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.runtime import Runtime

from .measure import interleaved

HEADS, WIDTH, BATCH = 12, 64, 4
LENGTHS = (512, 1024, 2048, 4096)
TOLERANCE = 1e-3
"""Largest difference of a result, in units of its largest value, that is agreement in single precision."""
REPETITIONS = 15
CASES = [
    ({"family": family, "noise": noise}, causal)
    for family in ("weibull", "lognormal")
    for noise in ("entry", "key", "token")
    for causal in (False, True)
]


def call_for(settings, tokens, causal, device):
    """Return an attention call in training; one third of the keys of the last text is padding, unless it is causal."""
    torch.manual_seed(0)
    layer = BamLayer(BamConfig(**settings).settings, Runtime(), head_dim=WIDTH).to(device).train()
    tensors = [torch.randn(BATCH, HEADS, tokens, WIDTH, device=device, requires_grad=True) for _ in range(3)]
    allowed = torch.ones(BATCH, 1, 1, tokens, dtype=torch.bool, device=device)
    allowed[-1, ..., 2 * tokens // 3 :] = False
    shape = (BATCH, HEADS, tokens, tokens)
    mask = AttentionMask(shape, causal=True) if causal else AttentionMask(shape, allowed)
    return AttentionCall(layer, 0, *tensors, mask, WIDTH**-0.5)


def attention_pass(backend, call):
    """Return output, KL and gradients of a call, with the noise of one seed."""
    torch.manual_seed(1)
    call.layer.runtime.frame = frame = Frame(call.layer)
    output, _ = BACKENDS[backend].run(call)
    (term,) = frame.terms
    loss = output.square().sum() + term.total.sum()
    leaves = [call.query, call.key, call.value, *call.layer.parameters()]
    return [output, term.total, *torch.autograd.grad(loss, leaves)]


def difference(call, backend="flex"):
    """Return the largest difference of a backend to the matrix, in units of the largest value of each result."""
    pairs = zip(attention_pass(backend, call), attention_pass("matrix", call), strict=True)
    return max(((x - y).abs().max() / y.abs().max().clamp(min=1e-6)).item() for x, y in pairs)


def timed(run):
    def wait():
        run()
        torch.cuda.synchronize()

    return wait


def plain_pass(call, causal):
    query, key, value = call.query, call.key, call.value
    scaled_dot_product_attention(query, key, value, is_causal=causal).square().sum().backward()


def rows():
    if not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a GPU: torch.cuda.is_available() is False on this machine.")
    device = torch.device("cuda")
    gpu = {"gpu": torch.cuda.get_device_name(device)}
    for settings, causal in CASES:
        found = difference(call_for(settings, 300, causal, device))
        row = {"what": "agreement", **gpu, **settings, "causal": causal, "difference": found}
        yield {**row, "agrees": found <= TOLERANCE}
    for tokens in LENGTHS:
        for causal in (False, True):
            call = call_for({"family": "weibull"}, tokens, causal, device)
            call = replace(call, mask=AttentionMask(call.mask.shape, causal=causal))
            runs = {"plain": timed(lambda call=call, causal=causal: plain_pass(call, causal))}
            runs |= {n: timed(lambda n=n, call=call: attention_pass(n, call)) for n in ("flex", "blocks")}
            yield {"what": "attention", **gpu, "tokens": tokens, "causal": causal, **interleaved(runs, REPETITIONS)}
