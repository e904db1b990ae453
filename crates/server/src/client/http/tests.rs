use super::*;

/// Gives one to `step` bytes a read.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.0.len().min(self.1).min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

fn read(bytes: &[u8], step: usize) -> Result<(u16, Vec<u8>), String> {
    let (mut answer, head) = Answer::begin(Slow(bytes, step)).map_err(|failure| match failure {
        Failure::Io(error) => error.to_string(),
        Failure::NotHttp => "not HTTP".to_owned(),
    })?;
    let mut body = Vec::new();
    loop {
        let bytes = answer.fill().map_err(|error| error.to_string())?;
        if bytes.is_empty() {
            return Ok((head.status, body));
        }
        let length = bytes.len();
        body.extend_from_slice(bytes);
        answer.consume(length);
    }
}

fn check(bytes: &[u8], expect: Result<(u16, &[u8]), &str>) {
    for step in [bytes.len().max(1), 1, 3] {
        let expect = expect.map(|(status, body)| (status, body.to_vec())).map_err(str::to_owned);
        assert_eq!(read(bytes, step), expect, "{} in steps of {step}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn bodies_of_every_form() {
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!", Ok((200, b"hi")));
    check(b"HTTP/1.0 200\r\n\r\nuntil the end", Ok((200, b"until the end")));
    check(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", Ok((404, b"")));
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = |body: &[u8]| [&head[..], body].concat();
    check(&chunked(b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nmore"), Ok((200, b"abc0123456789")));
    check(&chunked(b"0\r\nTrailer: x\r\n\r\n"), Ok((200, b"")));
    check(&chunked(b"3\nabc\n0\n\n"), Ok((200, b"abc")));
}

#[test]
fn answers_that_break_the_protocol() {
    let eof = "unexpected end of file";
    check(b"", Err(eof));
    check(b"HTTP/1.1 200 OK\r\n", Err(eof));
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", Err(eof));
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", Err("not HTTP"));
    check(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Err("not HTTP"));
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", Err("not HTTP"));
    check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err("not HTTP"));
    check(b"SSH-2.0-x\r\n\r\n", Err("not HTTP"));
    check(b"HTTP/2 200\r\n\r\n", Err("not HTTP"));
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = |body: &[u8]| [&head[..], body].concat();
    let damaged = "the chunks of the answer are damaged";
    for body in ["x\r\n", "\r\n", "-1\r\nabc", "3\r\nabcd\r\n", "fffffffffffffffff\r\na", "+3\r\nabc\r\n"] {
        check(&chunked(body.as_bytes()), Err(damaged));
    }
    for body in ["", "3", "3\r\nab", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n"] {
        check(&chunked(body.as_bytes()), Err(eof));
    }
    check(&chunked(&[b'1'; 5000]), Err(damaged));
    let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &b"A: b\r\n".repeat(20_000)].concat();
    check(&endless, Err("not HTTP"));
    let many = [&b"HTTP/1.1 200 OK\r\n"[..], &b"A: b\r\n".repeat(101), b"\r\n"].concat();
    check(&many, Err("not HTTP"));
}

#[test]
fn redirects_stay_on_the_host() {
    let url = Url::parse("http://a:80/b.git").unwrap();
    let to = |location: &str| redirected(&url, Some(location)).map(|url| url.base()).ok();
    assert_eq!(to("/c.git/info/refs?service=git-upload-pack").as_deref(), Some("http://a:80/c.git"));
    assert_eq!(to("http://a/c/info/refs?service=git-upload-pack").as_deref(), Some("http://a/c"));
    for location in [
        "http://b/c/info/refs?service=git-upload-pack",
        "http://a:81/c/info/refs?service=git-upload-pack",
        "//a/c/info/refs?service=git-upload-pack",
        "https://a/c/info/refs?service=git-upload-pack",
        "git://a:80/c/info/refs?service=git-upload-pack",
        "/login",
        "",
    ] {
        assert_eq!(to(location), None, "{location}");
    }
    assert!(redirected(&url, None).is_err());
}
