"""Requests of all kinds, drawn from a seed: the same seed, the same requests."""

import json
import random

from proto import bole_pb2

# 32 tasks with the tags of the demo model's chat template around them.
PROMPTS = "tests/golden/demo/mat.json"
STARTS = ["def fibonacci(n):\n", "import os\n", "class Tree:\n",
          "for i in range(10):\n", "# sort a list\n", "def is_prime(n):\n"]


def read_prompts(path=PROMPTS):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["prompts"]


def task_of(prompt):
    """What the user says in a prompt that has a chat's tags."""
    return prompt.split("<|im_start|>user\n")[1].split("<|im_end|>")[0]


def draw_sampling(rng, most_tokens):
    """Greedy for a third of them, and seeded otherwise."""
    sampling = bole_pb2.SamplingParams(
        max_tokens=rng.randint(8, most_tokens),
        temperature=rng.choice([0, 0.7, 1.0]),
        seed=rng.getrandbits(63),
        ignore_eos=rng.random() < 0.5)
    if rng.random() < 0.5:
        sampling.logprobs = rng.choice([0, 3])
    if rng.random() < 0.3:
        sampling.top_p = 0.9
    if rng.random() < 0.3:
        sampling.top_k = 40
    if rng.random() < 0.2:
        sampling.min_p = 0.02
    if rng.random() < 0.2:
        sampling.frequency_penalty = 0.3
        sampling.repetition_penalty = 1.1
    if rng.random() < 0.2:
        sampling.stop.append("\n\n")
    return sampling


def draw_request(rng, prompts, most_tokens, most_characters):
    """A request for up to `most_tokens`, with a prompt that is as short as three
    words or as long as `most_characters` and the tags of a chat."""
    request = bole_pb2.GenerateRequest(
        sampling_params=draw_sampling(rng, most_tokens))
    kind = rng.choice(["start", "text", "chat", "long text", "long chat"])
    tasks = [task_of(p) for p in rng.choices(prompts, k=len(prompts))]
    length = rng.randint(most_characters // 2, most_characters)
    if kind == "start":
        request.text = rng.choice(STARTS)
    elif kind == "text":
        request.text = rng.choice(prompts)
    elif kind == "chat":
        request.chat.messages.add(role="user", content=tasks[0])
    elif kind == "long text":
        request.text = "\n".join(tasks)[:length]
    else:
        turns = 5  # They alternate, and the user has the last word.
        for i in range(turns):
            request.chat.messages.add(
                role="assistant" if i % 2 else "user",
                content="\n".join(tasks[i:])[:length // turns])
    return request


def draw_requests(seed, count, most_tokens, most_characters):
    rng = random.Random(seed)
    prompts = read_prompts()
    return [draw_request(rng, prompts, most_tokens, most_characters)
            for _ in range(count)]
