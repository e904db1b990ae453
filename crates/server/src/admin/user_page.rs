//! The page at `/-/` for a user who is no administrator: the repositories that the user may read, and nothing
//! about other users.

use std::fmt::Write as _;

use super::html::escaped;
use super::page;
use crate::service::readable::ReadableRepositories;

/// The most repositories on the page.
pub(crate) const MAX_SHOWN: usize = 1000;

/// What a user sees.
#[derive(Debug)]
pub(crate) struct UserView {
    pub(crate) user: String,
    /// `None` for repositories in a bucket, which are not listed.
    pub(crate) readable: Option<ReadableRepositories>,
}

impl UserView {
    pub(super) fn render(&self, agent: &str) -> String {
        let mut out = String::with_capacity(8 << 10);
        page::begin("packrace", None, &mut out);
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "<header><h1>packrace</h1><span class=\"soft\">{}</span>\
             <span class=\"soft right\">you are {}</span></header>\
             <section><h2>Repositories you may read</h2>",
            escaped(agent),
            escaped(&self.user)
        );
        match &self.readable {
            Some(readable) => rows(readable, &mut out),
            None => {
                out.push_str("<p class=\"empty\">This server does not list its repositories.</p>");
            }
        }
        out.push_str("</section></main></body></html>\n");
        out
    }
}

fn rows(readable: &ReadableRepositories, out: &mut String) {
    if readable.repositories.is_empty() {
        return out.push_str("<p class=\"empty\">None.</p>");
    }
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th>Repository</th><th>Description</th></tr></thead><tbody>",
    );
    for repository in &readable.repositories {
        let _ = write!(
            out,
            "<tr><td class=\"mono\"><bdi>{}</bdi></td><td><bdi>{}</bdi></td></tr>",
            escaped(&repository.name),
            escaped(repository.description.as_deref().unwrap_or_default())
        );
    }
    out.push_str("</tbody></table></div>");
    if readable.has_more {
        let _ = write!(out, "<p class=\"empty\">More than {MAX_SHOWN} repositories; not all are shown.</p>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::readable::DescribedRepository;

    #[test]
    fn strangers_write_no_markup() {
        let evil = "<script>alert(1)</script>".to_owned();
        let repository =
            DescribedRepository { name: evil.clone(), description: Some(evil.clone()), object_format: None };
        let readable = ReadableRepositories { repositories: vec![repository], has_more: true };
        let page = UserView { user: evil, readable: Some(readable) }.render("<script>");
        assert!(!page.contains("<script") && page.contains("More than 1000"), "{page}");
        let nothing = |readable| UserView { user: "alice".to_owned(), readable }.render("p/1");
        assert!(nothing(None).contains("does not list its repositories"));
        assert!(nothing(Some(ReadableRepositories::default())).contains(">None.</p>"));
    }
}
