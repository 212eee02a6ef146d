#!/usr/bin/env python3
"""Runs one_page_of_pytorch.py, or generates with PyPI transformers; scripts/bench/compare_gpu.py starts it.

    page_code.py train|generate JOB.json RESULT.json

Both take "device" and "checkpoint", one of mneme's. To train: "model", the table [model] of the run's experiment.toml;
"vocabulary", "rows" (of the memory), "threads", what training.py asks for, and "trainings", a list of keys that replace the
job's: each starts with the checkpoint. A result: "trainings", a list of what training.py gives. To generate: "model",
"vocabulary", "prompt" (ids), "tokens", "samples" (a list), "precision", "caches" ("dynamic" = transformers' default, "static" = of a
fixed size, compiled). A result: "generations", a list with "cache", "samples", "ids", "peak_bytes" and "seconds" (of all tokens
but the first, which the prompt gives).
"""
import json
import sys
import warnings
from pathlib import Path

import torch

import one_page_of_pytorch as page
import training

# Names of mneme's checkpoints, and those of transformers; replaced in this order.
NAMES_OF_GPT2 = (("model.embedding.0.", "transformer.wte."), ("model.position.embedding", "transformer.wpe.weight"),
                 ("model.final_norm.", "transformer.ln_f."), ("model.layers.", "transformer.h."), ("attention.norm.", "ln_1."),
                 ("attention.qkv.", "attn.c_attn."), ("attention.output.", "attn.c_proj."), ("ff.norm.", "ln_2."),
                 ("ff.in.", "mlp.c_fc."), ("ff.out.", "mlp.c_proj."))


def train_once(job):
    model = page.make_model({**job["model"], **job.get("model_changes", {})}, job["vocabulary"], job["segment"], job["rows"])
    page.load_checkpoint(model, training.read_tensors(job["checkpoint"]))
    model.to(job["device"])

    def step(net, inputs, targets, memory):
        loss, memory = net(inputs.t(), targets.t(), memory)
        return loss, loss, memory

    lanes = len(training.read_tensors(job["tokens"])["input"])
    return training.train(model, step, model.first_memory(lanes), job)


def train(job):
    torch.set_num_threads(job["threads"])
    return {"trainings": [train_once({**job, **changes}) for changes in job["trainings"]]}


def gpt2_of_transformers(job):
    """The library's model with the weights of mneme's GPT-2; its matrices are [inputs, outputs]."""
    import transformers

    m = job["model"]
    config = transformers.GPT2Config(vocab_size=job["vocabulary"], n_positions=m["positions"], n_embd=m["width"],
                                     n_layer=m["layers"], n_head=m["heads"], n_inner=m["ff"],
                                     layer_norm_epsilon=m["norm_epsilon"], eos_token_id=None, bos_token_id=None)
    model = transformers.GPT2LMHeadModel(config)
    weights = {}
    for name, tensor in training.read_tensors(job["checkpoint"]).items():
        if name.startswith("model."):
            is_matrix = tensor.dim() == 2 and ".layers." in name
            for ours, theirs in NAMES_OF_GPT2:
                name = name.replace(ours, theirs)
            weights[name] = tensor.t().contiguous() if is_matrix else tensor
    weights["lm_head.weight"] = weights["transformer.wte.weight"]
    model.load_state_dict(weights)
    return model.to(job["device"], torch.bfloat16 if job["precision"] == "bf16" else torch.float32).eval()


@torch.inference_mode()
def generate(job):
    model, out = gpt2_of_transformers(job), []
    for cache in job["caches"]:
        settings = {"cache_implementation": "static"} if cache == "static" else {}
        for samples in job["samples"]:
            rows = torch.tensor([job["prompt"]] * samples, device=job["device"])

            def timed(tokens):
                start = training.clock(job)
                ids = model.generate(rows, attention_mask=torch.ones_like(rows), do_sample=False, min_new_tokens=tokens,
                                     max_new_tokens=tokens, pad_token_id=0, **settings)
                return ids[:, rows.shape[1] :].tolist(), training.clock(job) - start

            timed(job["tokens"])  # compiles, and reserves memory
            timed(1)
            if job["device"] != "cpu":
                torch.cuda.reset_peak_memory_stats(job["device"])
            ids, seconds = timed(job["tokens"])
            seconds -= timed(1)[1]
            peak = torch.cuda.max_memory_allocated(job["device"]) if job["device"] != "cpu" else None
            out.append({"cache": cache, "samples": samples, "ids": ids, "seconds": seconds, "peak_bytes": peak})
    return {"generations": out}


def main():
    task, job_file, result_file = sys.argv[1:]
    warnings.simplefilter("ignore")
    result = {"train": train, "generate": generate}[task](json.loads(Path(job_file).read_text()))
    Path(result_file).write_text(json.dumps({**result, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
