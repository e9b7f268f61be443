#!/usr/bin/env python3
"""What is computed of measurements, and what becomes of a drafter."""

import array
import json
import pathlib
import random
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import shuffle_drafter
import statistics_of_pairs as pairs
import summarize


def row(setting, requests, repetition, rate, off=0, tree=1, waits=1):
    return {"device": "d", "model": "m", "setting": setting,
            "requests": requests, "repetition": repetition,
            "tokens_per_second": rate,
            "tpot_p50": waits * requests / rate,
            "speculation": {"off_rounds": off, "chain_rounds": 0,
                            "tree_rounds": tree,
                            "selected_nodes": off + 32 * tree}}


def groups_of(rows):
    with tempfile.TemporaryDirectory() as folder:
        # Two files, as of two runs.
        for i, part in enumerate((rows[::2], rows[1::2])):
            path = pathlib.Path(folder) / f"measurements-{i}.jsonl"
            path.write_text("".join(json.dumps(one) + "\n" for one in part))
        return summarize.read([folder])


class StatisticsTest(unittest.TestCase):
    def test_the_bound_of_equal_ratios_is_the_ratio(self):
        self.assertAlmostEqual(pairs.lower_bound([0.98] * 20), 0.98)

    def test_the_bound_is_that_of_a_normal_mean(self):
        chance = random.Random(7)
        ratios = [1.0 + chance.gauss(0, 0.05) for _ in range(400)]
        mean = pairs.geometric_mean(ratios)
        self.assertAlmostEqual(mean, 1.0, delta=0.01)
        # 1.645 standard errors of 0.05 / 20 below.
        self.assertAlmostEqual(mean - pairs.lower_bound(ratios), 0.0041,
                               delta=0.0006)

    def test_more_scatter_lowers_the_bound(self):
        self.assertLess(pairs.lower_bound([0.8, 1.25] * 10),
                        pairs.lower_bound([0.99, 1 / 0.99] * 10))

    def test_the_spread_is_over_the_median(self):
        self.assertEqual(pairs.spread([8, 10, 13]), 0.5)


class SummaryTest(unittest.TestCase):
    ROWS = [row("plain", 1, 0, 100), row("plain", 1, 1, 110),
            row("tree 32", 1, 0, 300), row("tree 32", 1, 1, 310),
            row("chain 3", 1, 0, 200), row("chain 3", 1, 1, 100),
            # In another repetition the machine was faster for all.
            row("goodput", 1, 0, 303, off=1), row("goodput", 1, 1, 310),
            row("goodput", 4, 0, 500)]

    def test_ratios_are_within_a_repetition(self):
        group = groups_of(self.ROWS)[("d", "m", 1)]
        self.assertEqual(summarize.best_fixed(group), "tree 32")
        self.assertAlmostEqual(summarize.ratio(group, "goodput", "tree 32"),
                               (303 / 300 + 310 / 310) / 2)
        self.assertAlmostEqual(summarize.ratio(group, "goodput", "plain"),
                               (303 / 100 + 310 / 110) / 2)

    def test_what_was_not_measured_is_a_dash(self):
        group = groups_of(self.ROWS)[("d", "m", 4)]
        self.assertIsNone(summarize.best_fixed(group))
        self.assertIsNone(summarize.ratio(group, "goodput", "plain"))

    def test_the_time_per_token_has_a_best_setting_of_its_own(self):
        rows = [row("plain", 4, 0, 100), row("chain 3", 4, 0, 90, waits=0.5),
                row("goodput", 4, 0, 95, waits=0.75)]
        self.assertAlmostEqual(summarize.by_token(groups_of(rows)["d", "m", 4]),
                               (0.5 * 4 / 90) / (0.75 * 4 / 95))

    def test_the_table_marks_the_best_and_says_what_was_chosen(self):
        page = summarize.markdown(groups_of(self.ROWS),
                                  ["plain", "chain 3", "tree 32", "goodput"])
        self.assertIn("| 1 | 105 | 150 | **305** | 306 | 1.005 | 1.005 |",
                      page)
        self.assertIn("| off 33 %, tree 67 %; 21.7 nodes |", page)
        self.assertIn("| 4 | - | - | - | 500 | - | - | - |", page)

    def test_the_picture_has_a_line_for_each_setting(self):
        svg = summarize.picture(groups_of(self.ROWS), ["plain", "goodput"])
        self.assertEqual(svg.count("<polyline"), 2)
        self.assertIn("</svg>", svg)


class ShuffleDrafterTest(unittest.TestCase):
    def test_the_drafters_numbers_change_places_and_nothing_else(self):
        target = array.array("H", range(100, 200))
        drafter = array.array("H", range(1000))
        header = json.dumps({
            "__metadata__": {"format": "pt"},
            "model.a": {"dtype": "BF16", "shape": [100],
                        "data_offsets": [0, 200]},
            "mtp.b": {"dtype": "BF16", "shape": [1000],
                      "data_offsets": [200, 2200]}}).encode()
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model"
            model.mkdir()
            before = (len(header).to_bytes(8, "little") + header +
                      target.tobytes() + drafter.tobytes())
            (model / "model.safetensors").write_bytes(before)
            copy = pathlib.Path(folder) / "copy"
            shuffle_drafter.copy(str(model), str(copy), seed=1)
            after = (copy / "model.safetensors").read_bytes()
            self.assertEqual((model / "model.safetensors").read_bytes(), before)
        begin = 8 + len(header) + 200
        self.assertEqual(after[:begin], before[:begin])
        shuffled = array.array("H", after[begin:])
        self.assertNotEqual(shuffled, drafter)
        self.assertEqual(sorted(shuffled), list(drafter))

    def test_a_checkpoint_without_a_drafter_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "model").mkdir()
            with self.assertRaises(RuntimeError):
                shuffle_drafter.copy(folder + "/model", folder + "/copy", 1)


if __name__ == "__main__":
    unittest.main()
