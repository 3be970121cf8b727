//! `sluice policy …`.

mod check;
mod diff;
mod explain;
mod import;
mod schema;
mod test;
