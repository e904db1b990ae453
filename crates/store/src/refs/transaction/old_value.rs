//! Whether a ref has the value that an edit expects.

use super::{Cause, Expected, RefStep, Value};

/// The reason to refuse the step, if its ref has another value.
pub(super) fn check(step: &RefStep) -> Option<Cause> {
    match (&step.expected, &step.old) {
        (Expected::Any, _) | (Expected::Absent, None) => None,
        (Expected::Absent, Some(Value::Id(is))) if is.is_null() => None,
        (Expected::Absent, Some(Value::Symbolic(_))) if step.old_id.is_none() => Some(Cause::ExistsDangling),
        (Expected::Absent, Some(_)) => Some(Cause::Exists),
        (Expected::Id(_), None) => Some(Cause::Missing(step.name.clone())),
        (Expected::Id(expected), Some(_)) => match step.old_id {
            Some(is) if is == *expected => None,
            Some(is) => Some(Cause::OtherId { is, expected: *expected }),
            None => Some(Cause::Dangling(*expected)),
        },
        (Expected::Symbolic(_), None) => Some(Cause::Missing(step.name.clone())),
        (Expected::Symbolic(expected), Some(Value::Symbolic(is))) if is == expected => None,
        (Expected::Symbolic(expected), Some(Value::Symbolic(is))) => {
            Some(Cause::OtherTarget { is: is.clone(), expected: expected.clone() })
        }
        (Expected::Symbolic(expected), Some(Value::Id(_))) => Some(Cause::NotSymbolic(expected.clone())),
    }
}
