"""That the harness sees what it is there to see."""

import copy
import unittest
from collections import Counter
from pathlib import Path

from . import conformance, matrix, pairs, peers, table, trial

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
# The same with a server that notifies and asks.
HEARD = [{"kind": "log", "seconds": 1.1}, {"kind": "progress 1", "seconds": 1.0}, {"kind": "progress 2", "seconds": 0.0}]
TALKATIVE = {
    "tools": ["ask", "count", "remove", "work"],
    "answers": [
        {"text": "the work is done", "error": False, "heard": HEARD},
        *copy.deepcopy(GOOD["answers"][1:]),
        {"text": "hello compat", "error": False},
    ],
}


class Trials(unittest.TestCase):
    def test_what_is_as_it_must_be_passes(self):
        self.assertEqual(list(trial.wrong(CLIENT, table.HTTP, GOOD)), [])
        self.assertEqual(list(trial.wrong(CLIENT, table.PYTHON_V2, TALKATIVE)), [])

    def test_notifications_that_are_missing_late_or_out_of_order_are_noticed(self):
        changes = [
            lambda heard: heard.pop(),
            lambda heard: heard.clear(),
            lambda heard: heard.reverse(),
            lambda heard: heard[1].update(seconds=0.1),
        ]
        for number, change in enumerate(changes):
            said = copy.deepcopy(TALKATIVE)
            change(said["answers"][0]["heard"])
            with self.subTest(number=number):
                self.assertEqual(len(list(trial.wrong(CLIENT, table.PYTHON_V2, said))), 1)

    def test_a_question_without_its_answer_is_noticed(self):
        for change in ({"error": True}, {"text": "cancel"}):
            said = copy.deepcopy(TALKATIVE)
            said["answers"][4].update(change)
            with self.subTest(change=change):
                self.assertEqual(len(list(trial.wrong(CLIENT, table.PYTHON_V2, said))), 1)

    def test_a_client_is_said_to_do_what_was_checked_and_no_more(self):
        quiet = table.Client("a client", "mcp", (), hears=False, answers=False)
        self.assertEqual(trial.words(CLIENT, table.PYTHON_V2), "judged, notified, asked")
        self.assertEqual(trial.words(quiet, table.PYTHON_V2), "judged")
        self.assertEqual(trial.words(CLIENT, table.HTTP), "judged")

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


class Pairs(unittest.TestCase):
    def setUp(self):
        self.clients = table.clients(Path("compat-client"))
        self.servers = table.servers(Path("folder"), Path("peers"))
        self.pairs = pairs.all_pairs(self.clients, self.servers)

    def test_each_client_meets_every_column_and_wrap_at_least_twice(self):
        gateway = Counter(pair.client for pair in self.pairs if not pair.wrapped)
        wrap = Counter(pair.client for pair in self.pairs if pair.wrapped)
        for client in self.clients:
            with self.subTest(client=client.name, mode=client.mode):
                self.assertGreaterEqual(gateway[client], 5)
                self.assertGreaterEqual(wrap[client], 2 if client.starts else 0)

    def test_each_server_is_met_through_the_gateway_and_by_wrap(self):
        for wrapped in (False, True):
            met = {pair.server.name for pair in self.pairs if pair.wrapped == wrapped}
            expected = {server.name for server in self.servers if not wrapped or pairs.wrappable(server)}
            self.assertEqual(met, expected)

    def test_only_what_is_bridged_or_built_in_is_not_wrapped(self):
        left = {server.name for server in self.servers if not pairs.wrappable(server)}
        self.assertEqual(left, {"demo", "everything-bridged", "python-v1-bridged"})


class Matrix(unittest.TestCase):
    def test_every_pair_has_a_place(self):
        clients = table.clients(Path("compat-client"))
        servers = table.servers(Path("folder"), Path("peers"))
        cells = {pair.name: f"<{pair.name}>" for pair in pairs.all_pairs(clients, servers)}
        document = matrix.made(
            date="2026-11-16",
            versions=peers.versions(),
            clients=clients,
            servers=servers,
            cells=cells,
            cases=["- a case"],
            conformance=["| a | row |"],
        )
        for cell in cells.values():
            self.assertIn(cell, document)

    def test_only_the_date_may_differ(self):
        self.assertEqual(
            matrix.undated("Made on 2026-11-15; x\n| a |"), matrix.undated("Made on 2027-01-01; x\n| a |")
        )
        self.assertNotEqual(matrix.undated("| 2026-11-15 |"), matrix.undated("| 2027-01-01 |"))
