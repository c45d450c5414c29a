//! What clients say of what went wrong, as users are told it: which URL it is about, why, and what to do.
//!
//! Clients wrap errors of several libraries, and tell some of them apart by the texts that servers send.
//!
//! Not here: errors of what is in the files.

use std::error::Error as StdError;

use datafusion::object_store::Error;
use ogee_functions::Error as OwnError;

use super::{
    address::{Address, Scheme},
    clients::Client,
};

/// Letters of what a server says that are told.
const SAID_MAX: usize = 200;

/// `error` of a request about `address`.
pub(super) fn told(address: &Address, client: &Client, error: Error) -> Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if inner.is::<OwnError>() {
            return error;
        }
        cause = inner.source();
    }
    let (url, text) = (address.url(), whole(&error));
    let code = between(&text, "<Code>", "</Code>").unwrap_or_default();
    let (place, name) = (address.scheme.place(), address.parts().0);
    let is_missing = matches!(error, Error::NotFound { .. });
    let message = if is_missing && ["NoSuchBucket", "ContainerNotFound"].contains(&code)
        || is_missing && text.contains("bucket does not exist")
    {
        format!("there is no {place} '{name}', of '{url}'")
    } else if is_missing {
        format!("there is no file '{url}'")
    } else if matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
        || text.contains("status code: 401")
        || text.contains("status code: 403")
    {
        let why = match code {
            "InvalidAccessKeyId" => ": the key is not known there".to_owned(),
            "SignatureDoesNotMatch" => ": the secret does not fit the key".to_owned(),
            "ExpiredToken" => ": the token has expired".to_owned(),
            "" => String::new(),
            code => format!(" ({code})"),
        };
        let instead = if client.is_signed { "look at the credentials" } else { credentials(address.scheme) };
        format!("'{url}' is not to be had: the server denies access{why}; {instead}")
    } else if text.contains("169.254.") || text.contains("metadata.google.internal") {
        format!("'{url}' is not to be had: {}", credentials(address.scheme))
    } else if text.contains("redirect without LOCATION") || code == "PermanentRedirect" {
        format!("{place} '{name}' of '{url}' is in another region; set AWS_REGION, or the REGION of the secret")
    } else if matches!(error, Error::NotSupported { .. }) || text.contains("non-partial response") {
        format!(
            "the server of '{url}' gives no parts of files, which reading Parquet needs; copy the file to this machine"
        )
    } else if matches!(error, Error::NotImplemented { .. }) {
        format!("'{url}' cannot be written: servers on the web are read from; copy to an object store")
    } else {
        format!("'{url}' is not to be had: {}", why(&error, &text))
    };
    let source = Box::new(OwnError::Source(message));
    match error {
        Error::NotFound { .. } => Error::NotFound { path: url, source },
        _ => Error::Generic { store: "", source },
    }
}

/// What `error`, as users are told it, says.
pub(super) fn text(error: &Error) -> String {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(own) = inner.downcast_ref::<OwnError>() {
            return own.to_string();
        }
        cause = inner.source();
    }
    error.to_string()
}

/// `error` of a client for `address` that there cannot be.
pub(super) fn refused(address: &Address, error: Error) -> Error {
    let why = match why(&error, &whole(&error)) {
        why if why.contains("Account must be specified") => credentials(address.scheme).to_owned(),
        why => why,
    };
    let message = format!("'{}' cannot be opened: {why}", address.url());
    Error::Generic { store: "", source: Box::new(OwnError::Source(message)) }
}

/// How to give credentials.
fn credentials(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "no credentials are known: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        Scheme::Gcs => "no credentials are known: set GOOGLE_APPLICATION_CREDENTIALS",
        Scheme::Azure => {
            "no account is known: set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
        }
        Scheme::Http | Scheme::Https => "no credentials are sent to servers on the web",
    }
}

/// What `error` says, and what it is of.
fn whole(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push('\n');
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// Why, in a few words.
fn why(error: &Error, text: &str) -> String {
    if let Some(said) = between(text, "<Message>", "</Message>") {
        return shortened(said);
    }
    if let Some((_, status)) = text.split_once("status code: ") {
        let status = status.lines().next().unwrap_or_default();
        return format!("the server says {}", shortened(status.split(": ").next().unwrap_or(status)));
    }
    if text.contains("dns error") {
        return "its host is not known, or there is no network".to_owned();
    }
    // The innermost says it without what the others put around it.
    let mut cause: &(dyn StdError + 'static) = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let said = shortened(&cause.to_string());
    match said.strip_prefix("Generic ").and_then(|rest| rest.split_once(" error: ")) {
        Some((_, said)) => said.to_owned(),
        None if said.contains("deadline has elapsed") || said.contains("timed out") => {
            "the server does not answer".to_owned()
        }
        None => said,
    }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SAID_MAX) {
        Some((end, _)) => format!("{}..", &line[..end]),
        None => line,
    }
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let rest = &text[text.find(begin)? + begin.len()..];
    Some(&rest[..rest.find(end)?])
}
