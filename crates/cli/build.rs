//! Links the unwinder into the programs, and development builds to a fixed address.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // Loading libgcc_s.so takes a tenth of the start of a process, more than half of it for what the library
        // asks the processor: in a virtual machine, each such instruction is a trap.
        println!("cargo::rustc-link-lib=gcc_eh");
        // Programs that are not optimised have 180,000 addresses to relocate, which takes more than half of their
        // start. Tests start them many thousand times; servers have the random addresses of release builds.
        if is("PROFILE", "debug") {
            println!("cargo::rustc-link-arg-bins=-no-pie");
        }
    }
}
