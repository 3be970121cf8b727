//! How the program is linked.

#[expect(clippy::disallowed_methods, reason = "this is how Cargo tells what is built for")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value| std::env::var(name).is_ok_and(|found| found == value);
    // Addresses that are set right when the program starts: as a list of places they
    // take 0.6 MiB, which are read once and stay resident; packed they take next to
    // nothing. Linkers that cannot do this say so and go on.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
