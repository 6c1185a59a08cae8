//! Reads the command line.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tokio_rustls::rustls::{Certificate, ClientConfig, PrivateKey, RootCertStore};

use crate::call::Endpoint;
use crate::v1::{prompt, Prompt, SamplingParameters, StopConditions, StreamGenerateRequest};

pub const USAGE: &str = "usage: stream [--address HOST:PORT] [--max-tokens N] [--temperature X] [--seed N]
    [--tls-ca FILE [--tls-cert FILE --tls-key FILE]] [--token-file FILE] PROMPT";
const NAMES: [&str; 8] =
    ["address", "max-tokens", "temperature", "seed", "tls-ca", "tls-cert", "tls-key", "token-file"];

type Options = HashMap<String, String>;

/// Where to call, and what to ask; or what is wrong with the command line.
pub fn read(arguments: impl Iterator<Item = String>) -> Result<(Endpoint, StreamGenerateRequest), String> {
    let (options, text) = split(arguments)?;
    let address = options.get("address").map_or("localhost:50051", String::as_str).to_owned();
    let (tls, token) = (tls(&options)?, token(&options)?);
    if token.is_some() && tls.is_none() && !is_local(&address) {
        return Err("a token is sent over TLS only, or to this machine".into());
    }
    // What is left out stays unset in the request, so that the server's default holds.
    let request = StreamGenerateRequest {
        prompt: Some(Prompt { input: Some(prompt::Input::Text(text)), ..Default::default() }),
        sampling: Some(SamplingParameters {
            temperature: parse(&options, "temperature")?,
            seed: parse(&options, "seed")?,
            ..Default::default()
        }),
        stop: Some(StopConditions { max_tokens: parse(&options, "max-tokens")?, ..Default::default() }),
        ..Default::default()
    };
    Ok((Endpoint { address, tls, token }, request))
}

fn split(mut arguments: impl Iterator<Item = String>) -> Result<(Options, String), String> {
    let (mut options, mut prompts) = (Options::new(), Vec::new());
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix("--") else {
            prompts.push(argument);
            continue;
        };
        let (name, given) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value.into())));
        if !NAMES.contains(&name) {
            return Err(format!("--{name} is no option"));
        }
        let value = given.or_else(|| arguments.next()).ok_or_else(|| format!("--{name} needs a value"))?;
        options.insert(name.into(), value);
    }
    let only = prompts.pop().filter(|_| prompts.is_empty());
    Ok((options, only.ok_or("exactly one prompt is needed")?))
}

fn parse<Number: FromStr>(options: &Options, name: &str) -> Result<Option<Number>, String> {
    let Some(text) = options.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("--{name} cannot be {text:?}"))
}

/// TLS where there are authorities to trust, else none; a certificate of ours goes with its key.
fn tls(options: &Options) -> Result<Option<Arc<ClientConfig>>, String> {
    let own = (pem(options, "tls-cert")?, pem(options, "tls-key")?);
    let Some(authorities) = pem(options, "tls-ca")? else {
        return if own == (None, None) { Ok(None) } else { Err("--tls-cert and --tls-key need --tls-ca".into()) };
    };
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(&Certificate(authority)).map_err(|error| format!("--tls-ca: {error}"))?;
    }
    let builder = ClientConfig::builder().with_safe_defaults().with_root_certificates(roots);
    let mut config = match own {
        (Some(chain), Some(mut keys)) if !keys.is_empty() => builder
            .with_single_cert(chain.into_iter().map(Certificate).collect(), PrivateKey(keys.remove(0)))
            .map_err(|error| format!("--tls-cert: {error}"))?,
        (None, None) => builder.with_no_client_auth(),
        _ => return Err("--tls-cert and --tls-key go together".into()),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(Arc::new(config)))
}

/// What a file of PEM holds.
fn pem(options: &Options, name: &str) -> Result<Option<Vec<Vec<u8>>>, String> {
    use rustls_pemfile::Item::{ECKey, PKCS8Key, RSAKey, X509Certificate};
    let Some(file) = options.get(name) else { return Ok(None) };
    let text = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let items = rustls_pemfile::read_all(&mut text.as_slice()).map_err(|error| format!("{file}: {error}"))?;
    let bytes = items.into_iter().filter_map(|item| match item {
        X509Certificate(bytes) | RSAKey(bytes) | PKCS8Key(bytes) | ECKey(bytes) => Some(bytes),
        _ => None,
    });
    Ok(Some(bytes.collect()))
}

fn token(options: &Options) -> Result<Option<String>, String> {
    let Some(file) = options.get("token-file") else { return Ok(None) };
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(Some(text.trim().into()))
}

fn is_local(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(&['[', ']'][..]);
    host == "localhost" || host.parse().map_or(false, |ip: IpAddr| ip.is_loopback())
}
