"""Writes the model folders of tests/golden/decoder and what PyPI transformers computes for them.

    python3 -m venv /tmp/decoder && /tmp/decoder/bin/pip install torch==2.11.0 transformers==5.23.0
    /tmp/decoder/bin/python tests/golden/decoder/make_golden.py          # writes the folders beside this file
    /tmp/decoder/bin/python tests/golden/decoder/make_golden.py gemma3   # writes these alone
    /tmp/decoder/bin/python tests/golden/decoder/make_golden.py --check  # computes the stored logits again

--check also runs under transformers 4.57, which reads config_v4.json in place of config.json. README.md says what
each tensor means. The same versions of both packages write the same bytes on the same processor; on another, the
last digits of the f64 values differ.
"""

import argparse
import contextlib
import copy
import importlib
import json
import math
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM, DynamicCache

HERE = Path(__file__).resolve().parent
SEED = 20260119
LANES, LENGTH, CHUNK = 2, 24, 8
WINDOW_LENGTH, WINDOW_ROWS = 48, 16
LEARNING_RATE, BETAS, EPSILON, DECAY = 1e-2, (0.9, 0.95), 1e-8, 0.1

SMALL = dict(vocab_size=64, hidden_size=24, intermediate_size=40, num_hidden_layers=2, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=128)
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=256)

GEMMA3 = dict(sliding_attention=dict(rope_type="default", rope_theta=100.0),
              full_attention=dict(rope_type="linear", rope_theta=5000.0, factor=2.0))

# case: family, settings that differ from SMALL, dtype of the stored weights
CASES = {
    "gpt2": ("gpt2", dict(vocab_size=64, n_embd=24, n_layer=2, n_head=3, n_positions=32, bos_token_id=1,
                          eos_token_id=2), "f32"),
    "gpt2_variants": ("gpt2", dict(vocab_size=72, n_embd=24, n_layer=2, n_head=4, n_positions=24, n_inner=40,
                                   activation_function="gelu", layer_norm_epsilon=1e-3,
                                   scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False, bos_token_id=1,
                                   eos_token_id=2), "f32"),
    "llama_plain": ("llama", dict(num_attention_heads=3), "f32"),
    "llama_grouped_llama3": ("llama", dict(num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                                           head_dim=8, max_position_embeddings=512, rms_norm_eps=1e-5,
                                           tie_word_embeddings=True, rope_parameters=LLAMA3), "f32"),
    "llama_linear": ("llama", dict(num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5,
                                   rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=2.5)), "bf16"),
    "llama_yarn": ("llama", dict(num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                                 max_position_embeddings=1024, rope_parameters=YARN), "f32"),
    "llama_bias": ("llama", dict(num_attention_heads=3, attention_bias=True, mlp_bias=True), "f16"),
    "mistral": ("mistral", dict(num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, sliding_window=None,
                                rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), "f32"),
    "qwen2": ("qwen2", dict(vocab_size=80, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                            rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), "f32"),
    "qwen3": ("qwen3", dict(num_attention_heads=3, num_key_value_heads=1, head_dim=16,
                            rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), "f32"),
    # Those with a window and the Gemmas are made with transformers 5.24.
    "mistral_window": ("mistral", dict(num_attention_heads=4, num_key_value_heads=2, sliding_window=7,
                                       rope_parameters=dict(rope_type="default", rope_theta=500.0)), "f32"),
    "qwen3_window": ("qwen3", dict(num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
                                   use_sliding_window=True, sliding_window=5, max_window_layers=1), "f32"),
    "gemma": ("gemma", dict(hidden_size=36, num_attention_heads=3, num_key_value_heads=1, head_dim=8), "f32"),
    "gemma2": ("gemma2", dict(hidden_size=36, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                              head_dim=8, sliding_window=6, query_pre_attn_scalar=5, attn_logit_softcapping=2.0,
                              final_logit_softcapping=3.0), "f32"),
    "gemma3": ("gemma3_text", dict(hidden_size=36, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1,
                                   head_dim=8, sliding_window=6, query_pre_attn_scalar=5, sliding_window_pattern=3,
                                   rope_parameters=GEMMA3), "f32"),
}
# Folders with the weights of another case in another form; they have no values of their own.
COPIES = {"llama_sharded": "llama_grouped_llama3", "gpt2_hub": "gpt2"}
WINDOWED = ("llama_grouped_llama3", "qwen3")

CLASSES = {"gpt2": ("GPT2Config", "GPT2LMHeadModel"), "llama": ("LlamaConfig", "LlamaForCausalLM"),
           "mistral": ("MistralConfig", "MistralForCausalLM"), "qwen2": ("Qwen2Config", "Qwen2ForCausalLM"),
           "qwen3": ("Qwen3Config", "Qwen3ForCausalLM"), "gemma": ("GemmaConfig", "GemmaForCausalLM"),
           "gemma2": ("Gemma2Config", "Gemma2ForCausalLM"), "gemma3_text": ("Gemma3TextConfig", "Gemma3ForCausalLM")}
# Modules of families that are named otherwise.
MODULES = {"gemma3_text": "gemma3"}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class DoubleTorch:
    """The module torch, in which the names of the 32-bit type mean the 64-bit one."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


@contextlib.contextmanager
def in_double(family):
    """Executes transformers' code of a family in double throughout.

    The rotary tables, the RMS norm and the softmax of these models are computed in float32 even when the model is
    double, because the source names torch.float32, or x.float(). For the time of this context both mean float64.
    """
    module_name = MODULES.get(family, family)
    modules = [importlib.import_module("transformers.modeling_rope_utils"),
               importlib.import_module(f"transformers.models.{module_name}.modeling_{module_name}")]
    to_float = torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double
    for module in modules:
        module.torch = DoubleTorch()
    try:
        yield
    finally:
        torch.Tensor.float = to_float
        for module in modules:
            module.torch = torch


def make_config(family, settings):
    settings = copy.deepcopy(settings)
    if family != "gpt2":
        settings = {**SMALL, **settings}
    config = getattr(transformers, CLASSES[family][0])(**settings)
    config._attn_implementation = "eager"
    return config


def make_model(family, config):
    return getattr(transformers, CLASSES[family][1])(config).eval()


def fan_in(name, weight, family):
    is_conv1d = family == "gpt2" and ".h." in name
    return weight.shape[0] if is_conv1d else weight.shape[1]


def randomise(model, family, dtype, generator):
    """Weights large enough that every part changes the logits, exactly representable in `dtype`."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            value = noise / math.sqrt(fan_in(name, parameter, family))
            if "q_proj" in name or "k_proj" in name or "c_attn" in name:
                value *= 1.5
        elif name.endswith("bias"):
            value = 0.1 * noise
        else:
            value = (0 if family.startswith("gemma") else 1) + 0.1 * noise  # Gemma adds 1
        parameter.data.copy_(value.to(DTYPES[dtype]))


def next_token_loss(logits, ids):
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def residual_stream(model, ids):
    """Logits, the residual stream (embeddings, then after each layer), and the output of the last norm."""
    base = model.base_model
    layers = base.h if hasattr(base, "h") else base.layers
    norm = base.ln_f if hasattr(base, "ln_f") else base.norm
    stream = []
    hooks = [layers[0].register_forward_pre_hook(lambda m, args: stream.append(args[0]))]
    hooks += [layer.register_forward_hook(lambda m, args, out: stream.append(out)) for layer in layers]
    hooks.append(norm.register_forward_hook(lambda m, args, out: stream.append(out)))
    try:
        logits = model(ids, use_cache=False).logits
    finally:
        for hook in hooks:
            hook.remove()
    return logits, stream[:-1], stream[-1]


def gradients_and_step(model, ids):
    """Loss, gradients by name, and the parameters after one step of AdamW."""
    model.zero_grad()
    loss = next_token_loss(model(ids, use_cache=False).logits, ids)
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [dict(params=matrices, weight_decay=DECAY), dict(params=vectors, weight_decay=0.0)]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON).step()
    after = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.data.copy_(before[name])
    return loss.detach(), gradients, after


@torch.no_grad()
def chunked(model, ids, size, rows=None):
    """Logits in chunks with transformers' key/value cache, cut to its newest `rows` before each chunk."""
    cache = DynamicCache(config=model.config)
    parts = []
    for start in range(0, ids.shape[1], size):
        if rows is not None:
            for layer in cache.layers:
                if start:
                    layer.keys, layer.values = layer.keys[..., -rows:, :], layer.values[..., -rows:, :]
        positions = torch.arange(start, start + size)[None]
        out = model(ids[:, start : start + size], past_key_values=cache, position_ids=positions, use_cache=True)
        parts.append(out.logits)
    return torch.cat(parts, 1)


@torch.no_grad()
def windowed_by_mask(model, ids, size, rows):
    """The values of chunked(..., rows) in one pass without a cache, by an attention mask."""
    place = torch.arange(ids.shape[1])
    first_seen = (place // size) * size - rows
    seen = (place[None] <= place[:, None]) & (place[None] >= first_seen[:, None])
    mask = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    return model(ids, attention_mask=mask[None, None].expand(ids.shape[0], 1, -1, -1), use_cache=False).logits


def check_double(model, ids, gradients):
    """Central differences agree with the gradients to 1e-9 only where nothing is computed in float32."""
    generator = torch.Generator().manual_seed(3)
    parameters = dict(model.named_parameters())
    direction = {n: torch.randn(p.shape, generator=generator, dtype=torch.float64) for n, p in parameters.items()}
    length = math.sqrt(sum(d.square().sum().item() for d in direction.values()))
    direction = {n: d / length for n, d in direction.items()}
    expected = sum((gradients[n] * direction[n]).sum() for n in parameters).item()
    step, values = 1e-5, []
    with torch.no_grad():
        for sign in (1, -2):
            for name, p in parameters.items():
                p += sign * step * direction[name]
            values.append(next_token_loss(model(ids, use_cache=False).logits, ids).item())
        for name, p in parameters.items():
            p += step * direction[name]
    measured = (values[0] - values[1]) / (2 * step)
    assert abs(measured - expected) < 1e-9, (measured, expected)


def distance(ours, theirs):
    """Relative Frobenius distance."""
    return (torch.linalg.norm(ours.double() - theirs) / torch.linalg.norm(theirs)).item()


def values_of(case, family, config, weights):
    """The tensors of golden.safetensors, and what was measured of float32 against float64."""
    generator = torch.Generator().manual_seed(SEED + 1)
    ids = torch.randint(config.vocab_size, (LANES, LENGTH), generator=generator)
    with in_double(family):
        model = make_model(family, config).double()
        model.load_state_dict(weights, strict=False)
        model.tie_weights()
        logits, stream, normed = residual_stream(model, ids)
        loss, gradients, after = gradients_and_step(model, ids)
        in_chunks, singly = chunked(model, ids, CHUNK), chunked(model, ids, 1)
        windowed_ids = torch.randint(config.vocab_size, (LANES, WINDOW_LENGTH), generator=generator)
        if case in WINDOWED:
            windowed = chunked(model, windowed_ids, CHUNK, WINDOW_ROWS)
            by_mask = windowed_by_mask(model, windowed_ids, CHUNK, WINDOW_ROWS)
            assert (windowed - by_mask).abs().max() < 1e-12
            assert (windowed - chunked(model, windowed_ids, CHUNK)).abs().max() > 1e-3
        check_double(model, ids, gradients)
    assert max((in_chunks - logits).abs().max(), (singly - logits).abs().max()) < 1e-12

    single = make_model(family, config)
    single.load_state_dict(weights, strict=False)
    single.tie_weights()
    with torch.no_grad():
        single_logits = single(ids, use_cache=False).logits
        single_chunked = chunked(single, ids, CHUNK)
    _, single_gradients, single_after = gradients_and_step(single, ids)

    tensors = {"input_ids": ids, "logits": logits, "f32.logits": single_logits, "loss": loss.reshape(1),
               "chunked.logits": in_chunks, "single.logits": singly.float(), "hidden.norm": normed.float()}
    tensors |= {f"hidden.{i}": h.float() for i, h in enumerate(stream)}
    tensors |= {f"grad.{name}": g.float() for name, g in gradients.items()}
    tensors |= {f"adamw.{name}": p.float() for name, p in after.items()}
    if case in WINDOWED:
        tensors |= {"windowed.input_ids": windowed_ids, "windowed_m16.logits": windowed}
    measured = {
        "f32_logits_max_abs": (single_logits.double() - logits).abs().max().item(),
        "f32_chunked_logits_max_abs": (single_chunked.double() - logits).abs().max().item(),
        "f32_grad_max_rel": max(distance(single_gradients[n], g) for n, g in gradients.items()),
        "f32_grad_max_rel_of": max(gradients, key=lambda n: distance(single_gradients[n], gradients[n])),
        "f32_adamw_max_rel": max(distance(single_after[n], p) for n, p in after.items()),
        "f32_adamw_max_rel_of": max(after, key=lambda n: distance(single_after[n], after[n])),
        "logits_max_abs": logits.abs().max().item(),
    }
    return {n: t.detach().contiguous() for n, t in tensors.items()}, measured


def write_config_v4(folder):
    """config_v4.json: config.json in the spelling that transformers wrote before version 5."""
    config = json.loads((folder / "config.json").read_text())
    rope = config.pop("rope_parameters", None)
    if rope is not None and "sliding_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
        config["sliding_window_pattern"] = config["layer_types"].index("full_attention") + 1
    if rope is not None:
        config["rope_theta"] = rope.pop("rope_theta")
        kind = rope.pop("rope_type")
        config["rope_scaling"] = None if kind == "default" else {"rope_type": kind, **rope}
        if kind == "linear" and config["model_type"] == "llama":  # its still older spelling
            config["rope_scaling"] = {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    if config.get("use_sliding_window") is False:  # published folders have a window and do not use it
        config |= {"sliding_window": 4, "max_window_layers": 0}
    for key in ("bos_token_id", "eos_token_id", "pad_token_id", "rope_scaling"):
        if config.get(key, 0) is None:
            config.pop(key)
    for key in ("layer_types", "add_cross_attention"):
        config.pop(key, None)
    if config["model_type"] == "gpt2" and config["tie_word_embeddings"]:
        config.pop("tie_word_embeddings")
    (folder / "config_v4.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_case(case, root):
    family, settings, dtype = CASES[case]
    seed = SEED + list(CASES).index(case)
    config = make_config(family, settings)
    model = make_model(family, config)
    randomise(model, family, dtype, torch.Generator().manual_seed(seed))
    folder = root / case
    model.to(DTYPES[dtype]).save_pretrained(folder)
    write_config_v4(folder)
    weights = {name: w.double() for name, w in load_file(folder / "model.safetensors").items()}
    tensors, measured = values_of(case, family, config, weights)
    metadata = {"case": case, "family": family, "weights": dtype, "weights_seed": seed, "input_ids_seed": SEED + 1,
                "chunk": CHUNK, "adamw": {"lr": LEARNING_RATE, "betas": BETAS, "eps": EPSILON, "weight_decay": DECAY},
                "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                "measured": measured}
    if case in WINDOWED:
        metadata["window_rows"] = WINDOW_ROWS
    save_file(tensors, folder / "golden.safetensors", {"golden": json.dumps(metadata)})
    print(f"{case}: {len(tensors)} tensors, logits f32 against f64 {measured['f32_logits_max_abs']:.1e}, "
          f"gradients {measured['f32_grad_max_rel']:.1e} ({measured['f32_grad_max_rel_of']}), "
          f"AdamW {measured['f32_adamw_max_rel']:.1e} ({measured['f32_adamw_max_rel_of']})")


def write_sharded(root):
    """llama_sharded: the weights of its source in shards of at most 20 kB, with the index."""
    folder = root / "llama_sharded"
    AutoModelForCausalLM.from_pretrained(root / COPIES[folder.name]).save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) >= 3


def write_hub(root):
    """gpt2_hub: gpt2 as its first published folders have it, without the prefix `transformer.` and with the buffers
    `h.<i>.attn.bias` of the causal mask."""
    source, folder = root / COPIES["gpt2_hub"], root / "gpt2_hub"
    folder.mkdir()
    config = json.loads((source / "config_v4.json").read_text())
    positions = config["n_positions"]
    config |= {"n_ctx": positions, "architectures": ["GPT2LMHeadModel"]}
    for key in ("torch_dtype", "transformers_version", "tie_word_embeddings", "n_inner", "add_cross_attention",
                "use_cache", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    weights = {n.removeprefix("transformer."): w for n, w in load_file(source / "model.safetensors").items()}
    for layer in range(config["n_layer"]):
        weights[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(positions, positions)).view(1, 1, positions, positions)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def reads_v4():
    return int(transformers.__version__.split(".")[0]) < 5


@torch.no_grad()
def check_folder(folder, source, config_file):
    """The largest deviation of float32 logits from the stored float64 ones, with the folder read by this version."""
    with tempfile.TemporaryDirectory() as work:
        for file in folder.iterdir():
            if file.name != "golden.safetensors" and not file.name.startswith("config"):
                shutil.copy(file, work)
        shutil.copy(config_file, Path(work) / "config.json")
        model = AutoModelForCausalLM.from_pretrained(work, dtype=torch.float32, attn_implementation="eager").eval()
        with safe_open(source / "golden.safetensors", "pt") as golden:
            ids, logits = golden.get_tensor("input_ids"), golden.get_tensor("logits")
        return (model(ids).logits.double() - logits).abs().max().item()


def check(root, cases):
    for case in cases or [*CASES, *COPIES]:
        folder, source = root / case, root / COPIES.get(case, case)
        spellings = [name for name in ("config.json", "config_v4.json") if (folder / name).exists()]
        if reads_v4() and "config_v4.json" in spellings:
            spellings.remove("config.json")
        for name in spellings:
            if reads_v4() and case == "llama_sharded":
                continue  # its config.json has the spelling of version 5
            deviation = check_folder(folder, source, folder / name)
            print(f"{case} with {name}: {deviation:.1e}")
            assert deviation < 1e-5, case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; compute the stored logits again")
    parser.add_argument("cases", nargs="*", help="folders to write; all where none is named")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the model folders")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.check:
        for case in arguments.cases or [*CASES, *COPIES]:
            shutil.rmtree(arguments.out / case, ignore_errors=True)
        for case in arguments.cases or CASES:
            write_case(case, arguments.out)
        if not arguments.cases:
            write_sharded(arguments.out)
            write_hub(arguments.out)
    check(arguments.out, arguments.cases)


if __name__ == "__main__":
    main()
