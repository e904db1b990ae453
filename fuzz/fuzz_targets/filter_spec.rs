//! Input: a filter-spec. Whatever is read can be written again and means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_pack::filter::Filter;

/// No more filters than this are read in all (`pack/src/select/filter/parse.rs`).
const MAX_FILTERS: usize = 1024;

fuzz_target!(|input: &[u8]| {
    match Filter::parse(input) {
        Ok(mut filter) => {
            assert!(filter.all().len() <= MAX_FILTERS);
            assert_eq!(Filter::parse(&written(&filter)).as_ref(), Ok(&filter));
            let sparse = filter.all().iter().filter(|one| matches!(one, Filter::Sparse(_))).count();
            assert_eq!(filter.patterns_mut().len(), sparse);
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
});

fn written(filter: &Filter) -> Vec<u8> {
    match filter {
        Filter::BlobNone => b"blob:none".to_vec(),
        Filter::BlobLimit(bytes) => format!("blob:limit={bytes}").into_bytes(),
        Filter::Tree(depth) => format!("tree:{depth}").into_bytes(),
        Filter::ObjectType(kind) => format!("object:type={}", kind.name()).into_bytes(),
        Filter::Sparse(patterns) => [b"sparse:oid=", patterns.name.as_slice()].concat(),
        Filter::Combine(parts) => {
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| encoded(&written(part))).collect();
            [b"combine:".to_vec(), parts.join(&b'+')].concat()
        }
    }
}

fn encoded(spec: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in spec {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'=' => out.push(byte),
            _ => out.extend(format!("%{byte:02x}").bytes()),
        }
    }
    out
}
