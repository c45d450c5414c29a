//! Clients of servers of files, with what a secret or the environment says.
//!
//! | URL | with a secret | else |
//! | --- | --- | --- |
//! | `s3://` | `TYPE s3` | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, .. |
//! | `gs://` | `TYPE gcs`, keys as of S3 or a token | `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT`, .. |
//! | `az://` | `TYPE azure` | `AZURE_STORAGE_CONNECTION_STRING`, `AZURE_STORAGE_ACCOUNT_NAME`, .. |
//! | `https://` | `TYPE http` | nothing |
//!
//! Where nothing is said, nothing is signed: public files need no more, and of others the error says what is missing.
//!
//! Not here: requests.

use std::{env, sync::Arc, time::Duration};

use async_trait::async_trait;
use datafusion::object_store::{
    self, BackoffConfig, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig, StaticCredentialProvider,
    aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
    gcp::{GcpCredential, GoogleCloudStorageBuilder},
    http::HttpBuilder,
};
use ogee_functions::{Error, Result};

use super::{
    address::{Address, QUERY, Scheme},
    secrets::Secret,
};

/// Speaks to the server of one place.
pub(super) struct Client {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Requests are signed.
    pub(super) is_signed: bool,
}

/// The provider of secrets that looks where the environment says.
const CHAIN: &str = "credential_chain";

/// The type of secrets for URLs of `scheme`.
pub(super) fn secret_kind(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "s3",
        Scheme::Gcs => "gcs",
        Scheme::Azure => "azure",
        Scheme::Http | Scheme::Https => "http",
    }
}

/// A client for the place of `address`.
///
/// # Errors
/// What `secret` or the environment says is no way to connect.
pub(super) fn connect(address: &Address, secret: Option<&Secret>) -> object_store::Result<Client> {
    match address.scheme {
        Scheme::S3 => s3(address, secret),
        Scheme::Gcs => gcs(address, secret),
        Scheme::Azure => azure(address, secret),
        Scheme::Http | Scheme::Https => web(address, secret),
    }
}

fn options() -> ClientOptions {
    // A file that is read through takes its time; who is silent is left after a while.
    let options = ClientOptions::new().with_timeout_disabled().with_connect_timeout(Duration::from_secs(10));
    options.with_pool_idle_timeout(Duration::from_secs(30)).with_allow_http(true)
}

fn retries() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(2), base: 2.0 };
    RetryConfig { backoff, max_retries: 4, retry_timeout: Duration::from_secs(30) }
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Where the server is that `endpoint` names, of `place` if it has its name in front.
fn endpoint(said: &str, secret: &Secret, place: Option<&str>) -> String {
    let (scheme, host) = said.split_once("://").unwrap_or(match secret.is("use_ssl", true) {
        true => ("https", said),
        false => ("http", said),
    });
    let host = host.trim_end_matches('/');
    match place {
        Some(place) => format!("{scheme}://{place}.{host}"),
        None => format!("{scheme}://{host}"),
    }
}

/// Whether the name of a bucket is put in front of the name of the host.
fn is_virtual(secret: &Secret, bucket: &str, host: Option<&str>) -> bool {
    match secret.value("url_style") {
        Some(style) => style == "vhost",
        // A name with dots is not in the certificate of the host, and one before `localhost` or a number is no host.
        None => {
            let name = host.map(|host| host.split_once("://").map_or(host, |(_, host)| host));
            let name = name.map(|name| name.split(['/', ':']).next().unwrap_or(name));
            let is_local = name.is_some_and(|name| {
                name == "localhost" || name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            });
            !bucket.contains('.') && !is_local
        }
    }
}

fn s3(address: &Address, secret: Option<&Secret>) -> object_store::Result<Client> {
    let bucket = address.place.as_str();
    let is_config = secret.is_some_and(|secret| secret.provider() != CHAIN);
    let mut builder = if is_config { AmazonS3Builder::new() } else { AmazonS3Builder::from_env() };
    builder = builder.with_bucket_name(bucket).with_retry(retries()).with_client_options(options());
    let mut is_signed = match secret {
        Some(secret) => !is_config || secret.value("key_id").is_some(),
        None => {
            is_set("AWS_ACCESS_KEY_ID")
                || is_set("AWS_WEB_IDENTITY_TOKEN_FILE")
                || is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
                || is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        }
    };
    if let Some(secret) = secret {
        if let (Some(key), Some(value)) = (secret.value("key_id"), secret.value("secret")) {
            builder = builder.with_access_key_id(key).with_secret_access_key(value);
        }
        if let Some(token) = secret.value("session_token") {
            builder = builder.with_token(token);
        }
        if let Some(region) = secret.value("region") {
            builder = builder.with_region(region);
        }
        let said = secret.value("endpoint");
        let is_virtual = is_virtual(secret, bucket, said);
        if let Some(said) = said {
            builder = builder.with_endpoint(endpoint(said, secret, is_virtual.then_some(bucket)));
        }
        if said.is_some() || is_config {
            builder = builder.with_virtual_hosted_style_request(is_virtual);
        }
        builder = builder.with_request_payer(secret.is("requester_pays", false));
    }
    if env::var("AWS_SKIP_SIGNATURE").is_ok_and(|said| said.eq_ignore_ascii_case("true")) && secret.is_none() {
        is_signed = false;
    }
    let store = builder.with_skip_signature(!is_signed).build()?;
    Ok(Client { store: Arc::new(store), is_signed })
}

fn gcs(address: &Address, secret: Option<&Secret>) -> object_store::Result<Client> {
    let bucket = address.place.as_str();
    // Keys are those of the interface that is S3's.
    if let Some(secret) = secret
        && let (Some(key), Some(value)) = (secret.value("key_id"), secret.value("secret"))
    {
        let said = secret.value("endpoint").unwrap_or("storage.googleapis.com");
        let is_virtual = secret.value("url_style") == Some("vhost");
        let builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_retry(retries())
            .with_client_options(options())
            .with_region("auto")
            .with_access_key_id(key)
            .with_secret_access_key(value)
            .with_endpoint(endpoint(said, secret, is_virtual.then_some(bucket)))
            .with_virtual_hosted_style_request(is_virtual);
        return Ok(Client { store: Arc::new(builder.build()?), is_signed: true });
    }
    let is_config = secret.is_some_and(|secret| secret.provider() != CHAIN);
    let builder = if is_config { GoogleCloudStorageBuilder::new() } else { GoogleCloudStorageBuilder::from_env() };
    let mut builder = builder.with_bucket_name(bucket).with_retry(retries()).with_client_options(options());
    if let Some(said) = secret.and_then(|secret| Some(endpoint(secret.value("endpoint")?, secret, None))) {
        builder = builder.with_base_url(&said);
    }
    let token = secret.and_then(|secret| secret.value("bearer_token"));
    if let Some(bearer) = token {
        let credential = GcpCredential { bearer: bearer.to_owned() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
    }
    let said = [
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
    ];
    let is_known = || said.iter().any(|name| is_set(name)) || has_default_credentials();
    let is_signed = token.is_some() || !is_config && (secret.is_some() || is_known());
    let store = builder.with_skip_signature(!is_signed).build()?;
    Ok(Client { store: Arc::new(store), is_signed })
}

/// Whether somebody is logged in at Google's tools.
fn has_default_credentials() -> bool {
    let home = env::var_os("HOME").map(std::path::PathBuf::from);
    home.is_some_and(|home| home.join(".config/gcloud/application_default_credentials.json").exists())
}

fn azure(address: &Address, secret: Option<&Secret>) -> object_store::Result<Client> {
    let (container, account) = address.parts();
    let is_config = secret.is_some_and(|secret| secret.provider() != CHAIN);
    let builder = if is_config { MicrosoftAzureBuilder::new() } else { MicrosoftAzureBuilder::from_env() };
    let mut builder = builder.with_container_name(container).with_retry(retries()).with_client_options(options());
    let value = |name: &str| secret.and_then(|secret| secret.value(name));
    let said = value("connection_string").map(str::to_owned);
    let said = said.or_else(|| env::var("AZURE_STORAGE_CONNECTION_STRING").ok().filter(|_| !is_config));
    let mut is_signed = !is_config
        && [
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCESS_KEY",
            "AZURE_STORAGE_CLIENT_ID",
            "AZURE_CLIENT_ID",
            "AZURE_STORAGE_SAS_KEY",
            "AZURE_STORAGE_TOKEN",
        ]
        .iter()
        .any(|name| is_set(name))
        || secret.is_some_and(|secret| secret.provider() == CHAIN);
    if let Some(said) = &said {
        for part in said.split(';') {
            let Some((name, value)) = part.split_once('=') else { continue };
            match name.trim().to_ascii_lowercase().as_str() {
                "accountname" => builder = builder.with_account(value),
                "accountkey" => {
                    builder = builder.with_access_key(value);
                    is_signed = true;
                }
                "blobendpoint" => builder = builder.with_endpoint(value.trim_end_matches('/').to_owned()),
                "sharedaccesssignature" => {
                    let pairs = value.trim_start_matches('?').split('&').filter_map(|pair| pair.split_once('='));
                    let pairs =
                        pairs.map(|(name, value)| (name.to_owned(), crate::tables::decoded(value).into_owned()));
                    builder = builder.with_sas_authorization(pairs.collect::<Vec<_>>());
                    is_signed = true;
                }
                _ => {}
            }
        }
    }
    if let Some(account) = account.or_else(|| value("account_name")) {
        builder = builder.with_account(account);
    }
    if let Some(key) = value("account_key") {
        builder = builder.with_access_key(key);
        is_signed = true;
    }
    if let (Some(tenant), Some(id), Some(word)) = (value("tenant_id"), value("client_id"), value("client_secret")) {
        builder = builder.with_client_secret_authorization(id, word, tenant);
        is_signed = true;
    }
    if let Some(token) = value("access_token") {
        builder = builder.with_bearer_token_authorization(token);
        is_signed = true;
    }
    if let Some(said) = secret.and_then(|secret| Some(endpoint(secret.value("endpoint")?, secret, None))) {
        builder = builder.with_endpoint(said);
    }
    let store = builder.with_skip_signature(!is_signed).build()?;
    Ok(Client { store: Arc::new(store), is_signed })
}

fn web(address: &Address, secret: Option<&Secret>) -> object_store::Result<Client> {
    let mut options = options();
    let token = secret.and_then(|secret| secret.value("bearer_token"));
    if let Some(token) = token {
        let mut value = header(token)?;
        value.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert("authorization", value);
        options = options.with_default_headers(headers);
    }
    let url = format!("{}://{}", address.scheme.name(), address.place);
    let builder = HttpBuilder::new().with_url(url).with_retry(retries()).with_client_options(options);
    let store = builder.with_http_connector(WithQueries).build()?;
    Ok(Client { store: Arc::new(store), is_signed: token.is_some() })
}

fn header(token: &str) -> object_store::Result<HeaderValue> {
    let wrong = || Error::Plan("the bearer_token of the secret has letters that no header takes".to_owned());
    let value: Result<HeaderValue> = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| wrong());
    value.map_err(|error| object_store::Error::Generic { store: "", source: Box::new(error) })
}

/// Connects to servers of the web, whose URLs may have queries: clients know paths alone.
#[derive(Debug)]
struct WithQueries;

impl HttpConnector for WithQueries {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Queries(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Queries(HttpClient);

#[async_trait]
impl HttpService for Queries {
    async fn call(&self, mut request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        if let Some(url) = with_query(&request.uri().to_string()) {
            *request.uri_mut() = url.parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        }
        self.0.execute(request).await
    }
}

/// `url`, whose path has its query in it, with its query behind the path.
fn with_query(url: &str) -> Option<String> {
    let mark: String = QUERY.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (path, query) = url.split_once(&mark)?;
    // As part of a path it was encoded once more.
    let query = crate::tables::decoded(query);
    Some(format!("{path}?{}", crate::tables::decoded(&query).replace(' ', "%20")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_as_they_were_written() {
        // `sig=x/y%2Fz&t=1%2B2`, as part of a location and then of a path.
        let url = "https://h/a%20b.csv%EE%80%80sig=x%252Fy%25252Fz&t=1%25252B2";
        assert_eq!(with_query(url).as_deref(), Some("https://h/a%20b.csv?sig=x/y%2Fz&t=1%2B2"));
        assert_eq!(with_query("https://h/a.csv"), None);
    }
}
