//! `packrace serve`: every repository below a folder.

use super::Fatal;
use crate::args::{Globals, Serve};
use crate::environment::Environment;

pub fn run(globals: &Globals, args: &Serve, environment: &Environment) -> Result<(), Fatal> {
    let _ = (globals, args, environment);
    Err(Fatal::new("serve is not built yet"))
}
