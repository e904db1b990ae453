use packrace_format::pack::{self, DeltaIndex, EntryKind};
use packrace_format::zlib::Deflater;
use packrace_store::ObjectReader;

use crate::error::Error;
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;

/// Makes entries that cannot reuse stored bytes: reads objects and deflates them.
pub(super) struct Maker {
    reader: ObjectReader,
    deflater: Deflater,
}

impl Maker {
    pub(super) fn new(plan: &PackPlan) -> Self {
        Maker {
            reader: plan.reader(plan.settings.base_cache_bytes / 3),
            deflater: Deflater::new(plan.settings.compression),
        }
    }

    /// The entry of a whole object.
    pub(super) fn whole(&mut self, plan: &PackPlan, ix: ObjectNo) -> Result<Vec<u8>, Error> {
        let mut content = Vec::new();
        let kind = plan.request_objects.read(&mut self.reader, ix, &mut content)?;
        let mut entry = Vec::with_capacity(content.len() / 2 + pack::MAX_ENTRY_HEADER_BYTES);
        pack::write_entry_header(EntryKind::Object(kind), content.len() as u64, &mut entry);
        self.deflater.deflate(&content, &mut entry);
        Ok(entry)
    }

    /// Appends the deflated delta of one object against another.
    pub(super) fn delta(
        &mut self,
        plan: &PackPlan,
        ix: ObjectNo,
        base: ObjectNo,
        entry: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (mut source, mut target, mut delta) = (Vec::new(), Vec::new(), Vec::new());
        plan.request_objects.read(&mut self.reader, base, &mut source)?;
        plan.request_objects.read(&mut self.reader, ix, &mut target)?;
        let mut index = DeltaIndex::default();
        index.build(&source);
        index.encode(&source, &target, usize::MAX, &mut delta);
        self.deflater.deflate(&delta, entry);
        Ok(())
    }
}
