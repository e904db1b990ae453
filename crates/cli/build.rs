//! Links the unwinder into the programs.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // Loading libgcc_s.so takes a tenth of the start of a process, more than half of it for what the library
        // asks the processor: in a virtual machine, each such instruction is a trap.
        println!("cargo::rustc-link-lib=gcc_eh");
    }
}
