"""Behaviours that once broke with real clients and servers: one module a topic,
each with a list `CASES`. A new module is imported and added here."""

from harness.case import Case

from . import adopt, bridge, stdio, streams

ALL: list[Case] = [*streams.CASES, *stdio.CASES, *bridge.CASES, *adopt.CASES]
