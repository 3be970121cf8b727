"""That the harness sees what it is there to see."""

import copy
import unittest

from . import conformance, matrix, table, trial

CLIENT = table.Client("a client", "mcp", ())
GOOD = {
    "tools": ["echo", "get-env", "get-sum"],
    "answers": [
        {"text": "Echo: through the gate", "error": False},
        {"text": f"[POLICY DENIED] {table.REASON}", "error": True},
        {"text": "5", "error": False},
        {"text": "[POLICY DENIED] Rate limit reached", "error": True},
    ],
}


class Trials(unittest.TestCase):
    def test_what_is_as_it_must_be_passes(self):
        self.assertEqual(list(trial.wrong(CLIENT, table.HTTP, GOOD)), [])

    def test_each_thing_that_is_not_is_noticed(self):
        changes = [
            lambda said: said["tools"].append("get-tiny-image"),
            lambda said: said["tools"].remove("echo"),
            lambda said: said["answers"][0].update(error=True),
            lambda said: said["answers"][0].update(text="something else"),
            lambda said: said["answers"][1].update(error=False),
            lambda said: said["answers"][1].update(text="[POLICY DENIED]"),
            lambda said: said["answers"][2].update(error=True),
            lambda said: said["answers"][3].update(error=False),
        ]
        for number, change in enumerate(changes):
            said = copy.deepcopy(GOOD)
            change(said)
            with self.subTest(number=number):
                self.assertEqual(len(list(trial.wrong(CLIENT, table.HTTP, said))), 1)


class Comparisons(unittest.TestCase):
    def differences(self, direct, through):
        return conformance.compare({"scenario": direct}, {"scenario": through})

    def test_the_same_is_no_difference(self):
        self.assertEqual(self.differences({"a": ["FAILURE"]}, {"a": ["FAILURE"]}), [])

    def test_better_and_worse_are_told_apart(self):
        [better] = self.differences({"a": ["FAILURE"]}, {"a": ["SUCCESS"]})
        self.assertTrue(better.is_better() and not better.is_worse())
        for now in ({"a": ["FAILURE"]}, {"a": ["SKIPPED"]}, {}):
            [worse] = self.differences({"a": ["SUCCESS"]}, now)
            self.assertTrue(worse.is_worse() and not worse.is_better())

    def test_a_scenario_that_is_missing_is_a_difference(self):
        self.assertEqual(len(conformance.compare({"scenario": {"a": ["SUCCESS"]}}, {})), 1)

    def test_checks_are_counted(self):
        self.assertEqual(conformance.count({"scenario": {"a": ["SUCCESS", "FAILURE"]}}), (1, 2))


class Matrix(unittest.TestCase):
    def test_only_the_date_may_differ(self):
        self.assertEqual(
            matrix.undated("Made on 2026-11-15; x\n| a |"), matrix.undated("Made on 2027-01-01; x\n| a |")
        )
        self.assertNotEqual(matrix.undated("| 2026-11-15 |"), matrix.undated("| 2027-01-01 |"))
