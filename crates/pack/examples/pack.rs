//! Lists the objects in a repository's packs, and makes one pack of everything that its branches and tags
//! reach: `cargo run -p packrace-pack --example pack -- REPOSITORY FILE`.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use packrace_pack::generate::PackStream;
use packrace_pack::plan::plan;
use packrace_pack::{NoProgress, PackRequest, RequestObjects};
use packrace_store::refs::Target;
use packrace_store::{OpenOptions, Repository, cache_bytes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [repository, file] = &arguments[..] else { return Err("usage: pack REPOSITORY FILE".into()) };
    let repository = Repository::open(Path::new(repository), &OpenOptions::default())?;

    // A snapshot shows the same packs while it is held, even during a repack.
    let snapshot = repository.snapshot()?;
    let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
    for pack in snapshot.packs() {
        println!("{}: {} objects, {} bytes", pack.name(), pack.len(), pack.bytes().len());
        for position in 0..pack.len().min(3) {
            let id = pack.index().id_at(position);
            if let Some((kind, bytes)) = reader.kind_and_size(id)? {
                println!("  {id} {kind} of {bytes} bytes");
            }
        }
    }

    let mut wants = Vec::new();
    repository.refs().snapshot(&[b"refs/"])?.visit(b"refs/", &mut |record| {
        if let Target::Direct { id, .. } = record.target {
            wants.push(id);
        }
        ControlFlow::Continue(())
    })?;
    let objects = Arc::new(RequestObjects::new(snapshot));
    let request = PackRequest { wants, ofs_delta: true, ..PackRequest::default() };
    // First the objects; then the bytes, mostly ranges of mapped packs.
    let mut stream = PackStream::new(plan(&objects, &request, &NoProgress)?);
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    while let Some(segment) = stream.next_segment(&NoProgress)? {
        out.write_all(segment.bytes())?;
    }
    out.flush()?;
    let totals = stream.totals();
    println!("{} objects, {} of them as they were stored", totals.objects, totals.reused);
    Ok(())
}
