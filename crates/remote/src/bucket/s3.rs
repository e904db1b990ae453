//! A bucket behind the S3 protocol, through the crate `object_store`, whose own retries are off.
//!
//! It has a runtime of its own; its callers are threads that may block.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, ObjectStore as _, PutMode, PutOptions, PutPayload, RetryConfig,
    UpdateVersion,
};
use packrace_os::clock::{Clock as _, RealClock};
use tokio::runtime::Runtime;

use super::http_client::StoreClient;
use super::{Condition, KeyPage, Looked, MAX_TRIES, ObjectBackend, ObjectVersion, RequestFailure};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketUrl;

/// Time limit of requests for a head or without a body, and of the start of any response to a read.
const SHORT_TIME: Duration = Duration::from_secs(10);

/// Time limit of requests that carry a part of an object, and of a page of a list.
const PART_TIME: Duration = Duration::from_secs(60);

/// Longest error message of a store that is shown.
const MAX_WORDS: usize = 300;

/// Concurrent range reads of one repository: several are in flight while one is written to disk.
const PARALLEL_READS: usize = 8;

/// Most tries of a part.
const PART_TRIES: u32 = MAX_TRIES;

/// How a bucket is reached. Plain data; the variables contain secrets.
#[derive(Clone)]
pub struct S3Options {
    /// The bucket and its prefix.
    pub url: BucketUrl,
    /// Environment variables that begin with `AWS_`: credentials, region, endpoint. Unknown ones are ignored.
    pub variables: Vec<(String, String)>,
}

impl std::fmt::Debug for S3Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Options").field("url", &self.url).finish_non_exhaustive()
    }
}

impl S3Options {
    /// Where the bucket is: endpoint, region, name and prefix, without secrets.
    pub fn address(&self) -> String {
        let is_part = |name: &str| {
            let key = name.to_ascii_lowercase().parse();
            matches!(
                key,
                Ok(AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint | AmazonS3ConfigKey::Region)
            )
        };
        let mut parts: Vec<String> = (self.variables.iter())
            .filter(|(name, _)| is_part(name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        parts.sort();
        format!("{} {}", self.url, parts.join(" "))
    }
}

/// A bucket behind the S3 protocol.
pub struct S3 {
    /// `None` only during drop.
    runtime: Option<Runtime>,
    store: AmazonS3,
    prefix: String,
    clock: RealClock,
}

impl S3 {
    /// Opens a bucket without making a request.
    pub fn new(options: &S3Options) -> Result<Self, Error> {
        let refused = |why: String| Error::new(ErrorKind::Refused, format!("{}: {why}", options.url));
        let mut builder = AmazonS3Builder::new();
        let mut authorities = None;
        for (name, value) in &options.variables {
            if name == "AWS_CA_BUNDLE" {
                authorities = Some(PathBuf::from(value));
            }
            let Ok(key) = name.to_ascii_lowercase().parse() else { continue };
            if matches!(key, AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint) {
                check_endpoint(value).map_err(|why| refused(format!("{name}: {why}")))?;
            }
            builder = builder.with_config(key, value);
        }
        let client = StoreClient::new(authorities.as_deref()).map_err(refused)?;
        let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let store = builder
            .with_bucket_name(&options.url.bucket)
            .with_retry(retries)
            // Objects are deleted one at a time, and not every store supports bulk deletion.
            .with_disable_bulk_delete(true)
            .with_http_connector(client)
            .build()
            .map_err(|error| refused(words(&error)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("bucket")
            .enable_all()
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let (prefix, clock) = (options.url.prefix.clone(), RealClock::default());
        Ok(S3 { runtime: Some(runtime), store, prefix, clock })
    }

    fn path(&self, key: &str) -> Result<Path, RequestFailure> {
        Path::parse(format!("{}{key}", self.prefix)).map_err(|error| RequestFailure::lasting(words(&error)))
    }

    /// Waits for a response within a time limit.
    fn wait<T>(
        &self,
        time: Duration,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, object_store::Error> {
        let Some(runtime) = &self.runtime else { return Err(generic("it ends")) };
        runtime.block_on(within(time, request))
    }
}

/// The same in async code.
async fn within<T>(
    time: Duration,
    request: impl Future<Output = object_store::Result<T>>,
) -> object_store::Result<T> {
    let late = |_| generic(&format!("no answer in {} s", time.as_secs()));
    tokio::time::timeout(time, request).await.map_err(late)?
}

fn generic(why: &str) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: why.to_owned().into() }
}

/// The store contains secrets.
impl std::fmt::Debug for S3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Its threads may be in the middle of requests whose results are no longer needed.
impl Drop for S3 {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn check_endpoint(text: &str) -> Result<(), &'static str> {
    let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(_)) => Ok(()),
        _ => Err("is not an http or https URL"),
    }
}

/// An error as one line, without the rest of the XML that some stores send.
fn words(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_WORDS).collect();
    line.trim_end().to_owned()
}

fn failure(error: &object_store::Error) -> RequestFailure {
    use object_store::Error as E;
    if lacks_bucket(error) {
        return RequestFailure::lasting("no such bucket");
    }
    let is_passing = !matches!(
        error,
        E::PermissionDenied { .. }
            | E::Unauthenticated { .. }
            | E::NotImplemented { .. }
            | E::NotSupported { .. }
            | E::NotFound { .. }
    );
    RequestFailure { is_passing, words: words(error) }
}

/// Whether the bucket itself does not exist.
fn lacks_bucket(error: &object_store::Error) -> bool {
    error.to_string().contains("<Code>NoSuchBucket</Code>")
}

fn version_of(tag: Option<String>) -> Result<ObjectVersion, RequestFailure> {
    let tag = tag.filter(|tag| !tag.is_empty());
    tag.map(ObjectVersion).ok_or_else(|| RequestFailure::lasting("store returned no ETag"))
}

/// Reads a whole response, if it is not too long.
async fn whole(answer: GetResult, max_bytes: u64) -> object_store::Result<Bytes> {
    if answer.range.end.saturating_sub(answer.range.start) > max_bytes {
        let source = format!("object of {} bytes is too large", answer.meta.size).into();
        return Err(object_store::Error::NotSupported { source });
    }
    answer.bytes().await
}

impl ObjectBackend for S3 {
    fn look(
        &self,
        key: &str,
        known: Option<&ObjectVersion>,
        max_bytes: usize,
    ) -> Result<Looked, RequestFailure> {
        let path = self.path(key)?;
        let if_none_match = known.map(|version| version.0.clone());
        let options = GetOptions { if_none_match, ..GetOptions::default() };
        let looked = self.wait(SHORT_TIME, async {
            let answer = self.store.get_opts(&path, options).await?;
            let tag = answer.meta.e_tag.clone();
            Ok((whole(answer, max_bytes as u64).await?, tag))
        });
        match looked {
            Ok((bytes, tag)) => Ok(Looked::Found(bytes, version_of(tag)?)),
            Err(object_store::Error::NotModified { .. }) => Ok(Looked::Unchanged),
            Err(error @ object_store::Error::NotFound { .. }) if !lacks_bucket(&error) => Ok(Looked::Absent),
            Err(error) => Err(failure(&error)),
        }
    }

    fn read(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, RequestFailure> {
        let path = self.path(key)?;
        let length = range.end.saturating_sub(range.start);
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let read = self.wait(PART_TIME, async {
            let answer = within(SHORT_TIME, self.store.get_opts(&path, options)).await?;
            whole(answer, length).await
        });
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error @ object_store::Error::NotFound { .. }) if !lacks_bucket(&error) => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }

    fn write(
        &self,
        key: &str,
        bytes: Bytes,
        condition: Condition<'_>,
    ) -> Result<Option<ObjectVersion>, RequestFailure> {
        let path = self.path(key)?;
        let mode = match condition {
            Condition::Always => PutMode::Overwrite,
            Condition::IsAbsent => PutMode::Create,
            Condition::Is(version) => {
                PutMode::Update(UpdateVersion { e_tag: Some(version.0.clone()), version: None })
            }
        };
        // Conditional writes are as short as a head.
        let time = if matches!(condition, Condition::Always) { PART_TIME } else { SHORT_TIME };
        let written = self.wait(time, async {
            self.store.put_opts(&path, PutPayload::from_bytes(bytes), PutOptions::from(mode)).await
        });
        match written {
            Ok(written) => version_of(written.e_tag).map(Some),
            // 409 means that another write was in progress, which may have failed since.
            Err(object_store::Error::AlreadyExists { source, .. })
                if source.downcast_ref::<object_store::Error>().is_none() =>
            {
                Err(RequestFailure::passing(words(source.as_ref())))
            }
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(None)
            }
            Err(error) => Err(failure(&error)),
        }
    }

    fn write_parts(
        &self,
        key: &str,
        part: &mut dyn FnMut() -> Result<Option<Bytes>, RequestFailure>,
    ) -> Result<(), RequestFailure> {
        let path = self.path(key)?;
        let upload = self.wait(SHORT_TIME, self.store.create_multipart(&path));
        let upload = upload.map_err(|error| failure(&error))?;
        let written = self.send_parts(&path, &upload, part).and_then(|parts| {
            let completed = self.wait(PART_TIME, self.store.complete_multipart(&path, &upload, parts));
            completed.map(drop).map_err(|error| failure(&error))
        });
        if written.is_err() {
            // The first error matters; stores clean up incomplete uploads by rules of their own.
            let _ = self.wait(SHORT_TIME, self.store.abort_multipart(&path, &upload));
        }
        written
    }

    fn delete(&self, key: &str) -> Result<(), RequestFailure> {
        let path = self.path(key)?;
        match self.wait(SHORT_TIME, object_store::ObjectStoreExt::delete(&self.store, &path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure(&error)),
        }
    }

    fn list(&self, prefix: &str, page: Option<&str>) -> Result<KeyPage, RequestFailure> {
        let full = format!("{}{prefix}", self.prefix);
        let page_token = page.map(str::to_owned);
        let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
        let listed = self.wait(PART_TIME, self.store.list_paginated(Some(&full), options));
        let listed = listed.map_err(|error| failure(&error))?;
        let keys = listed
            .result
            .objects
            .iter()
            .filter_map(|object| object.location.as_ref().strip_prefix(&self.prefix).map(str::to_owned));
        Ok(KeyPage { keys: keys.collect(), next: listed.page_token })
    }

    fn parallel_reads(&self) -> usize {
        PARALLEL_READS
    }

    fn pause(&self, time: Duration) {
        packrace_os::clock::sleep(time);
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }
}

impl S3 {
    fn send_parts(
        &self,
        path: &Path,
        upload: &String,
        part: &mut dyn FnMut() -> Result<Option<Bytes>, RequestFailure>,
    ) -> Result<Vec<PartId>, RequestFailure> {
        let mut parts = Vec::new();
        while let Some(bytes) = part()? {
            let payload = Arc::new(PutPayload::from_bytes(bytes));
            let mut tries = 0;
            let sent = loop {
                tries += 1;
                let one = self.store.put_part(path, upload, parts.len(), PutPayload::clone(&payload));
                match self.wait(PART_TIME, one).map_err(|error| failure(&error)) {
                    Err(failure) if failure.is_passing && tries < PART_TRIES => {
                        self.pause(super::FIRST_PAUSE * tries)
                    }
                    sent => break sent,
                }
            };
            parts.push(sent?);
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(variables: &[(&str, &str)]) -> Result<S3, Error> {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        S3::new(&S3Options { url: "s3://git/a".parse().unwrap(), variables })
    }

    #[test]
    fn what_cannot_be_is_told_at_once() {
        let keys = [("AWS_ACCESS_KEY_ID", "me"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let check = |variable: (&str, &str), expect: &str| {
            let error = opened(&[keys[0], keys[1], variable]).unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string()),
                (ErrorKind::Refused, format!("s3://git/a: {expect}"))
            );
        };
        check(("AWS_ENDPOINT_URL", "nonsense"), "AWS_ENDPOINT_URL: is not an http or https URL");
        check(("AWS_ENDPOINT_URL_S3", "ftp://x/"), "AWS_ENDPOINT_URL_S3: is not an http or https URL");
        check(("AWS_CA_BUNDLE", "/absent"), "AWS_CA_BUNDLE: /absent: contains no certificate");
        opened(&[keys[0]]).unwrap_err();
        let options = opened(&[keys[0], keys[1], ("AWS_NO_SUCH_THING", "1")]);
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn a_store_that_is_away_is_unavailable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let keys = [("AWS_ACCESS_KEY_ID", "me"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let s3 = opened(&[keys[0], keys[1], ("AWS_ENDPOINT_URL", &endpoint)]).unwrap();
        let failure = s3.look("head", None, 100).unwrap_err();
        assert!(failure.is_passing && failure.words.contains("onnect"), "{}", failure.words);
    }
}
