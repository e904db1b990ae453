//! `packrace bucket`.

use std::path::PathBuf;

use packrace_remote::BucketUrl;

/// Check a bucket, and import, export and maintain its repositories.
#[derive(Debug, clap::Args)]
#[command(after_long_help = BUCKET_HELP)]
pub struct Bucket {
    #[command(subcommand)]
    pub command: BucketCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum BucketCommand {
    /// Check whether a store meets the requirements of repositories.
    ///
    /// Prints the result of each requirement; the exit code is 1 if the store does not meet one. The check writes objects below
    /// probe/ and deletes them. A store that passes gets an object v1/probed-…: servers and imports check a store without it
    /// first, and refuse one that fails.
    Check(BucketCheck),
    /// Import a repository into a bucket; the original stays unchanged.
    Import(BucketImport),
    /// Export a repository from a bucket to a new bare repository.
    Export(BucketExport),
    /// Combine the packs of repositories into fewer packs.
    ///
    /// Servers do this themselves for repositories that are pushed to through them. The repositories are downloaded to TMPDIR, one
    /// after the other. Pushes and fetches continue meanwhile. If another fold of the same repository wins, nothing is changed, and
    /// the exit code is 1.
    Fold(BucketFold),
    /// Delete objects that no repository needs: uploads of failed pushes, and packs that were folded.
    ///
    /// An object is deleted by the second run that finds it, so that nodes that have read an older head can still fetch it. Run
    /// this once a day: servers do not do it. Without NAME, all repositories are processed.
    Collect(BucketCollect),
    /// Print the names of all repositories, one per line.
    List(BucketList),
}

#[derive(Debug, clap::Args)]
pub struct BucketCheck {
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// Number of concurrent writers, at most 256.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub writers: usize,
    /// Number of rounds of concurrent writes.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rounds: usize,
}

#[derive(Debug, clap::Args)]
pub struct BucketImport {
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// Path of the repository.
    pub directory: PathBuf,
    /// Its name in the bucket; .git is added if missing.
    pub name: String,
}

#[derive(Debug, clap::Args)]
pub struct BucketExport {
    /// Ref format: files or reftable.
    #[arg(long, value_name = "FORMAT", default_value = "files", value_parser = ["files", "reftable"])]
    pub ref_format: String,
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// Name of the repository, with or without .git.
    pub name: String,
    /// The directory to create; it must not exist.
    pub directory: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct BucketFold {
    /// Fold all packs into one with a bitmap; by default, only small packs are folded, as by git repack --geometric=2.
    #[arg(long)]
    pub all: bool,
    /// Change nothing in the bucket; only print what would be done.
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// Names of repositories, with or without .git.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct BucketCollect {
    /// Delete objects in the first run that finds them; a node that is fetching one reads the head again.
    #[arg(long)]
    pub now: bool,
    /// Change nothing in the bucket; only print what would be done.
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
    /// Names of repositories, with or without .git.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct BucketList {
    /// The bucket: s3://BUCKET or s3://BUCKET/PREFIX.
    pub bucket: BucketUrl,
}

/// How to reach stores; shown after the help.
const BUCKET_HELP: &str = "\
Buckets are in S3 or an S3-compatible store. The usual environment variables configure access:

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN  credentials
    AWS_REGION                                                   the region
    AWS_ENDPOINT_URL_S3, or else AWS_ENDPOINT_URL                the URL of another store: http:// or https://
    AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true                        the bucket name is part of the host name
    AWS_CA_BUNDLE                                                a file of certificate authorities

Credentials, region and endpoint that no variable has are read from ~/.aws/credentials and ~/.aws/config (AWS_PROFILE, \
AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE). Roles and single sign-on in these files are not supported. \
The variables for container credentials and web identity tokens also work. Without any credentials, those of the EC2 instance are used.

    packrace bucket check s3://git
    packrace bucket import s3://git/hosting /srv/git/tool.git team/tool
    packrace serve --bucket s3://git/hosting --cache /var/cache/packrace --cache-bytes 100g

import warns about what is not imported: reflogs, hooks, refs of linked work trees, and settings other than those for clients. The \
description is not imported either. Shallow repositories, partial clones and repositories with grafts are refused.";
