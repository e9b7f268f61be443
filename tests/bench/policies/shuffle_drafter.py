#!/usr/bin/env python3
"""A copy of a checkpoint whose drafter is always wrong.

    tests/bench/policies/shuffle_drafter.py MODEL COPY

The numbers of every mtp.* tensor change places with each other. The target's
tensors stay as they are, so the texts are the same and a step costs as much;
what is drafted has nothing to do with them.
"""

import array
import json
import os
import pathlib
import random
import shutil
import sys

SIZES = {"F32": "I", "BF16": "H", "F16": "H"}


def shuffle(path, chance):
    """How many tensors of a safetensors file were shuffled in place."""
    count = 0
    with open(path, "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name, tensor in header.items():
            if not name.startswith("mtp."):
                continue
            begin, end = tensor["data_offsets"]
            file.seek(8 + length + begin)
            numbers = array.array(SIZES[tensor["dtype"]],
                                  file.read(end - begin))
            chance.shuffle(numbers)
            file.seek(8 + length + begin)
            file.write(numbers.tobytes())
            count += 1
    return count


def copy(model, to, seed):
    """REQUIRES: the folder `to` does not exist."""
    shutil.copytree(model, to)
    chance = random.Random(seed)
    count = 0
    for path in sorted(pathlib.Path(to).glob("*.safetensors")):
        os.chmod(path, 0o644)
        count += shuffle(path, chance)
    if count == 0:
        raise RuntimeError(f"{model} has no mtp.* tensors")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    copy(sys.argv[1], sys.argv[2], seed=1)
