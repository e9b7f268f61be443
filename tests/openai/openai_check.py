#!/usr/bin/python3
"""Runs a program that uses OpenAI's package against both services.

Usage, from the root of the tree, with the services built:
openai_check.py END_TO_END.mjs, whose packages are installed

The model is the demo's with tokens that write thoughts and calls by
themselves, since the demo was not taught to: a client calls for one of them by
a bias.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/e2e")

import services  # noqa: E402

# The tokens for <think> and </think> in the demo, which never draws them.
THOUGHT = 8190
CALL = 8191
WRITTEN = {
    THOUGHT: "<think>\nRain?\n</think>\n\n",
    CALL: '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n'
          "</tool_call>\n",
}
TEMPLATE = """
{%- for tool in tools or [] %}
  {{- 'Tool: ' + tool | tojson + '\\n' }}
{%- endfor %}
{%- for message in messages %}
  {{- '<|im_start|>' + message.role + '\\n' + message.content }}
  {%- for call in message.tool_calls or [] %}
    {{- '<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}
  {%- endfor %}
  {{- '<|im_end|>\\n' }}
{%- endfor %}
{#- An answer may begin with <think> and </think>. #}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def write_model(folder):
    """A copy of the model with the tokens and the template above."""
    shutil.copytree(
        services.MODEL, folder,
        copy_function=lambda a, b: os.symlink(os.path.realpath(a), b))

    def edit(name, change):
        path = os.path.join(folder, name)
        with open(path) as file:
            value = json.load(file)
        change(value)
        os.unlink(path)
        with open(path, "w") as file:
            json.dump(value, file)

    def write_tokens(tokenizer):
        for token in tokenizer["added_tokens"]:
            if token["id"] in WRITTEN:
                token.update(content=WRITTEN[token["id"]], special=False)

    edit("tokenizer.json", write_tokens)
    edit("tokenizer_config.json",
         lambda config: config.update(chat_template=TEMPLATE))


def http_port(service):
    return next(line.split()[-1] for line in service.output
                if line.startswith("http on port "))


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    services.WORKER = services.built(services.WORKER)
    services.SCHEDULER = services.built(services.SCHEDULER)
    with tempfile.TemporaryDirectory(prefix="bole_openai.") as scratch:
        model = os.path.join(scratch, "demo")
        write_model(model)
        services.MODEL = model
        with services.Services(
                scheduler_flags=["--http-listen", "127.0.0.1:0"]) as both:
            base_url = f"http://127.0.0.1:{http_port(both.scheduler)}/v1"
            return subprocess.run(
                ["node", sys.argv[1], "--base-url", base_url,
                 "--thought", str(THOUGHT), "--call", str(CALL)],
                timeout=300).returncode


if __name__ == "__main__":
    sys.exit(main())
