//! Continues a prompt and prints the text as it streams, then what it cost.

mod arguments;
mod call;

/// The messages of the protos.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/outrider.v1.rs"));
}

use std::io::{self, Write};
use std::process::ExitCode;

use prost::Message;

use call::{Call, Status};
use v1::stream_generate_response::Event;
use v1::{BadRequestDetail, ErrorStatus, FinishReason, Finished, SpeculationStats, StreamGenerateResponse};

const STREAM: &str = "/outrider.v1.GenerationService/StreamGenerate";
const DATA_LOSS: i32 = 15;
const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const INTERRUPTED: u8 = 130; // as shells report a process that SIGINT ended

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (endpoint, request) = match arguments::read(std::env::args().skip(1)) {
        Ok(read) => read,
        Err(problem) => {
            eprintln!("{problem}\n{}", arguments::USAGE);
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let started = tokio::select! {
        started = Call::start(&endpoint, STREAM, &request) => started,
        _ = tokio::signal::ctrl_c() => return ExitCode::from(INTERRUPTED),
    };
    let ended = match started {
        Err(status) => Err(status),
        Ok(mut call) => tokio::select! {
            ended = print_text(&mut call) => ended,
            _ = tokio::signal::ctrl_c() => {
                call.cancel().await;
                return ExitCode::from(INTERRUPTED);
            }
        },
    };
    match ended {
        Ok(finished) => {
            eprintln!("{}", figures(&finished));
            ExitCode::SUCCESS
        }
        Err(status) => {
            explain(&status).iter().for_each(|line| eprintln!("{line}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Prints the text of a call as it arrives and returns the last message.
async fn print_text(call: &mut Call) -> Result<Finished, Status> {
    let mut has_text = false;
    let ended = loop {
        let text = match call.next::<StreamGenerateResponse>().await {
            Err(status) => break Err(status),
            Ok(None) => break Err(Status::new(DATA_LOSS, "the server ended the stream early")),
            Ok(Some(StreamGenerateResponse { event: Some(Event::Chunk(chunk)), .. })) => chunk.text,
            Ok(Some(StreamGenerateResponse { event: Some(Event::Finished(finished)), .. })) => {
                has_text |= print(&finished.text);
                break Ok(finished);
            }
            Ok(Some(_)) => continue,
        };
        has_text |= print(&text);
    };
    if has_text {
        println!();
    }
    ended
}

/// Whether there was anything to print; that nobody reads it is no matter.
fn print(text: &str) -> bool {
    print!("{text}");
    let _ = io::stdout().flush();
    !text.is_empty()
}

/// Tokens, their rate, the time to the first one, what speculation did, and why the text ended, in one line.
fn figures(finished: &Finished) -> String {
    let seconds = |time: &prost_types::Duration| time.seconds as f64 + f64::from(time.nanos) / 1e9;
    let count = finished.usage.as_ref().map_or(0, |usage| usage.completion_tokens);
    let timings = finished.timings.clone().unwrap_or_default();
    let decode = timings.decode.as_ref().map_or(0.0, seconds);
    let mut parts = vec![if count == 1 { "1 token".into() } else { format!("{count} tokens") }];
    if count > 1 && decode > 0.0 {
        parts.push(format!("{:.1} tokens/s", f64::from(count - 1) / decode));
    }
    if let Some(first) = &timings.first_token {
        parts.push(format!("first token after {:.0} ms", 1000.0 * seconds(first)));
    }
    parts.extend(speculation(&finished.speculation.clone().unwrap_or_default()));
    let name = FinishReason::from_i32(finished.reason).map(|reason| reason.as_str_name());
    let words = name.map(|name| name.replace("FINISH_REASON_", "").replace('_', " ").to_lowercase());
    parts.push(format!("ended by {}", words.unwrap_or_else(|| finished.reason.to_string())));
    parts.join(" · ")
}

fn speculation(stats: &SpeculationStats) -> Vec<String> {
    let mut parts = Vec::new();
    if stats.passes > 0 {
        parts.push(format!("{:.2} tokens per pass", stats.tokens_per_pass));
    }
    let acceptance = 100.0 * stats.accepted as f64 / stats.predicted as f64;
    parts.push(if stats.predicted > 0 { format!("{acceptance:.0} % accepted") } else { "no predictions".into() });
    parts
}

/// The lines that tell a person what is wrong: one per bad field, or else the status.
fn explain(status: &Status) -> Vec<String> {
    let details = ErrorStatus::decode(status.details.as_slice()).unwrap_or_default().details;
    let bad_requests = details.iter().filter(|detail| detail.type_url.ends_with("/google.rpc.BadRequest"));
    let lines: Vec<String> = bad_requests
        .filter_map(|detail| BadRequestDetail::decode(detail.value.as_slice()).ok())
        .flat_map(|bad_request| bad_request.field_violations)
        .map(|violation| format!("{}: {}", violation.field, violation.description))
        .collect();
    if lines.is_empty() {
        return vec![format!("gRPC status {}: {}", status.code, status.message)];
    }
    lines
}
