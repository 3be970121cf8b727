//! A notes-and-ledger server for trying things.
