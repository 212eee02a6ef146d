"""Writes layer_*.txt: whole layers and their gradients as public programs compute them, in f64.

    python make_layers.py FOLDER   # FOLDER: unpacked wheels of flash-linear-attention and fla-core, 0.6.0 made the files here

Needs torch, transformers and einops. Modules of transformers run as they are, by their functions of plain torch. Of
flash-linear-attention the files of the layers run, with the package's naive functions in place of its kernels, because
importing the package needs triton. That package must not be importable, or transformers takes its kernels. Conversions to
f32 are conversions to f64 here. Parameters are those of the plugins; a case says which of the program's they are, so that
autograd gives the gradients of the plugins' parameters.
"""

import ast
import contextlib
import importlib.util
import pathlib
import sys
import types
from unittest import mock

import torch
import torch._dynamo  # caches import it, and not while f32 is f64
import torch.nn.functional as F
from einops import rearrange
from torch.func import functional_call
from transformers import DynamicCache, KimiLinearConfig, Mamba2Config, OlmoHybridConfig, Qwen3NextConfig
from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from transformers.models.olmo_hybrid.modeling_olmo_hybrid import OlmoHybridGatedDeltaNet
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

LANES, LENGTH, WIDTH, TAPS, RANK = 2, 26, 10, 4, 3
EPSILON = 1e-5  # of the plugins' norms
PIECES = (22, 3, 1)  # tokens of segments, whose results are those of the whole text


class Case:
    """A layer. `parameters` draws the plugin's, `program` gives the same under the program's names and in its shapes, and
    `run` the results [B,T,D] of a text and the last states."""

    def __init__(self, heads=2, keys=6, values=8):
        self.heads, self.keys, self.values = heads, keys, values
        self.inner = heads * values

    def drawn(self, *shape, scale=1.0, about=0.0):
        return about + scale * torch.randn(*shape, dtype=torch.float64)

    def common(self, rows, channels=0, norm=0):
        """Parameters that layers share: `in_weight` has `rows`, the short convolution `channels`, the norm `norm` or V."""
        drawn = {"in_weight": self.drawn(sum(rows), WIDTH, scale=WIDTH**-0.5)}
        if channels:
            drawn["convolution_weight"] = self.drawn(TAPS, 1, channels, scale=0.5)
        drawn["norm_weight"] = self.drawn(norm or self.values, scale=0.3, about=1.0)
        drawn["out_weight"] = self.drawn(WIDTH, self.inner, scale=self.inner**-0.5)
        self.rows = rows
        return drawn

    def decays(self, *steps, rates=None):
        return {
            "rate_log": self.drawn(*(rates or (self.heads,)), scale=0.5),
            "step_bias": self.drawn(*steps, scale=0.7, about=-1.5),
        }

    def split(self, p):
        return p["in_weight"].split(self.rows)

    def call(self, p, x, **given):
        return functional_call(self.layer, self.program(p), (x,), given, strict=True)

    @staticmethod
    def filters(p):
        return p["convolution_weight"].permute(2, 1, 0)


def equal(whole, parts):
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)
    return whole


class OfTransformers(Case):
    """States of a DynamicCache: [B,H,K,V], and the last inputs [B,channels,taps] of the convolution."""

    def run(self, p, x):
        with torch.no_grad():
            cache = DynamicCache(config=self.config)
            parts = [self.call(p, piece, cache=cache) for piece in x.split(PIECES, 1)]
        states = {"state": cache.get_recurrent_state(0), "convolution": cache.get_conv_state(0)[..., 1:].transpose(1, 2)}
        return equal(self.call(p, x), parts), states


class Mamba2(OfTransformers):
    def __init__(self, heads, keys, values, groups):
        super().__init__(heads, keys, values)
        self.groups = groups
        self.config = Mamba2Config(
            hidden_size=WIDTH, num_hidden_layers=1, num_heads=heads, head_dim=values, state_size=keys, n_groups=groups,
            expand=self.inner // WIDTH, conv_kernel=TAPS, layer_norm_epsilon=EPSILON, chunk_size=8,
        )
        self.layer = Mamba2Mixer(self.config, 0).eval()

    def parameters(self):
        channels = self.inner + 2 * self.groups * self.keys
        drawn = {**self.common([self.inner, channels, self.heads], channels, self.inner), **self.decays(self.heads)}
        drawn["convolution_bias"] = self.drawn(channels, scale=0.3)
        drawn["skip"] = self.drawn(self.heads, scale=0.3, about=1.0)
        return drawn

    def program(self, p):
        return {
            "in_proj.weight": p["in_weight"], "conv1d.weight": self.filters(p), "conv1d.bias": p["convolution_bias"],
            "A_log": p["rate_log"], "dt_bias": p["step_bias"], "D": p["skip"], "norm.weight": p["norm_weight"],
            "out_proj.weight": p["out_weight"],
        }

    def run(self, p, x):
        out, states = super().run(p, x)
        return out, {**states, "state": states["state"].transpose(2, 3)}  # the program's is [B,H,V,K]


class GatedDeltaNet(OfTransformers):
    """q, k, v, the gate and both numbers of a head lie side by side in the program's projections."""

    def __init__(self):
        super().__init__()
        self.config = Qwen3NextConfig(
            hidden_size=WIDTH, num_hidden_layers=1, linear_conv_kernel_dim=TAPS, linear_key_head_dim=self.keys,
            linear_value_head_dim=self.values, linear_num_key_heads=self.heads, linear_num_value_heads=self.heads,
            rms_norm_eps=EPSILON, layer_types=["linear_attention"],
        )
        self.layer = Qwen3NextGatedDeltaNet(self.config, 0).eval()

    def parameters(self):
        keys = self.heads * self.keys
        drawn = self.common([keys, keys, self.inner, self.inner, self.heads, self.heads], 2 * keys + self.inner)
        return {**drawn, **self.decays(self.heads)}

    def program(self, p):
        q, k, v, gate, a, b = (part.unflatten(0, (self.heads, -1)) for part in self.split(p))
        return {
            "in_proj_qkvz.weight": torch.cat([q, k, v, gate], 1).flatten(0, 1), "conv1d.weight": self.filters(p),
            "in_proj_ba.weight": torch.cat([b, a], 1).flatten(0, 1), "A_log": p["rate_log"], "dt_bias": p["step_bias"],
            "norm.weight": p["norm_weight"], "out_proj.weight": p["out_weight"],
        }


class NegativeGatedDeltaNet(GatedDeltaNet):
    """The layer of OLMo Hybrid, with `negative_eigenvalues`."""

    def __init__(self):
        super().__init__()
        self.config = OlmoHybridConfig(
            hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=self.heads, linear_conv_kernel_dim=TAPS,
            linear_key_head_dim=self.keys, linear_value_head_dim=self.values, linear_allow_neg_eigval=True,
            layer_types=["linear_attention", "full_attention"], pad_token_id=None,
        )
        self.layer = OlmoHybridGatedDeltaNet(self.config, 0).eval()

    def program(self, p):
        q, k, v, gate, a, b = self.split(p)
        return {
            "q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "g_proj.weight": gate, "a_proj.weight": a,
            "b_proj.weight": b, "conv1d.weight": self.filters(p), "A_log": p["rate_log"], "dt_bias": p["step_bias"],
            "o_norm.weight": p["norm_weight"], "o_proj.weight": p["out_weight"],
        }


class Kda(OfTransformers):
    """The layer of Kimi Linear: one width for keys and values, which is the rank of both gates; no bias of the output gate."""

    gate_bias = 0.0

    def __init__(self):
        super().__init__(values=6)
        self.config = KimiLinearConfig(
            hidden_size=WIDTH, num_hidden_layers=1, linear_head_dim=self.keys, linear_num_heads=self.heads,
            linear_conv_kernel_dim=TAPS, rms_norm_eps=EPSILON, layer_types=["linear_attention"],
        )
        self.layer = KimiLinearDeltaAttention(self.config, 0).eval()

    def parameters(self):
        keys, rank = self.heads * self.keys, self.values
        drawn = self.common([keys, keys, self.inner, rank, rank, self.heads], 2 * keys + self.inner)
        drawn.update(self.decays(keys, rates=(self.heads, 1)))
        drawn["decay_weight"] = self.drawn(keys, rank, scale=rank**-0.5)
        drawn["gate_weight"] = self.drawn(self.inner, rank, scale=rank**-0.5)
        drawn["gate_bias"] = self.drawn(self.inner, scale=self.gate_bias)
        return drawn

    def program(self, p):
        q, k, v, decay, gate, b = self.split(p)
        return {
            "q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "b_proj.weight": b, "conv1d.weight": self.filters(p),
            "forget_gate.f_a_proj.weight": decay, "forget_gate.f_b_proj.weight": p["decay_weight"],
            "forget_gate.A_log": p["rate_log"].view(1, 1, -1, 1), "forget_gate.dt_bias": p["step_bias"],
            "g_a_proj.weight": gate, "g_b_proj.weight": p["gate_weight"], "o_norm.weight": p["norm_weight"],
            "o_proj.weight": p["out_weight"],
        }


# flash-linear-attention: its layers, around its naive functions.


class RmsNormGated(torch.nn.Module):
    """In place of FusedRMSNormGated."""

    def __init__(self, hidden_size, eps, activation="swish", elementwise_affine=True):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.empty(hidden_size)), eps
        self.activation = {"swish": F.silu, "sigmoid": torch.sigmoid}[activation]

    def forward(self, x, gate):
        return Fla.functions["rms_norm_ref"](x, self.weight, None, eps=self.eps) * self.activation(gate)


class ShortConvolution(torch.nn.Module):
    """In place of the package's, which has kernels alone: each channel with its last inputs, then SiLU."""

    def __init__(self, hidden_size, kernel_size, bias, activation):
        super().__init__()
        self.weight, self.taps = torch.nn.Parameter(torch.empty(hidden_size, 1, kernel_size)), kernel_size
        assert not bias and activation == "silu"

    def forward(self, x, cache, output_final_state, cu_seqlens):
        rows = x.transpose(1, 2)
        rows = F.pad(rows, (self.taps - 1, 0)) if cache is None else torch.cat([cache, rows], -1)
        out = F.silu(F.conv1d(rows, self.weight, groups=x.shape[2]))
        return out.transpose(1, 2), rows[..., 1 - self.taps :]


def with_state(naive, *given, state):
    """States of the kernels are [B,H,V,K] under `state_v_first`."""
    out, state = naive(*given, initial_state=None if state is None else state.mT, output_final_state=True)
    return out, state.mT


def naive_gla(q, k, v, gk, initial_state, **_):
    return with_state(Fla.functions["naive_recurrent_gla"], q, k, v, gk, state=initial_state)


def naive_kda(q, k, v, g, beta, A_log, dt_bias, initial_state, allow_neg_eigval, **_):
    unit = (x / torch.sqrt(x.square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    decay = Fla.functions["naive_kda_gate"](g, A_log, dt_bias, output_dtype=torch.float64)
    rate = beta.sigmoid() * (2 if allow_neg_eigval else 1)
    return with_state(Fla.functions["naive_recurrent_kda"], *unit, v, decay, rate, state=initial_state)


class Fla(Case):
    functions: dict = {}

    @classmethod
    def take_functions(cls, folder):
        """Functions alone, out of files that import triton."""
        cls.folder = pathlib.Path(folder) / "fla"
        for path, name in (
            ("ops/gla/naive.py", "naive_recurrent_gla"), ("ops/kda/naive.py", "naive_recurrent_kda"),
            ("ops/kda/gate.py", "naive_kda_gate"), ("modules/norm/layernorm.py", "rms_norm_ref"),
        ):
            tree = ast.parse((cls.folder / path).read_text())
            tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
            exec(compile(tree, path, "exec"), {"torch": torch, "F": F, "rearrange": rearrange}, cls.functions)

    def take_layer(self, file, name, **settings):
        """The class of a file, with other modules in place of those that it imports."""

        def keep(module, cache, **state):
            if cache is not None:
                cache.append(state)

        stubs = {
            "fla": {}, "fla.layers": {}, "fla.ops": {}, "fla.modules.activations": {"ACT2FN": {}},
            "fla.layers.utils": {
                "get_layer_cache": lambda module, cache: cache[-1] if cache else None, "update_layer_cache": keep,
                "unpad_hidden_states": lambda x, cu_seqlens, mask, length: (x, None, None),
                "repad_hidden_states": lambda x, indices, lanes, length: x,
            },
            "fla.modules": {"FusedRMSNormGated": RmsNormGated, "RMSNorm": None, "ShortConvolution": ShortConvolution},
            "fla.ops.gla": {"chunk_gla": None, "fused_chunk_gla": None, "fused_recurrent_gla": naive_gla},
            "fla.ops.kda": {"chunk_kda": naive_kda, "fused_recurrent_kda": naive_kda},
        }
        modules = {path: types.ModuleType(path) for path in stubs}
        for path, module in modules.items():
            module.__dict__.update(stubs[path])
        with mock.patch.dict(sys.modules, modules):
            spec = importlib.util.spec_from_file_location(f"fla_{file}", self.folder / "layers" / f"{file}.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        self.layer = getattr(module, name)(hidden_size=WIDTH, num_heads=self.heads, norm_eps=EPSILON, layer_idx=0, **settings)
        self.layer.eval()

    def run(self, p, x):
        cache: list = []
        parts = [self.call(p, piece, past_key_values=cache, use_cache=True)[0] for piece in x.split(PIECES, 1)]
        states = {"state": cache[-1]["recurrent_state"].mT}
        if cache[-1]["conv_state"]:
            states["convolution"] = torch.cat(cache[-1]["conv_state"], 1).transpose(1, 2)
        return equal(self.call(p, x)[0], parts), states


class Gla(Fla):
    def __init__(self):
        super().__init__()
        self.take_layer(
            "gla", "GatedLinearAttention", expand_k=self.heads * self.keys / WIDTH, expand_v=self.inner / WIDTH,
            gate_low_rank_dim=RANK, gate_logit_normalizer=4,
        )

    def parameters(self):
        keys = self.heads * self.keys
        drawn = self.common([keys, keys, self.inner, self.inner, RANK])
        return {**drawn, "gate_weight": self.drawn(keys, RANK), "gate_bias": self.drawn(keys)}

    def program(self, p):
        q, k, v, gate, low = self.split(p)
        return {
            "q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "g_proj.weight": gate, "gk_proj.0.weight": low,
            "gk_proj.1.weight": p["gate_weight"], "gk_proj.1.bias": p["gate_bias"], "o_proj.weight": p["out_weight"],
            "g_norm_swish_gate.weight": p["norm_weight"],
        }


class NegativeKda(Fla):
    """With `negative_eigenvalues`, a bias of the output gate, and keys narrower than values."""

    gate_bias = 0.3

    def __init__(self):
        super().__init__()
        self.take_layer(
            "kda", "KimiDeltaAttention", head_dim=self.keys, expand_v=self.values / self.keys, conv_size=TAPS,
            allow_neg_eigval=True,
        )

    parameters = Kda.parameters

    def program(self, p):
        q, k, v, decay, gate, b = self.split(p)
        keys = self.heads * self.keys
        filters = dict(zip("qkv", self.filters(p).split([keys, keys, self.inner]), strict=True))
        return {
            **{f"{name}_conv1d.weight": weight for name, weight in filters.items()}, "q_proj.weight": q, "k_proj.weight": k,
            "v_proj.weight": v, "b_proj.weight": b, "f_proj.0.weight": decay, "f_proj.1.weight": p["decay_weight"],
            "A_log": p["rate_log"].flatten(), "dt_bias": p["step_bias"], "g_proj.0.weight": gate,
            "g_proj.1.weight": p["gate_weight"], "g_proj.1.bias": p["gate_bias"], "o_norm.weight": p["norm_weight"],
            "o_proj.weight": p["out_weight"],
        }


@contextlib.contextmanager
def f64_for_f32():
    with (
        mock.patch.multiple(torch, float32=torch.float64, float=torch.float64),
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        yield


def tensors_of(case):
    """Inputs have three decimals, so that the file is short."""
    given = {"x": case.drawn(LANES, LENGTH, WIDTH), "out_grad": case.drawn(LANES, LENGTH, WIDTH), **case.parameters()}
    given = {name: value.mul(1000).round().div(1000) for name, value in given.items()}
    leaves = {name: value.clone().requires_grad_() for name, value in given.items() if name != "out_grad"}
    with f64_for_f32():
        out, states = case.run(leaves, leaves["x"])
        assert out.dtype == torch.float64 and all(state.dtype == torch.float64 for state in states.values())
        grads = torch.autograd.grad((out * given["out_grad"]).sum(), list(leaves.values()), allow_unused=True)
    return {
        **{f"in.{name}": value for name, value in given.items()}, "out": out, **states,
        **{f"grad.{name}": grad for name, grad in zip(leaves, grads, strict=True) if grad is not None},
    }


def main():
    Fla.take_functions(sys.argv[1])
    cases = {
        "gla": Gla(),
        "mamba2": Mamba2(heads=2, keys=6, values=10, groups=1),
        "mamba2_groups": Mamba2(heads=4, keys=6, values=5, groups=2),
        "gated_deltanet": GatedDeltaNet(),
        "gated_deltanet_negative": NegativeGatedDeltaNet(),
        "kda": Kda(),
        "kda_negative": NegativeKda(),
    }
    for seed, (name, case) in enumerate(cases.items()):
        torch.manual_seed(seed)
        with pathlib.Path(__file__).with_name(f"layer_{name}.txt").open("w") as file:
            for tensor, value in tensors_of(case).items():
                print(tensor, value.dim(), *value.shape, *value.flatten().tolist(), file=file)


if __name__ == "__main__":
    main()
