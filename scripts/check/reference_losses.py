#!/usr/bin/env python3
"""The losses of a text by transformers, for `mneme certify --reference` (docs/certificate.md).

    python scripts/check/reference_losses.py MODEL_FOLDER TEXT OUT.safetensors [--segment T] [--tokens N]

The text's first N ids, in segments of T tokens without memory, in f32 on the CPU. TEXT is a text for the folder's tokenizer,
or, for a folder without one, a safetensors file with the ids `tokens` [n]. Needs torch, transformers and safetensors.
"""
import argparse

import torch
import transformers
from safetensors.torch import load_file, save_file


def losses(model, ids, segment):
    """nats [n-1] of the second to the last id: each segment is read alone."""
    out = []
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, segment):
            inputs = ids[begin:min(begin + segment, len(ids) - 1)]
            targets = ids[begin + 1:begin + 1 + len(inputs)]
            logits = model(inputs[None]).logits[0].double()
            out.append(torch.nn.functional.cross_entropy(logits, targets, reduction="none"))
    return torch.cat(out)


def read_ids(model, text):
    if text.endswith(".safetensors"):
        return load_file(text)["tokens"].long()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    with open(text, encoding="utf-8", newline="") as file:
        return torch.tensor(tokenizer(file.read(), add_special_tokens=False)["input_ids"], dtype=torch.int64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--segment", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=2048)
    arguments = parser.parse_args()
    model = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32).eval()
    places = model.config.max_position_embeddings
    if not 1 <= arguments.segment <= places:
        parser.error(f"--segment {arguments.segment}: expected 1 to the model's {places} positions")
    ids = read_ids(arguments.model, arguments.text)[:arguments.tokens]
    if len(ids) < 2:
        parser.error(f"{arguments.text}: expected at least 2 tokens, got {len(ids)}")
    save_file({"input": ids, "nll": losses(model, ids, arguments.segment)}, arguments.out,
              metadata={"segment": str(arguments.segment), "precision": "f32"})


if __name__ == "__main__":
    main()
