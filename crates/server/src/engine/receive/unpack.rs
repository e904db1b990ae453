//! Takes the objects of a push into its quarantine.

use std::io::BufRead;

use flate2::{Decompress, FlushDecompress, Status};
use packrace_os::child::{ChildProcess, Program};

use super::settings::UnpackSettings;
use super::stand_in::Quarantine;
use super::talk::Talk;

/// Reads a pack from `source`, and not a byte more, and leaves its objects in the quarantine. An error is what the report
/// says behind `unpack`; what is to be said of it beside that was said.
// TODO: pack::ingest stands here when it is there; until then all of the pack is held and given to git.
pub(super) fn receive_pack_bytes(
    source: &mut dyn BufRead,
    quarantine: &mut Quarantine,
    settings: &UnpackSettings,
    _is_quiet: bool,
    talk: &Talk,
) -> Result<(), String> {
    let mut pack = Vec::new();
    let hash_bytes = quarantine.view().hash_kind().len_in_bytes();
    read_pack(source, &mut pack, hash_bytes)?;
    let mut argv: Vec<std::ffi::OsString> =
        ["git", "index-pack", "--stdin", "--fix-thin"].map(Into::into).into();
    argv.extend(settings.max_bytes.map(|bytes| format!("--max-input-size={bytes}").into()));
    argv.extend(settings.fsck.then(|| "--strict".into()));
    let mut environment = vec![("GIT_DIR".into(), Some(".".into()))];
    environment.extend(quarantine.environment().into_iter().map(|(name, value)| (name, Some(value))));
    let program = Program {
        argv,
        directory: quarantine.view().git_dir().to_owned(),
        environment,
        reads_messages: true,
    };
    let mut said = Vec::new();
    let run = ChildProcess::start(&program).and_then(|child| child.run(&pack, &mut |text| said.extend_from_slice(text)));
    match run {
        Ok(status) if status.success() => Ok(()),
        _ => {
            talk.say(&said);
            Err("index-pack abnormal exit".to_owned())
        }
    }
}

fn read_pack(source: &mut dyn BufRead, pack: &mut Vec<u8>, hash_bytes: usize) -> Result<(), String> {
    let mut take = |count: usize, pack: &mut Vec<u8>| -> Result<(), String> {
        for _ in 0..count {
            let byte = source.fill_buf().ok().and_then(|bytes| bytes.first().copied());
            pack.push(byte.ok_or("index-pack abnormal exit")?);
            source.consume(1);
        }
        Ok(())
    };
    take(12, pack).map_err(|_| "eof before pack header was fully read".to_owned())?;
    if !pack.starts_with(b"PACK") {
        return Err("protocol error (pack signature mismatch detected)".to_owned());
    }
    if pack[7] != 2 {
        return Err("protocol error (pack version unsupported)".to_owned());
    }
    let count = u32::from_be_bytes(pack[8..12].try_into().unwrap_or_default());
    for _ in 0..count {
        take(1, pack)?;
        let kind = pack[pack.len() - 1] >> 4 & 7;
        while pack[pack.len() - 1] & 0x80 != 0 {
            take(1, pack)?;
        }
        if kind == 6 {
            take(1, pack)?;
            while pack[pack.len() - 1] & 0x80 != 0 {
                take(1, pack)?;
            }
        } else if kind == 7 {
            take(hash_bytes, pack)?;
        }
        let (mut stream, mut out, mut is_over) = (Decompress::new(true), vec![0; 65536], false);
        while !is_over {
            take(1, pack)?;
            loop {
                let before = stream.total_out();
                let status = stream.decompress(&pack[pack.len() - 1..][..usize::from(stream.total_out() == before && stream.total_in() < u64::MAX)], &mut out, FlushDecompress::None);
                is_over = status.map_err(|_| "index-pack abnormal exit")? == Status::StreamEnd;
                break;
            }
        }
    }
    take(hash_bytes, pack)
}
