//! Has the linker put side by side what runs when the gateway starts and serves
//! calls. Of a program that is mapped the system keeps whole pieces in memory, so
//! functions that are needed here and there cost a multiple of their size.

#![expect(clippy::disallowed_methods, reason = "cargo tells what is to be built so")]

use std::env;

/// A linker script, made by `make order`. Functions that it names and that are no
/// longer there are passed over.
const FUNCTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/functions.ld");

fn main() {
    println!("cargo:rerun-if-changed={FUNCTIONS}");
    let is = |name, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Another linker might not understand it.
    let is_usual_linker = is("TARGET", "x86_64-unknown-linux-gnu")
        && env::var_os("RUSTC_LINKER").is_none()
        && !env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    if is("PROFILE", "release") && is_usual_linker {
        println!("cargo:rustc-link-arg-bins=-T{FUNCTIONS}");
    }
}
