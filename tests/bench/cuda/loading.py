#!/usr/bin/env python3
"""How fast a checkpoint is loaded from the page cache.

Writes a checkpoint of random weights to FOLDER, in the layout of released ones,
unless one of the same arguments is there already; then loads it with
`bole-eval bench --modes none` and keeps seconds, bytes and rates in OUT. The
files were written just before, so they are read from memory: FOLDER needs room
for 18.4 GB with the default arguments, on a disk or in /dev/shm, and the machine
twice as much memory as that. A load with --device cpu takes four bytes of
memory for each weight.

Nothing but Python's own library is needed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

# The published 9B.
HIDDEN, VOCABULARY, INTERMEDIATE = 4096, 248320, 12288
QUERY_HEADS, KV_HEADS, HEAD_DIM = 16, 4, 256
KEY_HEADS, VALUE_HEADS, LINEAR_HEAD_DIM, TAPS = 16, 32, 128, 4
FULL_ATTENTION_INTERVAL = 4

SHARD_BYTES = 4 << 30
BLOCK_BYTES = 32 << 20  # Of random weights, which repeat.
WRITERS = 4

# Bytes of an element; which bits of it are random, and what the others are:
# numbers of either sign between 2^-7 and 2^-6.
DTYPES = {"BF16": (2, 0x807f, 0x3c00), "F16": (2, 0x83ff, 0x2000),
          "F32": (4, 0x807fffff, 0x3c000000)}

DONE = re.compile(r"^loading: [\d.]+ GB in ([\d.]+) s", re.MULTILINE)


def layer_kinds(layers):
    return ["full_attention" if i % FULL_ATTENTION_INTERVAL == 0
            else "linear_attention" for i in range(1, layers + 1)]


def config_of(layers):
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "attn_output_gate": True,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "layer_types": layer_kinds(layers),
        "linear_conv_kernel_dim": TAPS,
        "linear_key_head_dim": LINEAR_HEAD_DIM,
        "linear_num_key_heads": KEY_HEADS,
        "linear_num_value_heads": VALUE_HEADS,
        "linear_value_head_dim": LINEAR_HEAD_DIM,
        "max_position_embeddings": 262144,
        "mtp_num_hidden_layers": 1,
        "num_attention_heads": QUERY_HEADS,
        "num_hidden_layers": layers,
        "num_key_value_heads": KV_HEADS,
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"partial_rotary_factor": 0.25,
                            "rope_theta": 10000000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
        "vocab_size": VOCABULARY,
    }


def mixer_shapes(kind):
    if kind == "full_attention":
        query, kv = QUERY_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
        return {"self_attn.q_proj.weight": (2 * query, HIDDEN),
                "self_attn.k_proj.weight": (kv, HIDDEN),
                "self_attn.v_proj.weight": (kv, HIDDEN),
                "self_attn.o_proj.weight": (HIDDEN, query),
                "self_attn.q_norm.weight": (HEAD_DIM,),
                "self_attn.k_norm.weight": (HEAD_DIM,)}
    values = VALUE_HEADS * LINEAR_HEAD_DIM
    channels = 2 * KEY_HEADS * LINEAR_HEAD_DIM + values
    return {"linear_attn.in_proj_qkv.weight": (channels, HIDDEN),
            "linear_attn.in_proj_z.weight": (values, HIDDEN),
            "linear_attn.in_proj_b.weight": (VALUE_HEADS, HIDDEN),
            "linear_attn.in_proj_a.weight": (VALUE_HEADS, HIDDEN),
            "linear_attn.conv1d.weight": (channels, 1, TAPS),
            "linear_attn.A_log": (VALUE_HEADS,),
            "linear_attn.dt_bias": (VALUE_HEADS,),
            "linear_attn.norm.weight": (LINEAR_HEAD_DIM,),
            "linear_attn.out_proj.weight": (HIDDEN, values)}


def layer_shapes(prefix, kind):
    shapes = {"input_layernorm.weight": (HIDDEN,),
              "post_attention_layernorm.weight": (HIDDEN,),
              **mixer_shapes(kind),
              "mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
              "mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
              "mlp.down_proj.weight": (HIDDEN, INTERMEDIATE)}
    return {prefix + name: shape for name, shape in shapes.items()}


def all_shapes(layers):
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for i, kind in enumerate(layer_kinds(layers)):
        shapes |= layer_shapes(f"model.layers.{i}.", kind)
    shapes |= {"model.norm.weight": (HIDDEN,),
               "lm_head.weight": (VOCABULARY, HIDDEN),
               "mtp.fc.weight": (HIDDEN, 2 * HIDDEN),
               "mtp.pre_fc_norm_embedding.weight": (HIDDEN,),
               "mtp.pre_fc_norm_hidden.weight": (HIDDEN,),
               "mtp.norm.weight": (HIDDEN,)}
    return shapes | layer_shapes("mtp.layers.0.", "full_attention")


def size_of(shape, dtype):
    size = DTYPES[dtype][0]
    for dimension in shape:
        size *= dimension
    return size


def random_block(dtype):
    element, mask, bits = DTYPES[dtype]
    count = BLOCK_BYTES // element
    repeat = lambda value: int.from_bytes(
        value.to_bytes(element, "little") * count, "little")
    drawn = int.from_bytes(random.Random(1).randbytes(BLOCK_BYTES), "little")
    return memoryview((drawn & repeat(mask) | repeat(bits)).to_bytes(
        BLOCK_BYTES, "little"))


def write_shard(path, shapes, dtype, block):
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + size_of(shape, dtype)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb", buffering=0) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        while offset > 0:
            offset -= file.write(block[:min(offset, BLOCK_BYTES)])


def shards_of(shapes, dtype):
    shards, room = [], 0
    for name, shape in shapes.items():
        if room <= 0:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = shape
        room -= size_of(shape, dtype)
    return shards


def write_checkpoint(folder, layers, dtype):
    shards = shards_of(all_shapes(layers), dtype)
    names = [f"model-{i:05}-of-{len(shards):05}.safetensors"
             for i in range(1, len(shards) + 1)]
    block = random_block(dtype)
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
        for done in [writers.submit(write_shard, folder / name, shard, dtype,
                                    block)
                     for name, shard in zip(names, shards)]:
            done.result()
    (folder / "config.json").write_text(json.dumps(config_of(layers), indent=1))
    # Last, so that a checkpoint with an index is complete.
    (folder / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {"dtype": dtype},
         "weight_map": {tensor: name for name, shard in zip(names, shards)
                        for tensor in shard}}))


def is_written(folder, layers, dtype):
    try:
        index = json.loads(
            (folder / "model.safetensors.index.json").read_text())
    except OSError:
        return False
    return (index["metadata"] == {"dtype": dtype}
            and index["weight_map"].keys() == all_shapes(layers).keys())


def load(args, matrix_bytes):
    report = args.out.with_suffix(".load.json")
    command = [args.program, "bench", "--modes", "none", "--device", args.device,
               "--model", args.folder, "--json", report]
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    took = time.monotonic() - begin
    sys.stderr.write(done.stderr)
    told = DONE.search(done.stderr)
    if done.returncode != 0 or not told:
        sys.exit(f"{args.program} ended with {done.returncode}")
    device = json.loads(report.read_text())["gpu"]
    report.unlink()
    seconds = float(told[1])
    return device, {"bytes": matrix_bytes, "seconds": seconds,
                    "gb_per_second": round(matrix_bytes / seconds * 1e-9, 2),
                    "process_seconds": round(took, 2)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="bole-eval, of a bundle or of a build")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, help="JSON file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="BF16")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--commit", default="")
    parser.add_argument("--keep", action="store_true",
                        help="leave the checkpoint in FOLDER")
    args = parser.parse_args()

    args.folder.mkdir(parents=True, exist_ok=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    shapes = all_shapes(args.layers)
    file_bytes = sum(size_of(shape, args.dtype) for shape in shapes.values())
    begin = time.monotonic()
    if not is_written(args.folder, args.layers, args.dtype):
        for old in args.folder.glob("model*.safetensors*"):
            old.unlink()
        free = shutil.disk_usage(args.folder).free
        if free < 1.01 * file_bytes:
            sys.exit(f"{args.folder}: {free * 1e-9:.1f} GB are free, and the "
                     f"checkpoint has {file_bytes * 1e-9:.1f}")
        write_checkpoint(args.folder, args.layers, args.dtype)
    write_seconds = round(time.monotonic() - begin, 2)
    print(f"{file_bytes * 1e-9:.1f} GB written in {write_seconds} s", flush=True)

    # What a loader reports: matrices, and not the vectors beside them.
    matrix_bytes = sum(size_of(shape, args.dtype)
                       for shape in shapes.values() if len(shape) == 2)
    runs = []
    for _ in range(args.runs):
        device, run = load(args, matrix_bytes)
        runs.append(run)
    rate = statistics.median(run["gb_per_second"] for run in runs)
    args.out.write_text(json.dumps(
        {"device": device, "commit": args.commit,
         "processors": os.cpu_count(), "dtype": args.dtype,
         "layers": args.layers, "file_bytes": file_bytes,
         "write_seconds": write_seconds, "median_gb_per_second": rate,
         "runs": runs}, indent=1) + "\n")
    print(f"{args.dtype} on {device}: {rate:.2f} GB/s, the median of "
          f"{[run['gb_per_second'] for run in runs]}")
    if not args.keep:
        for file in [*args.folder.glob("model*.safetensors*"),
                     args.folder / "config.json"]:
            file.unlink()


if __name__ == "__main__":
    main()
