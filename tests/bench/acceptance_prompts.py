#!/usr/bin/env python3
"""Writes prompts for the demo model, as a JSON array of strings.

They are test problems of MBPP (sanitized-mbpp.json) and GSM8K (test.jsonl) in
turns, in the chat form that the demo model was trained on:

  acceptance_prompts.py DATA COUNT > prompts.json
"""
import json
import pathlib
import sys

MBPP_TEST_TASKS = range(11, 511)


def chat(question):
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    tasks = json.loads((data / "mbpp/sanitized-mbpp.json").read_text())
    code = [
        "\n".join([task["prompt"], "Your code should pass these tests:",
                   *task["test_list"]])
        for task in tasks if task["task_id"] in MBPP_TEST_TASKS
    ]
    lines = (data / "gsm8k/test.jsonl").read_text().splitlines()
    sums = [json.loads(line)["question"] for line in lines]
    questions = [q for pair in zip(code, sums) for q in pair]
    if count > len(questions):
        sys.exit(f"there are {len(questions)} prompts, not {count}")
    json.dump([chat(q) for q in questions[:count]], sys.stdout, indent=1)


if __name__ == "__main__":
    main()
