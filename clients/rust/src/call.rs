//! One gRPC call over HTTP/2: what a library such as tonic does, where there is none.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use h2::{client, Ping, PingPong, Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::{ClientConfig, ServerName};
use tokio_rustls::TlsConnector;

const CANCEL_TIME: Duration = Duration::from_secs(1); // for a server that does not answer any more
const PREFIX: usize = 5; // a byte that tells of compression, and four of the length
const UNKNOWN: i32 = 2;
const UNAVAILABLE: i32 = 14;

/// Where a call goes, and what it shows.
pub struct Endpoint {
    pub address: String,
    pub tls: Option<Arc<ClientConfig>>,
    pub token: Option<String>,
}

/// Why a call failed; `details` is a google.rpc.Status, or empty.
#[derive(Debug)]
pub struct Status {
    pub code: i32,
    pub message: String,
    pub details: Vec<u8>,
}

impl Status {
    pub fn new(code: i32, message: impl ToString) -> Self {
        Status { code, message: message.to_string(), details: Vec::new() }
    }

    fn lost(error: impl ToString) -> Self {
        Status::new(UNAVAILABLE, error)
    }

    /// What trailers, or the headers of an answer without any message, say.
    fn read(headers: &HeaderMap) -> Result<(), Self> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match text("grpc-status").parse().unwrap_or(UNKNOWN) {
            0 => Ok(()),
            code => {
                let packed = text("grpc-status-details-bin").trim_end_matches('=');
                let details = base64::decode_config(packed, base64::STANDARD_NO_PAD).unwrap_or_default();
                Err(Status { code, message: decode_percents(text("grpc-message")), details })
            }
        }
    }
}

/// A call whose answers are still to be read.
pub struct Call {
    request: SendStream<Bytes>,
    answers: RecvStream,
    received: BytesMut,
    pings: PingPong,
}

impl Call {
    /// Connects and sends the one request.
    pub async fn start(endpoint: &Endpoint, path: &str, message: &impl Message) -> Result<Self, Status> {
        let socket = TcpStream::connect(&endpoint.address).await.map_err(Status::lost)?;
        socket.set_nodelay(true).map_err(Status::lost)?;
        let Some(tls) = &endpoint.tls else {
            return Call::begin(socket, endpoint, "http", path, message).await;
        };
        let host = endpoint.address.rsplit_once(':').map_or("", |(host, _)| host);
        let name = ServerName::try_from(host).map_err(Status::lost)?;
        let encrypted = TlsConnector::from(tls.clone()).connect(name, socket).await.map_err(Status::lost)?;
        Call::begin(encrypted, endpoint, "https", path, message).await
    }

    async fn begin<Socket>(
        socket: Socket,
        endpoint: &Endpoint,
        scheme: &str,
        path: &str,
        message: &impl Message,
    ) -> Result<Self, Status>
    where
        Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, mut connection) = client::handshake(socket).await.map_err(Status::lost)?;
        let pings = connection.ping_pong().expect("it is asked for once");
        tokio::spawn(async move {
            let _ = connection.await; // the call that is on it tells of its errors
        });
        let mut head = Request::post(format!("{scheme}://{}{path}", endpoint.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = &endpoint.token {
            head = head.header("authorization", format!("Bearer {token}"));
        }
        let head = head.body(()).map_err(Status::lost)?;
        let mut sender = sender.ready().await.map_err(Status::lost)?;
        let (response, mut request) = sender.send_request(head, false).map_err(Status::lost)?;
        request.send_data(framed(message), true).map_err(Status::lost)?;
        let (head, answers) = response.await.map_err(Status::lost)?.into_parts();
        if head.headers.contains_key("grpc-status") {
            Status::read(&head.headers)?;
        }
        Ok(Call { request, answers, received: BytesMut::new(), pings })
    }

    /// The next answer; None after the last one.
    pub async fn next<Answer: Message + Default>(&mut self) -> Result<Option<Answer>, Status> {
        loop {
            if let Some(whole) = self.take_frame() {
                return Answer::decode(whole).map(Some).map_err(|error| Status::new(UNKNOWN, error));
            }
            let Some(data) = self.answers.data().await else {
                let trailers = self.answers.trailers().await.map_err(Status::lost)?;
                return Status::read(&trailers.unwrap_or_default()).map(|()| None);
            };
            let data = data.map_err(Status::lost)?;
            self.answers.flow_control().release_capacity(data.len()).map_err(Status::lost)?;
            self.received.extend_from_slice(&data);
        }
    }

    fn take_frame(&mut self) -> Option<Bytes> {
        let size = self.received.get(1..PREFIX).map(|mut size| size.get_u32() as usize)?;
        if self.received.len() < PREFIX + size {
            return None;
        }
        self.received.advance(PREFIX);
        Some(self.received.split_to(size).freeze())
    }

    /// Ends the call on the server too, which has heard of it when it answers what is sent next.
    pub async fn cancel(mut self) {
        self.request.send_reset(Reason::CANCEL);
        let _ = timeout(CANCEL_TIME, self.pings.ping(Ping::opaque())).await;
    }
}

fn framed(message: &impl Message) -> Bytes {
    let mut frame = vec![0];
    frame.extend((message.encoded_len() as u32).to_be_bytes());
    frame.extend(message.encode_to_vec());
    frame.into()
}

/// Messages have what is not visible ASCII as percent signs and hexadecimal digits.
fn decode_percents(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
