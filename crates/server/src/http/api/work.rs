//! Executes requests of the API, on a thread that may block on the disk.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use http::StatusCode;
use jiff::Timestamp;
use packrace_journal::{Action, JournalEvent};
use packrace_store::Repository;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::body::RequestBody;
use super::super::identity::{ClientOffer, identify};
use super::ApiReply;
use crate::access::{Ask, AuditedChange, Denied, Principal, RepositoryAccess};
use crate::events::NotMade;
use crate::repositories::{CreateOptions, RepositoryError, RepositoryFolder, RepositoryName, words_of};
use crate::service::access_log::quoted;
use crate::service::readable::{self, DescribedRepository, ReadableRepositories};
use crate::service::root::NotServed;
use crate::service::shared::Shared;
use crate::settings::Settings;
use crate::transfers::Transfer;

/// The most repositories in one answer.
const LISTED_AT_ONCE: usize = 1000;

/// Longer names are cut off in the audit log.
const MAX_AUDITED_BYTES: usize = 1024;

/// A parsed request.
pub(super) enum ApiRequest {
    List { after: Option<Vec<u8>> },
    Create(RequestBody),
    Look(Vec<u8>),
    Change(Vec<u8>, RequestBody),
    Delete(Vec<u8>),
}

/// Why a request failed.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) text: String,
    pub(super) allow: Option<&'static str>,
}

impl ApiError {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        ApiError { status, text: text.into(), allow: None }
    }

    /// An error with the name of the status.
    pub(super) fn of(status: StatusCode) -> Self {
        ApiError::new(status, status.canonical_reason().unwrap_or("refused"))
    }

    /// Hidden and absent repositories get the same error.
    fn not_found() -> Self {
        RepositoryError::NotFound.into()
    }
}

impl From<RepositoryError> for ApiError {
    fn from(error: RepositoryError) -> Self {
        let status = match &error {
            RepositoryError::Invalid(_) => StatusCode::BAD_REQUEST,
            RepositoryError::NotFound => StatusCode::NOT_FOUND,
            RepositoryError::Taken | RepositoryError::Refused(_) => StatusCode::CONFLICT,
            RepositoryError::Store(_) | RepositoryError::Disk { .. } => {
                tracing::error!("repository API: {}", quoted(error.to_string().as_bytes()));
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        ApiError::new(status, words_of(&error))
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unauthenticated => ApiError::of(StatusCode::UNAUTHORIZED),
            Denied::Hidden => ApiError::not_found(),
            Denied::Forbidden(why) => ApiError::new(StatusCode::FORBIDDEN, why),
        }
    }
}

impl From<NotServed> for ApiError {
    fn from(why: NotServed) -> Self {
        match why {
            NotServed::Broken(error) => {
                tracing::error!("repository API: {}", quoted(error.to_string().as_bytes()));
                ApiError::of(StatusCode::INTERNAL_SERVER_ERROR)
            }
            _ => ApiError::not_found(),
        }
    }
}

/// The body of a request for a new repository; its fields are named as in `git init`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRepositoryBody {
    name: String,
    object_format: Option<String>,
    ref_format: Option<String>,
    initial_branch: Option<String>,
    description: Option<String>,
}

/// The body of a request to change a repository.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    name: Option<String>,
    description: Option<String>,
}

/// A request of a principal.
pub(super) struct ApiCall<'a> {
    principal: Principal,
    settings: &'a Settings,
    transfer: &'a Transfer,
    shared: &'a Shared,
    folder: &'a RepositoryFolder,
}

impl<'a> ApiCall<'a> {
    /// Identifies the principal.
    pub(super) fn identify(
        offer: &'a ClientOffer,
        transfer: &'a Transfer,
        shared: &'a Shared,
    ) -> Result<Self, ApiError> {
        let principal = identify(offer, shared).map_err(ApiError::of)?;
        principal.name().iter().for_each(|name| transfer.is_by(name));
        Ok(ApiCall { principal, settings: &offer.settings, transfer, shared, folder: &shared.root.folder })
    }

    /// Executes the request.
    pub(super) fn answer(&self, asked: ApiRequest) -> Result<ApiReply, ApiError> {
        match asked {
            ApiRequest::List { after } => self.list(after),
            ApiRequest::Look(name) => self.look(&name),
            ApiRequest::Create(body) => self.create(parsed(&body)?),
            ApiRequest::Change(name, body) => self.change(&name, parsed(&body)?),
            ApiRequest::Delete(name) => self.delete(&name),
        }
    }

    fn list(&self, after: Option<Vec<u8>>) -> Result<ApiReply, ApiError> {
        let after = after.map(|after| PathBuf::from(std::ffi::OsStr::from_bytes(&after)));
        let ApiCall { principal, settings, shared, .. } = self;
        let readable =
            ReadableRepositories::of(principal, after.as_deref(), LISTED_AT_ONCE, settings, shared)?;
        let listed: Vec<Value> = readable.repositories.into_iter().map(json_of).collect();
        let next = listed.last().filter(|_| readable.has_more).map(|last| last["name"].clone());
        Ok(ApiReply::new(StatusCode::OK, json!({ "repositories": listed, "next": next })))
    }

    fn look(&self, name: &[u8]) -> Result<ApiReply, ApiError> {
        self.transfer.is_about(name);
        let mut access = self.access(name);
        access.check(Ask::Read)?;
        let repository = self.shared.root.open(&[b"/", name].concat())?;
        let place = self.shared.root.path_of(&repository)?;
        access.also_at(place.clone());
        access.check(Ask::Read)?;
        if !self.is_served(&repository) {
            return Err(ApiError::not_found());
        }
        let shown = String::from_utf8_lossy(place.as_deref().unwrap_or(name)).into_owned();
        Ok(ApiReply::new(StatusCode::OK, described(&shown, Some(&repository))))
    }

    fn create(&self, body: NewRepositoryBody) -> Result<ApiReply, ApiError> {
        let asked = body.name.clone();
        self.transfer.is_about(asked.as_bytes());
        self.audited("create", asked.as_bytes(), None, || {
            let name = RepositoryName::new(&body.name)?;
            let NewRepositoryBody { object_format, ref_format, initial_branch, description, .. } = body;
            let [object_format, ref_format, initial_branch] =
                [&object_format, &ref_format, &initial_branch].map(Option::as_deref);
            let options = CreateOptions::parse(object_format, ref_format, initial_branch, description)?;
            self.check_new(&name)?;
            let prototype = self.settings.repository_prototype.as_ref().ok_or_else(ApiError::not_found)?;
            let place = self.folder.place(&name)?;
            let place = self
                .recorded(Action::Create, &place, None, || self.folder.create(&name, prototype, &options))?;
            tracing::info!("created {}", quoted(place.as_os_str().as_bytes()));
            let repository = self.shared.root.open_once(&place).ok();
            let shown = place.to_string_lossy().into_owned();
            let location = Some(ApiReply::location_of(&shown));
            let reply = ApiReply::new(StatusCode::CREATED, described(&shown, repository.as_ref()));
            Ok(ApiReply { location, ..reply })
        })
    }

    fn change(&self, name: &[u8], body: ChangeBody) -> Result<ApiReply, ApiError> {
        self.transfer.is_about(name);
        let action = if body.name.is_some() { "rename" } else { "describe" };
        self.audited(action, name, body.name.as_deref(), || {
            let asks: &[Ask<'_>] = match (&body.name, &body.description) {
                (None, None) => {
                    let words = "name or description is required";
                    return Err(ApiError::new(StatusCode::BAD_REQUEST, words));
                }
                (Some(_), None) => &[Ask::Delete],
                (None, Some(_)) => &[Ask::Push],
                (Some(_), Some(_)) => &[Ask::Delete, Ask::Push],
            };
            let mut found = self.find(name, asks)?;
            let new_name = body.name.as_deref().map(RepositoryName::new).transpose()?;
            if let Some(text) = &body.description {
                CreateOptions::parse(None, None, None, Some(text.clone()))?;
            }
            if let Some(new_name) = &new_name {
                self.check_new(new_name)?;
                let place = self.folder.place(new_name)?;
                let rename = || self.folder.rename(&found, new_name);
                let renamed = self.recorded(Action::Rename, &found, Some(&place), rename)?;
                let before = std::mem::replace(&mut found, renamed);
                let [before, after] = [&before, &found].map(|path| quoted(path.as_os_str().as_bytes()));
                tracing::info!("renamed {before} to {after}");
            }
            if let Some(text) = &body.description {
                self.folder.describe(&found, text)?;
            }
            let repository = self.shared.root.open_once(&found).ok();
            Ok(ApiReply::new(StatusCode::OK, described(&found.to_string_lossy(), repository.as_ref())))
        })
    }

    fn delete(&self, name: &[u8]) -> Result<ApiReply, ApiError> {
        self.transfer.is_about(name);
        self.audited("delete", name, None, || {
            let found = self.find(name, &[Ask::Delete])?;
            let delete = || self.folder.delete(&found, Timestamp::now());
            let kept = self.recorded(Action::Delete, &found, None, delete)?;
            let [before, after] = [&found, &kept].map(|path| quoted(path.as_os_str().as_bytes()));
            tracing::info!("deleted {before}: moved to {after}");
            let json = json!({ "name": found.to_string_lossy(), "trash": kept.to_string_lossy() });
            Ok(ApiReply::new(StatusCode::OK, json))
        })
    }

    fn access(&self, name: &[u8]) -> RepositoryAccess {
        let trimmed = name.strip_prefix(b"/").unwrap_or(name);
        let trimmed = trimmed.strip_suffix(b"/").unwrap_or(trimmed);
        RepositoryAccess::new(self.settings.access.clone(), self.principal.clone(), trimmed.to_vec())
    }

    /// The path of a repository for which all of this is allowed.
    fn find(&self, name: &[u8], asks: &[Ask<'_>]) -> Result<PathBuf, ApiError> {
        let mut access = self.access(name);
        let check = |access: &RepositoryAccess| {
            asks.iter().try_for_each(|ask| access.check(*ask)).map_err(ApiError::from)
        };
        check(&access)?;
        let found = self.folder.find(name)?;
        access.also_at(Some(found.as_os_str().as_bytes().to_vec()));
        check(&access)?;
        if !self.is_served(&self.shared.root.open_once(&found)?) {
            return Err(ApiError::not_found());
        }
        self.check_writable()?;
        Ok(found)
    }

    /// Refuses a new name that this principal may not use, also by its place in the folder. The error does
    /// not reveal what exists.
    fn check_new(&self, name: &RepositoryName) -> Result<(), ApiError> {
        let denied = |denied| match denied {
            Denied::Unauthenticated => ApiError::of(StatusCode::UNAUTHORIZED),
            Denied::Hidden | Denied::Forbidden(_) => {
                let user = self.principal.name().unwrap_or("anyone");
                ApiError::new(StatusCode::FORBIDDEN, format!("{user} may not create this repository"))
            }
        };
        let mut access = self.access(name.as_bytes());
        access.check(Ask::Create).map_err(denied)?;
        self.check_writable()?;
        if self.settings.rules.require_export_ok {
            let words = "new repositories would not be exported (serve.require-export-ok)";
            return Err(ApiError::new(StatusCode::FORBIDDEN, words));
        }
        let place = self.folder.place(name)?;
        access.also_at(Some(place.as_os_str().as_bytes().to_vec()));
        access.check(Ask::Create).map_err(denied)
    }

    fn check_writable(&self) -> Result<(), ApiError> {
        match self.settings.rules.read_only {
            true => Err(ApiError::new(StatusCode::FORBIDDEN, "server is read-only (serve.read-only)")),
            false => Ok(()),
        }
    }

    fn is_served(&self, repository: &Repository) -> bool {
        readable::is_served(repository, self.settings)
    }

    /// Makes a change that gets its line in the journal of events, if there is one.
    fn recorded<T>(
        &self,
        action: Action,
        repository: &Path,
        to: Option<&Path>,
        change: impl FnOnce() -> Result<T, RepositoryError>,
    ) -> Result<T, ApiError> {
        let Some(events) = self.shared.host.events.get() else { return Ok(change()?) };
        let to = to.map(|to| to.as_os_str().as_bytes().to_vec());
        let event =
            JournalEvent { to, ..events.event(action, self.transfer, repository.as_os_str().as_bytes()) };
        events.around(&event, change).map_err(|why| match why {
            NotMade::Failed(error) => error.into(),
            NotMade::Unrecorded(words) => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, words),
        })
    }

    /// Records the outcome of a change if its principal is known, or if it succeeded.
    fn audited(
        &self,
        action: &'static str,
        repository: &[u8],
        to: Option<&str>,
        change: impl FnOnce() -> Result<ApiReply, ApiError>,
    ) -> Result<ApiReply, ApiError> {
        let result = change();
        if let Some(audit) = &self.settings.audit
            && (result.is_ok() || self.principal.name().is_some())
        {
            let trash = result.as_ref().ok().and_then(|reply| reply.json["trash"].as_str());
            let to = to.map(|to| String::from_utf8_lossy(cut(to.as_bytes())).into_owned());
            audit.change(
                self.transfer,
                AuditedChange {
                    repository: cut(repository),
                    action,
                    to: to.as_deref().or(trash),
                    error: result.as_ref().err().map(|error| error.text.as_str()),
                },
            );
        }
        result
    }
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MAX_AUDITED_BYTES)]
}

/// Parses a JSON body.
fn parsed<'a, T: Deserialize<'a>>(body: &'a RequestBody) -> Result<T, ApiError> {
    serde_json::from_slice(body.bytes())
        .map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, format!("request body: {error}")))
}

/// The description of a repository; `None` if it cannot be read.
fn described(name: &str, repository: Option<&Repository>) -> Value {
    json_of(DescribedRepository::new(name, repository))
}

fn json_of(described: DescribedRepository) -> Value {
    let DescribedRepository { name, description, object_format } = described;
    json!({ "name": name, "description": description, "object_format": object_format })
}
