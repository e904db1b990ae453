//! `packrace bucket`.

use std::path::PathBuf;

use packrace_remote::BucketUrl;

/// Check a bucket, put repositories into it, and get them back.
#[derive(Debug, clap::Args)]
#[command(after_long_help = BUCKET_HELP)]
pub struct Bucket {
    #[command(subcommand)]
    pub command: BucketCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum BucketCommand {
    /// Find out whether a store keeps the promises that repositories need, and say what it lacks. Ends with 1 if it cannot be used.
    Check(BucketCheck),
    /// Put a repository into a bucket. It stays where it is, and is not changed.
    Import(BucketImport),
    /// Make a bare repository of one in a bucket.
    Export(BucketExport),
    /// Print the names of all repositories, a line each.
    List(BucketList),
}

#[derive(Debug, clap::Args)]
pub struct BucketCheck {
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// Let so many write at once.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub writers: usize,
    /// So often.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rounds: usize,
}

#[derive(Debug, clap::Args)]
pub struct BucketImport {
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// The repository.
    pub directory: PathBuf,
    /// What it is called in the bucket; .git is added where it is missing.
    pub name: String,
}

#[derive(Debug, clap::Args)]
pub struct BucketExport {
    /// Store refs in this way: files (the default) or reftable.
    #[arg(long, value_name = "FORMAT", default_value = "files", value_parser = ["files", "reftable"])]
    pub ref_format: String,
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// The repository, with .git or without.
    pub name: String,
    /// Where it goes; nothing may be there.
    pub directory: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct BucketList {
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
}

/// How stores are reached, behind the help.
const BUCKET_HELP: &str = "\
A bucket is one of S3 or of a store that speaks its protocol. How it is reached is said by the usual variables: AWS_ACCESS_KEY_ID, \
AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or those by which machines and containers of Amazon get theirs; AWS_REGION; \
AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL for other stores, with http:// or https://; AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true where the \
name of the bucket is a part of the host's; AWS_CA_BUNDLE for authorities of one's own. Files with credentials are not read.

    packrace bucket check s3://git
    packrace bucket import s3://git/hosting /srv/git/tool.git team/tool
    packrace serve --bucket s3://git/hosting --cache /var/cache/packrace --cache-bytes 100g

What has no place in a bucket is told by import: reflogs, hooks, a description and settings other than those that say what clients may do.
A repository whose history is cut, or that borrows objects from a server, is refused.";
