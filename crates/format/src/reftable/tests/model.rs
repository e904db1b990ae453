//! Records in a map, from which tables are written and with which they are compared.

use std::collections::BTreeMap;

use packrace_testkit::Random;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Deletion,
    Id(ObjectId),
    Tag(ObjectId, ObjectId),
    Symbolic(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) ids: [ObjectId; 2],
    pub(super) texts: [Vec<u8>; 3],
    pub(super) seconds: u64,
    pub(super) zone: i16,
}

/// The records of a table: refs by name, logs by name and inverted update index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) refs: BTreeMap<Vec<u8>, (u64, Value)>,
    pub(super) logs: BTreeMap<(Vec<u8>, u64), Option<Change>>,
}

impl Value {
    pub(super) fn of(value: RefValue<'_>) -> Self {
        match value {
            RefValue::Deletion => Value::Deletion,
            RefValue::Id(id) => Value::Id(id),
            RefValue::Tag { id, peeled } => Value::Tag(id, peeled),
            RefValue::Symbolic(target) => Value::Symbolic(target.to_vec()),
        }
    }

    fn borrow(&self) -> RefValue<'_> {
        match self {
            Value::Deletion => RefValue::Deletion,
            Value::Id(id) => RefValue::Id(*id),
            Value::Tag(id, peeled) => RefValue::Tag { id: *id, peeled: *peeled },
            Value::Symbolic(target) => RefValue::Symbolic(target),
        }
    }

    pub(super) fn leads_to(&self, wanted: &ObjectId) -> bool {
        match self {
            Value::Id(id) => id == wanted,
            Value::Tag(id, peeled) => id == wanted || peeled == wanted,
            _ => false,
        }
    }
}

impl Model {
    /// A model of `count` refs and about as many logs, for updates from `min` to `max`. Names come from a
    /// small set, so that models of the same `count` share some.
    pub(super) fn random(random: &mut Random, hash: HashKind, count: usize, min: u64, max: u64) -> Self {
        let ids: Vec<ObjectId> = (0..count / 3 + 1).map(|_| id(random, hash)).collect();
        let mut model = Model::default();
        let update = |random: &mut Random| min + random.below((max - min + 1) as usize) as u64;
        for _ in 0..count {
            let value = match random.below(8) {
                0 => Value::Deletion,
                1 => Value::Symbolic(name(random, count)),
                2 | 3 => Value::Tag(ids[random.below(ids.len())], ids[random.below(ids.len())]),
                _ => Value::Id(ids[random.below(ids.len().min(5))]),
            };
            let name = name(random, count);
            let change = Change {
                ids: [ids[random.below(ids.len())], hash.null()],
                texts: [b"A U Thor".to_vec(), b"a@example.com".to_vec(), random.line().into_bytes()],
                seconds: random.next_u64() >> random.below(64),
                zone: random.next_u64() as i16,
            };
            model.logs.insert((name.clone(), !update(random)), Some(change).filter(|_| !random.one_in(9)));
            model.refs.insert(name, (update(random), value));
        }
        model
    }

    pub(super) fn write(
        &self,
        options: &TableOptions,
        min: u64,
        max: u64,
    ) -> Result<Vec<u8>, ReftableWriteError> {
        let mut out = Vec::new();
        let mut writer = Writer::new(options, min, max, |bytes: &[u8]| out.extend_from_slice(bytes))?;
        for (name, (update_index, value)) in &self.refs {
            writer.add_ref(&RefRecord { name, update_index: *update_index, value: value.borrow() })?;
        }
        for ((name, reversed), change) in &self.logs {
            let change = change.as_ref().map(
                |Change { ids: [old, new], texts: [name, email, message], seconds, zone }| {
                    let (old, new, seconds, zone) = (*old, *new, *seconds, *zone);
                    LogChange { old, new, name, email, seconds, zone, message }
                },
            );
            writer.add_log(&LogRecord { name, update_index: !reversed, change })?;
        }
        let written = writer.finish()?;
        let expect =
            Written { bytes: out.len() as u64, refs: self.refs.len() as u64, logs: self.logs.len() as u64 };
        assert_eq!(written, expect);
        Ok(out)
    }

    pub(super) fn read<D: AsRef<[u8]>>(table: &Table<D>) -> Result<Self, Error> {
        let mut model = Model::default();
        let mut refs = table.refs_from(b"")?;
        while refs.advance()? {
            model.add_ref(refs.current().unwrap());
        }
        let mut logs = table.logs()?;
        while logs.advance()? {
            model.add_log(logs.current().unwrap());
        }
        Ok(model)
    }

    pub(super) fn add_ref(&mut self, record: RefRecord<'_>) {
        let added = self.refs.insert(record.name.to_vec(), (record.update_index, Value::of(record.value)));
        assert_eq!(added, None);
    }

    pub(super) fn add_log(&mut self, record: LogRecord<'_>) {
        let change = record.change.map(|change| Change {
            ids: [change.old, change.new],
            texts: [change.name, change.email, change.message].map(<[u8]>::to_vec),
            seconds: change.seconds,
            zone: change.zone,
        });
        let added = self.logs.insert((record.name.to_vec(), !record.update_index), change);
        assert_eq!(added, None);
    }
}

pub(super) fn id(random: &mut Random, hash: HashKind) -> ObjectId {
    // Some ids differ late, so that they cannot be abbreviated.
    let mut bytes = vec![0x5a; hash.len_in_bytes()];
    let start = if random.one_in(4) { random.below(5) } else { 0 };
    bytes[start..].copy_from_slice(&random.bytes(hash.len_in_bytes() - start));
    ObjectId::from_bytes_or_panic(&bytes)
}

fn name(random: &mut Random, count: usize) -> Vec<u8> {
    let number = random.below(count * 2 + 1);
    match number % 7 {
        0 => format!("refs/changes/{:02}/{number}/meta", number % 100),
        1 => format!("refs/changes/{:02}/{number}", number % 100),
        2 => format!("refs/heads/{:x}", number * 7919),
        3 => format!("HEAD{number}"),
        4 => format!("refs/tags/{}", "long/".repeat(number % 6) + &number.to_string()),
        _ => format!("refs/tags/v{}.{}", number / 10, number % 10),
    }
    .into_bytes()
}
