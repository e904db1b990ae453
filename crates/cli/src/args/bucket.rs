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
    /// Put packs that pushes have left into fewer. Servers do so by themselves for what is pushed to through them. The repositories are
    /// fetched into TMPDIR, one after the other. Nobody needs to wait: pushes and fetches go on meanwhile.
    Fold(BucketFold),
    /// Delete what failed pushes have uploaded, and what no repository names any more since its packs were folded. Such an object stays
    /// until the second run, so that nodes which have read an older state can fetch it: run this once a day. Servers never list
    /// a bucket, and do not do this. Without names, of all repositories.
    Collect(BucketCollect),
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
pub struct BucketFold {
    /// Put all objects into one pack with a bitmap. Without it, only packs that are small beside others go (git repack --geometric=2)
    #[arg(long)]
    pub all: bool,
    /// Change nothing in the bucket, and only say what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// The repositories, with .git or without.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct BucketCollect {
    /// Delete at the first run. A node that is fetching such an object then reads the state of its repository again
    #[arg(long)]
    pub now: bool,
    /// Change nothing in the bucket, and only say what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// The repositories, with .git or without.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
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
name of the bucket is a part of the host's; AWS_CA_BUNDLE for authorities of one's own. Where no variable has a key, region or endpoint, ~/.aws/credentials and ~/.aws/config do (AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE); of roles and single sign-on there they know nothing.

    packrace bucket check s3://git
    packrace bucket import s3://git/hosting /srv/git/tool.git team/tool
    packrace serve --bucket s3://git/hosting --cache /var/cache/packrace --cache-bytes 100g

What has no place in a bucket is told by import: reflogs, hooks, a description and settings other than those that say what clients may do.
A repository whose history is cut, or that borrows objects from a server, is refused.";
