//! Basic credentials (RFC 7617): base64 of a name, a colon and a password, in UTF-8.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Name and password. A name is not empty, and neither has control characters.
pub(super) fn decode(encoded: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    let is_plain = !user.is_empty() && !text.chars().any(char::is_control);
    is_plain.then(|| (user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords() {
        let check = |encoded: &str, expect: Option<(&str, &str)>| {
            let decoded = decode(encoded.as_bytes());
            let decoded = decoded.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
            assert_eq!(decoded, expect, "{encoded}");
        };
        check("QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some(("Aladdin", "open sesame")));
        check("YTpiOmM=", Some(("a", "b:c")));
        check("YTo=", Some(("a", "")));
        check("w6Q6w7Y=", Some(("ä", "ö")));
        // No colon, no name, no base64, a control character, no UTF-8.
        for bad in ["YQ==", "OmI=", "a:b", "YTpiCg==", "/zr/", ""] {
            check(bad, None);
        }
    }
}
