/// An opened repository.
#[derive(Debug)]
pub struct Repository {}
