#!/usr/bin/python3
"""The flags of bole-eval and quickstart.sh do what their help says, and what is
wrong with a command line is said by name."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

EVAL = "worker_service/eval/bole-eval"
WORKER = "worker_service/bole-worker"
MODEL = ["--model", "models/demo", "--threads", "1"]
PROMPT = "def fibonacci(n):\n"


def run(*command, env=None):
    return subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env={**os.environ, **(env or {})}, check=False)


def key_of_demo():
    """By which quickstart.sh finds the table of the demo model."""
    demo = pathlib.Path("models/demo")
    names = ["config.json", "tokenizer.json", "model.safetensors.index.json"]
    text = b"".join((demo / name).read_bytes() for name in names)
    for weights in sorted(demo.glob("*.safetensors")):
        text += f"./{weights.name} {weights.stat().st_size}\n".encode()
    return hashlib.sha256(text).hexdigest()[:16]


def write_table(path):
    """Writes a table in which every row and every draft costs dearly. What it
    was measured with is what the worker says it wants."""
    of = {"model": "demo", "fingerprint": "?", "device": "?", "build": "?",
          "ranks": 1}
    terms = [{"name": "forward", "axes": [["forward_rows", [0, 512]]],
              "microseconds": [0, 5120000]},
             {"name": "draft", "axes": [["draft_depth", [1, 8]]],
              "microseconds": [50000, 400000]}]
    while "?" in of.values():
        path.write_text(json.dumps({
            "format": 1, "of": of, "round_trip_us": 100, "terms": terms,
            "measured": {"at": "", "combinations": 1, "measurements": 1}}))
        said = run(WORKER, "--model", "models/demo", "--listen", "127.0.0.1:0",
                   "--cost-table", str(path)).stderr
        name, wanted = re.search(
            r"with (\w+) '\?', and this worker has '(.*?)'", said).groups()
        of[name] = wanted
    path.write_text(path.read_text().replace('"?"', json.dumps(of["build"])))


class EvalTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ok(self, *arguments):
        """What a command wrote to its standard output."""
        done = run(EVAL, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *arguments):
        """What a command said that did not do what was asked."""
        done = run(EVAL, *arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr + done.stdout

    def generate(self, *flags, max_tokens=12):
        """The results file of `generate` for one short prompt."""
        prompts = self.folder / "prompts.json"
        prompts.write_text(json.dumps([PROMPT]))
        out = self.folder / "out.json"
        self.ok("generate", *MODEL, "--prompts", str(prompts), "--out",
                str(out), "--max-tokens", str(max_tokens), *flags)
        return json.loads(out.read_text())["results"][0]

    def test_every_command_has_help(self):
        commands = ["answer", "generate", "forward", "replay", "bench",
                    "draft-tokens"]
        overview = self.ok("--help")
        for command in commands:
            self.assertIn(command, overview)
            self.assertIn("--model", self.ok(command, "--help"))

    def test_what_is_wrong_is_named(self):
        for flags, name in [
            (["--nodes", "129"], "--nodes"),
            (["--nodes", "0"], "--nodes"),
            (["--batch", "0"], "--batch"),
            (["--depth", "-1"], "--depth"),
            (["--max-tokens", "0"], "--max-tokens"),
            (["--speculation", "sideways"], "sideways"),
            (["--lease-rounds", "9"], "--lease-rounds"),
            (["--device", "abacus"], "abacus"),
            (["--no-such-flag"], "--no-such-flag"),
            (["--temperature", "-1"], "temperature"),
            (["--top-p", "1.5"], "top_p"),
        ]:
            with self.subTest(flags=flags):
                self.assertIn(name, self.refused("answer", *MODEL, *flags, "x"))
        self.assertIn("no/such/folder", self.refused(
            "answer", "--model", "no/such/folder", "x"))

    def test_speculation_changes_rounds_and_not_the_text(self):
        off = self.generate("--speculation", "off")
        chain = self.generate("--speculation", "chain", "--depth", "3")
        tree = self.generate("--speculation", "tree", "--nodes", "32")

        self.assertEqual(len(off["output_ids"]), 12)
        self.assertEqual(chain["output_ids"], off["output_ids"])
        self.assertEqual(tree["output_ids"], off["output_ids"])
        # The first token comes with the prompt.
        self.assertEqual(off["rounds"], 11)
        self.assertLess(chain["rounds"], off["rounds"])
        self.assertLessEqual(tree["rounds"], chain["rounds"])

    def test_nodes_and_depth_bound_what_a_round_accepts(self):
        narrow = self.generate("--nodes", "2")
        shallow = self.generate("--depth", "1")

        # At most one draft and the bonus token in each round.
        self.assertGreaterEqual(narrow["rounds"] * 2 + 1, 12)
        self.assertGreaterEqual(shallow["rounds"] * 2 + 1, 12)

    def test_a_seed_gives_one_text_and_another_seed_another(self):
        drawn = ["--temperature", "1.5", "--seed"]
        one = self.generate(*drawn, "1")["output_ids"]

        self.assertEqual(self.generate(*drawn, "1")["output_ids"], one)
        self.assertNotEqual(self.generate(*drawn, "2")["output_ids"], one)

    def test_sampling_flags_reach_the_sampler(self):
        greedy = self.generate()["output_ids"]
        hot = ["--temperature", "3", "--seed", "5"]

        self.assertNotEqual(self.generate(*hot)["output_ids"], greedy)
        for flags in [["--sample-top-k", "1"], ["--top-p", "0.0001"],
                      ["--min-p", "1"]]:
            with self.subTest(flags=flags):
                self.assertEqual(self.generate(*hot, *flags)["output_ids"],
                                 greedy)
        longer = self.generate("--ignore-eos", max_tokens=40)["output_ids"]
        for flag in ["--repetition-penalty", "--presence-penalty",
                     "--frequency-penalty"]:
            with self.subTest(flag=flag):
                self.assertNotEqual(
                    self.generate(flag, "2", "--ignore-eos",
                                  max_tokens=40)["output_ids"], longer)

    def test_logprobs_are_written_when_they_are_asked_for(self):
        self.assertNotIn("logprobs", self.generate())
        with_logprobs = self.generate("--logprobs")
        self.assertEqual(len(with_logprobs["logprobs"]), 12)
        self.assertTrue(all(p <= 0 for p in with_logprobs["logprobs"]))

    def test_forward_writes_the_same_tensors_in_chunks(self):
        ids = self.folder / "ids.json"
        ids.write_text("[1, 2, 3, 4, 5, 6, 7]")
        whole, chunked = self.folder / "whole", self.folder / "chunked"
        for out, chunk in [(whole, "0"), (chunked, "3")]:
            self.ok("forward", *MODEL, "--ids", str(ids), "--out", str(out),
                    "--chunk", chunk)
        self.assertGreater(whole.stat().st_size, 10000)
        self.assertEqual(whole.stat().st_size, chunked.stat().st_size)
        said = self.refused("forward", *MODEL, "--ids", str(ids), "--out",
                            str(whole), "--solver", "magic")
        self.assertIn("magic", said)

    def test_replay_refuses_what_is_no_recording(self):
        steps = self.folder / "steps"
        steps.write_bytes(b"\xff\xff\xff\xff")
        self.assertIn("step 0 is cut off or damaged", self.refused(
            "replay", *MODEL, "--steps", str(steps)))
        self.assertIn("no-such-file", self.refused(
            "replay", *MODEL, "--steps", "no-such-file"))

    def test_bench_measures_a_synthetic_model(self):
        out = self.folder / "bench.json"
        said = self.ok("bench", "--model", "synthetic:tiny", "--threads", "1",
                       "--modes", "plain,blocks", "--batch", "1",
                       "--prompt-tokens", "8", "--output-tokens", "128",
                       "--json", str(out))
        self.assertIn("blocks", said)
        self.assertIn("synthetic", out.read_text())
        self.assertIn("sideways", self.refused(
            "bench", "--model", "synthetic:tiny", "--modes", "sideways"))

    def test_draft_tokens_lists_what_a_text_has(self):
        text = self.folder / "text"
        text.write_text(PROMPT * 100)
        out = self.folder / "draft_tokens.json"
        said = self.ok("draft-tokens", "--model", "models/demo", "--text",
                       str(text), "--count", "256", "--out", str(out))
        self.assertIn("100.00 %", said)
        self.assertGreaterEqual(len(json.loads(out.read_text())["tokens"]), 256)
        self.assertIn("--count", self.refused(
            "draft-tokens", "--model", "models/demo", "--text", str(text),
            "--count", "1"))


class QuickstartTest(unittest.TestCase):
    def refused(self, *arguments):
        done = run("./quickstart.sh", *arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        return done.stderr

    def test_help_names_every_flag(self):
        done = run("./quickstart.sh", "--help")
        self.assertEqual(done.returncode, 0)
        for flag in ["--model", "--ranks", "--serve", "--bundle"]:
            self.assertIn(flag, done.stdout)

    def test_what_is_wrong_is_named(self):
        self.assertIn("no/such", self.refused("--model", "no/such"))
        self.assertIn("no/such", self.refused("--bundle", "no/such"))
        for ranks in ["0", "08", "-1", "two", "2x", ""]:
            with self.subTest(ranks=ranks):
                self.assertEqual(self.refused("--ranks", ranks),
                                 f'--ranks: "{ranks}" is not a number of 1 or '
                                 'more\n')
        for arguments in [["--model"], ["--bundle"], ["--ranks"],
                          ["--sideways"],
                          ["one prompt", "and another"]]:
            with self.subTest(arguments=arguments):
                self.assertIn("usage:", self.refused(*arguments))

    def answered(self, cache, *arguments):
        """What the answer to a prompt says besides, with tables of `cache`."""
        programs = cache / "bin"
        programs.mkdir()
        for path in ["clients/cli/bole", "scheduler_service/bole-scheduler",
                     WORKER]:
            (programs / pathlib.Path(path).name).symlink_to(
                pathlib.Path(path).resolve())
        # A build would be an error here.
        done = run("./quickstart.sh", "--bundle", str(cache), "--model",
                   "models/demo", *arguments, PROMPT,
                   env={"BAZEL": "false", "XDG_CACHE_HOME": str(cache)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("return", done.stdout)
        return done.stderr

    def test_a_bundle_answers_without_a_build_and_says_what_it_drafted(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.answered(pathlib.Path(folder))
        line = re.search(r"^speculation: trees, because (.*); they had "
                         r"(\d\.\d\d) tokens accepted a round$", said, re.M)
        self.assertTrue(line, said)
        self.assertIn("not measured", line[1])
        self.assertGreater(float(line[2]), 1.5)
        self.assertIn(f"mean accepted tokens  {line[2]}\n", said)

    def test_two_ranks_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.answered(pathlib.Path(folder), "--ranks", "2")
        self.assertIn("speculation: trees", said)

    def test_three_ranks_are_refused_by_what_does_not_divide(self):
        done = run(WORKER, "--model", "models/demo", "--ranks", "3",
                   "--device", "cpu")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("3 ranks", done.stderr)

    def test_with_a_table_it_says_why_nothing_was_drafted(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = pathlib.Path(folder)
            (cache / "bole").mkdir()
            table = cache / "bole" / f"costs-{key_of_demo()}.json"
            write_table(table)
            said = self.answered(cache)
            self.assertTrue(table.exists(), said)
        line = re.search(r"^speculation: none, because (.*); in a short trial "
                         r"trees had (\d\.\d\d) tokens accepted a round$",
                         said, re.M)
        self.assertTrue(line, said)
        self.assertIn("plain decoding", line[1])
        self.assertGreater(float(line[2]), 1.5)


if __name__ == "__main__":
    unittest.main()
