//! `sluice policy …`.

mod check;
mod diff;
mod explain;
mod extends;
mod import;
mod schema;
mod test;
