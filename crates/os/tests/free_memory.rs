//! Free memory goes back to the system. Alone in its process, whose memory is counted.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use packrace_os::process::return_free_memory;

const VALUE_BYTES: usize = 16 << 10;
const VALUES: usize = 4096;

fn private_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// A value here and there that stays keeps the heap of its thread from shrinking.
fn values_and_gaps() -> Vec<Vec<u8>> {
    let values: Vec<Vec<u8>> = (0..VALUES).map(|_| vec![1; VALUE_BYTES]).collect();
    values.into_iter().step_by(64).collect()
}

#[test]
fn memory_between_values_in_use_is_returned() {
    let kept: Vec<_> = (0..4).map(|_| std::thread::spawn(values_and_gaps)).collect();
    let kept: Vec<_> = kept.into_iter().map(|thread| thread.join().unwrap()).collect();
    let before = private_bytes();
    return_free_memory();
    let after = private_bytes();
    let freed = 4 * VALUES * VALUE_BYTES;
    assert!(before > freed / 2 && before - after > freed / 4 * 3, "{before} bytes before, {after} after");
    assert!(kept.iter().flatten().flatten().all(|byte| *byte == 1));
}
