//! An in-memory store on loopback with the part of S3's protocol that repositories need. Signatures are not
//! checked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Largest object, or part of one.
const MAX_OBJECT_BYTES: usize = 64 << 20;

/// Time between the condition check and the write of a careless store.
const CARELESS_TIME: Duration = Duration::from_millis(5);

/// The store's content, and how it responds.
#[derive(Debug, Default)]
struct Contents {
    /// Objects by bucket and key, with the number of the write.
    objects: BTreeMap<String, (Vec<u8>, u64)>,
    writes: u64,
    /// Parts of unfinished uploads, by upload and part number.
    parts: BTreeMap<(u64, u32), Vec<u8>>,
    is_busy: bool,
    is_careless: bool,
    /// Delay before each request is handled.
    latency: Duration,
    /// Method and key of each request.
    requests: Vec<String>,
}

/// A running store. Its threads end with the process.
#[derive(Debug)]
pub struct BucketServer {
    address: SocketAddr,
    contents: Arc<Mutex<Contents>>,
}

/// The relevant parts of a request.
struct StoreRequest {
    method: String,
    key: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl StoreRequest {
    /// The query parameter with this name.
    fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> u64 {
        self.parameter(name).and_then(|value| value.parse().ok()).expect("a number")
    }
}

/// One answer.
struct StoreAnswer {
    status: &'static str,
    tag: Option<u64>,
    /// First and last byte of the body in an object, and the object's length.
    range: Option<(usize, usize, usize)>,
    body: Vec<u8>,
}

impl StoreAnswer {
    fn of(status: &'static str) -> Self {
        StoreAnswer { status, tag: None, range: None, body: Vec::new() }
    }
}

impl BucketServer {
    /// Starts an empty store.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = listener.local_addr().expect("it has an address");
        let contents = Arc::<Mutex<Contents>>::default();
        let shared = contents.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let contents = shared.clone();
                std::thread::spawn(move || converse(stream, &contents));
            }
        });
        BucketServer { address, contents }
    }

    /// The variables for access to the store.
    pub fn variables(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.address);
        let all = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Sets whether every request is answered with 503.
    pub fn set_busy(&self, is_busy: bool) {
        self.lock().is_busy = is_busy;
    }

    /// Sets whether other writes may come between the condition check of a write and the write itself. The
    /// conditions of sequential writes are always kept.
    pub fn set_careless(&self, is_careless: bool) {
        self.lock().is_careless = is_careless;
    }

    /// Delays each later request by `latency`, like a distant store.
    pub fn set_latency(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Buckets and keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    /// The bytes of an object.
    pub fn object(&self, key: &str) -> Vec<u8> {
        self.lock().objects.get(key).expect("it is there").0.clone()
    }

    /// Stores an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        self.lock().store(key, bytes.to_vec());
    }

    /// Method and key of each request since the last call.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().requests)
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no thread has panicked")
    }
}

impl Contents {
    fn store(&mut self, key: &str, bytes: Vec<u8>) -> u64 {
        self.writes += 1;
        self.objects.insert(key.to_owned(), (bytes, self.writes));
        self.writes
    }

    fn answer(&mut self, request: StoreRequest) -> StoreAnswer {
        self.requests.push(format!("{} {}", request.method, request.key));
        if self.is_busy {
            return StoreAnswer::of("503 Slow Down");
        }
        match request.method.as_str() {
            "GET" if request.query.contains("list-type=2") => self.list(&request),
            "GET" => self.get(&request),
            "PUT" if request.query.contains("uploadId=") => self.put_part(request),
            "PUT" => self.put(request),
            "POST" if request.query.contains("uploadId=") => self.put_together(&request),
            "POST" if request.query.starts_with("uploads") => {
                self.writes += 1;
                xml(format!(
                    "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>",
                    self.writes
                ))
            }
            "DELETE" => {
                self.objects.remove(&request.key);
                StoreAnswer::of("204 No Content")
            }
            _ => StoreAnswer::of("501 Not Implemented"),
        }
    }

    fn get(&self, request: &StoreRequest) -> StoreAnswer {
        let Some((bytes, number)) = self.objects.get(&request.key) else {
            return StoreAnswer::of("404 Not Found");
        };
        let tag = Some(*number);
        if request.headers.get("if-none-match").is_some_and(|known| *known == quoted(*number)) {
            return StoreAnswer { tag, ..StoreAnswer::of("304 Not Modified") };
        }
        let Some(range) = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")) else {
            return StoreAnswer { tag, body: bytes.clone(), ..StoreAnswer::of("200 OK") };
        };
        let (first, last) = range.split_once('-').expect("a range");
        let first: usize = first.parse().expect("a number");
        let end = last.parse::<usize>().expect("a number").saturating_add(1).min(bytes.len());
        match bytes.get(first..end).filter(|part| !part.is_empty()) {
            None => StoreAnswer::of("416 Range Not Satisfiable"),
            Some(part) => StoreAnswer {
                tag,
                range: Some((first, end - 1, bytes.len())),
                body: part.to_vec(),
                ..StoreAnswer::of("206 Partial Content")
            },
        }
    }

    /// Whether the condition of a write holds.
    fn allows(&self, request: &StoreRequest) -> bool {
        let found = self.objects.get(&request.key).map(|(_, number)| quoted(*number));
        let is_kept = request.headers.contains_key("if-none-match") && found.is_some();
        let is_other = request.headers.get("if-match").is_some_and(|known| Some(known) != found.as_ref());
        !is_kept && !is_other
    }

    fn put(&mut self, request: StoreRequest) -> StoreAnswer {
        if !self.allows(&request) {
            return StoreAnswer::of("412 Precondition Failed");
        }
        let tag = self.store(&request.key, request.body);
        StoreAnswer { tag: Some(tag), ..StoreAnswer::of("200 OK") }
    }

    fn put_part(&mut self, request: StoreRequest) -> StoreAnswer {
        let number = request.number("partNumber") as u32;
        self.parts.insert((request.number("uploadId"), number), request.body);
        StoreAnswer { tag: Some(u64::from(number)), ..StoreAnswer::of("200 OK") }
    }

    fn put_together(&mut self, request: &StoreRequest) -> StoreAnswer {
        let upload = request.number("uploadId");
        let mut later = self.parts.split_off(&(upload, 0));
        self.parts.append(&mut later.split_off(&(upload + 1, 0)));
        let bytes = later.into_values().collect::<Vec<_>>().concat();
        let tag = self.store(&request.key, bytes);
        xml(format!(
            "<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
            escaped_tag(tag)
        ))
    }

    fn list(&self, request: &StoreRequest) -> StoreAnswer {
        let wanted = request.parameter("prefix").unwrap_or_default();
        let prefix = format!("{}/{}", request.key, unescaped(wanted));
        let mut body = String::from("<ListBucketResult><IsTruncated>false</IsTruncated>");
        for (key, (bytes, number)) in self.objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let (_, key) = key.split_once('/').expect("a bucket and a key");
            body.push_str(&format!(
                "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{}</ETag>\
                 <Size>{}</Size></Contents>",
                escaped_tag(*number),
                bytes.len()
            ));
        }
        body.push_str("</ListBucketResult>");
        xml(body)
    }
}

fn xml(body: String) -> StoreAnswer {
    StoreAnswer { body: body.into_bytes(), ..StoreAnswer::of("200 OK") }
}

fn escaped_tag(number: u64) -> String {
    quoted(number).replace('"', "&quot;")
}

fn quoted(number: u64) -> String {
    format!("\"{number:032x}\"")
}

/// Decodes URL escapes.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).expect("keys are text")
}

/// Answers requests until the client disconnects.
fn converse(stream: TcpStream, contents: &Mutex<Contents>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut writer = stream;
    while let Some(mut request) = read_request(&mut reader) {
        let latency = contents.lock().expect("no thread has panicked").latency;
        std::thread::sleep(latency);
        if is_looked_at_before(&request, contents) {
            request.headers.retain(|name, _| !name.starts_with("if-"));
            std::thread::sleep(CARELESS_TIME);
        }
        let answer = contents.lock().expect("no thread has panicked").answer(request);
        let mut head = format!("HTTP/1.1 {}\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
        head.push_str("Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n");
        if let Some(number) = answer.tag {
            head.push_str(&format!("ETag: {}\r\n", quoted(number)));
        }
        if let Some((first, last, whole)) = answer.range {
            head.push_str(&format!("Content-Range: bytes {first}-{last}/{whole}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&answer.body);
        if writer.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Whether a careless store checks the condition of this write in advance, and it holds.
fn is_looked_at_before(request: &StoreRequest, contents: &Mutex<Contents>) -> bool {
    let contents = contents.lock().expect("no thread has panicked");
    contents.is_careless && request.method == "PUT" && contents.allows(request)
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<StoreRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let mut body = vec![0; Some(length).filter(|length| *length <= MAX_OBJECT_BYTES)?];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let key = unescaped(path).trim_matches('/').to_owned();
    Some(StoreRequest { method, key, query: query.to_owned(), headers, body })
}
