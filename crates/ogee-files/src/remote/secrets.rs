//! Secrets: what opens files by URL, by names, for as long as the database is open. The environment is asked where there are none.
//!
//! A secret is for URLs that begin with its scope, and of several the longest scope decides. What is secret of it leaves by one door, to who connects to the server; what is
//! shown of it has `redacted` instead, also in `Debug`.
//!
//! Not here: connections (`clients`).

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ogee_functions::{Error, Result};
use parking_lot::RwLock;

use super::address;

/// What a type of secrets is for.
struct Kind {
    name: &'static str,
    /// What the URLs begin with that it is for, unless that is said.
    scope: &'static [&'static str],
    /// Where what it says comes from, and what it may say then; the first is the usual one.
    providers: &'static [(&'static str, &'static [&'static str])],
}

const S3: &[&str] =
    &["key_id", "secret", "session_token", "region", "endpoint", "url_style", "use_ssl", "requester_pays"];
const S3_CHAIN: &[&str] = &["region", "endpoint", "url_style", "use_ssl", "requester_pays"];

static KINDS: [Kind; 4] = [
    Kind {
        name: "s3",
        scope: &["s3://", "s3n://", "s3a://"],
        providers: &[("config", S3), ("credential_chain", S3_CHAIN)],
    },
    Kind {
        name: "gcs",
        scope: &["gcs://", "gs://"],
        providers: &[
            ("config", &["key_id", "secret", "bearer_token", "endpoint", "url_style", "use_ssl"]),
            ("credential_chain", &[]),
        ],
    },
    Kind {
        name: "azure",
        scope: &["azure://", "az://", "abfss://", "abfs://"],
        providers: &[
            ("config", &["connection_string", "account_name", "account_key", "endpoint"]),
            ("credential_chain", &["account_name", "endpoint"]),
            ("service_principal", &["account_name", "tenant_id", "client_id", "client_secret"]),
            ("access_token", &["account_name", "access_token"]),
        ],
    },
    Kind { name: "http", scope: &[], providers: &[("config", &["bearer_token"])] },
];

/// What is never shown.
const HIDDEN: [&str; 7] =
    ["secret", "session_token", "bearer_token", "connection_string", "account_key", "client_secret", "access_token"];

/// Those that are true or false.
const TRUTHS: [&str; 2] = ["use_ssl", "requester_pays"];

const REDACTED: &str = "redacted";

/// A secret that is to be made.
#[derive(Clone, Default)]
pub struct NewSecret {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// One of that name is replaced.
    pub is_replacing: bool,
    /// One of that name stays.
    pub if_not_exists: bool,
    /// What else is said: parameters and their values, the scope once for each URL.
    pub parameters: Vec<(String, String)>,
}

/// A secret.
pub(crate) struct Secret {
    name: String,
    kind: &'static str,
    provider: &'static str,
    scope: Vec<String>,
    values: BTreeMap<&'static str, String>,
    /// No two have the same, also where one replaces another.
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "of those who connect"))]
    pub(super) number: u64,
}

/// A secret as it may be shown.
pub struct ToldSecret {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: &'static str,
    /// Where what it says comes from.
    pub provider: &'static str,
    /// What the URLs begin with that it is for.
    pub scope: Vec<String>,
    /// All that it says, without what is secret.
    pub text: String,
}

/// The secrets of a database.
#[derive(Default)]
pub struct Secrets {
    /// By name.
    known: RwLock<BTreeMap<String, Arc<Secret>>>,
    next: AtomicU64,
}

impl Secrets {
    /// Adds one.
    ///
    /// # Errors
    /// There is one of that name, or something of it is not known.
    pub fn create(&self, new: NewSecret) -> Result<()> {
        let secret = Secret::of(&new, 1 + self.next.fetch_add(1, Ordering::Relaxed))?;
        let mut known = self.known.write();
        if known.contains_key(&new.name) && !new.is_replacing {
            return match new.if_not_exists {
                true => Ok(()),
                false => Err(Error::Plan(format!("there is a secret '{}' already; OR REPLACE replaces it", new.name))),
            };
        }
        known.insert(new.name, Arc::new(secret));
        Ok(())
    }

    /// Takes one away.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn remove(&self, name: &str, if_exists: bool) -> Result<()> {
        match self.known.write().remove(name) {
            None if !if_exists => {
                Err(Error::Plan(format!("there is no secret '{name}'; FROM duckdb_secrets() lists them")))
            }
            _ => Ok(()),
        }
    }

    /// All of them by name, as they may be shown.
    pub fn list(&self) -> Vec<ToldSecret> {
        self.known.read().values().map(|secret| secret.told()).collect()
    }

    /// The name of the one of type `kind` that opens files of `url`, if there is one.
    ///
    /// # Errors
    /// There is no such type.
    pub fn name_for(&self, url: &str, kind: &str) -> Result<Option<String>> {
        let kind = kind_of(kind)?;
        Ok(self.of(&canonical(url), kind.name).map(|secret| secret.name.clone()))
    }

    /// The one for `url`, which begins as those of this crate do.
    pub(super) fn of(&self, url: &str, kind: &str) -> Option<Arc<Secret>> {
        let known = self.known.read();
        let fits = |secret: &Arc<Secret>| Some((secret.fits(url)?, Arc::clone(secret)));
        let of_kind = known.values().filter(|secret| secret.kind == kind);
        // The first by name, of some with scopes of one length.
        let found = of_kind.filter_map(fits).reduce(|best, other| if other.0 > best.0 { other } else { best });
        found.map(|(_, secret)| secret)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.read().values()).finish()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told().text)
    }
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSecret").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The type called `name`.
fn kind_of(name: &str) -> Result<&'static Kind> {
    KINDS.iter().find(|kind| kind.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known = KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        Error::Unsupported(format!("there is no type '{name}' of secrets; use one of {known}"))
    })
}

impl Secret {
    fn of(new: &NewSecret, number: u64) -> Result<Self> {
        let kind = kind_of(&new.kind)?;
        let (mut provider, mut parameters) = kind.providers[0];
        if let Some((_, said)) = new.parameters.iter().find(|(name, _)| name == "provider") {
            let found = kind.providers.iter().find(|(known, _)| known.eq_ignore_ascii_case(said));
            let Some(found) = found else {
                let known = kind.providers.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
                let message = format!("a secret of type {} has no provider '{said}'; use one of {known}", kind.name);
                return Err(Error::Unsupported(message));
            };
            (provider, parameters) = *found;
        }
        let mut scope: Option<Vec<String>> = None;
        let mut values = BTreeMap::new();
        for (name, value) in &new.parameters {
            if name == "provider" {
                continue;
            }
            if name == "scope" {
                scope.get_or_insert_default().push(value.clone());
                continue;
            }
            let Some(parameter) = parameters.iter().find(|known| **known == name.as_str()) else {
                let known = [parameters, &["scope", "provider"]].concat().join(", ");
                return Err(Error::Unsupported(format!(
                    "a secret of type {} with the provider {provider} has no parameter '{name}'; it has {known}",
                    kind.name
                )));
            };
            let value = match TRUTHS.contains(parameter) {
                true => truth(parameter, value)?.to_string(),
                false => value.clone(),
            };
            if *parameter == "url_style" && !["path", "vhost", ""].contains(&value.as_str()) {
                return Err(Error::Plan(format!(
                    "the parameter url_style of a secret is 'path' or 'vhost', not '{value}'"
                )));
            }
            if values.insert(*parameter, value).is_some() {
                return Err(Error::Plan(format!("the parameter {name} of the secret is said twice")));
            }
        }
        for (one, other) in [("key_id", "secret"), ("secret", "key_id")] {
            if values.contains_key(one) && !values.contains_key(other) {
                return Err(Error::Plan(format!("a secret with the parameter {one} needs {other}, too")));
            }
        }
        let scope = scope.unwrap_or_else(|| kind.scope.iter().map(|scope| (*scope).to_owned()).collect());
        Ok(Self { name: new.name.clone(), kind: kind.name, provider, scope, values, number })
    }

    /// How much of `url` its scope says, if it is for that.
    fn fits(&self, url: &str) -> Option<usize> {
        if self.scope.is_empty() {
            return Some(0);
        }
        self.scope
            .iter()
            .map(|scope| canonical(scope))
            .filter(|scope| url.starts_with(scope.as_str()))
            .map(|scope| scope.len())
            .max()
    }

    /// What it says of `parameter`.
    #[cfg(feature = "remote")]
    pub(super) fn value(&self, parameter: &str) -> Option<&str> {
        self.values.get(parameter).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether it says that `parameter` is so.
    #[cfg(feature = "remote")]
    pub(super) fn is(&self, parameter: &str, default: bool) -> bool {
        self.value(parameter).map_or(default, |value| value == "true")
    }

    /// Where what it says comes from.
    #[cfg(feature = "remote")]
    pub(super) fn provider(&self) -> &'static str {
        self.provider
    }

    fn told(&self) -> ToldSecret {
        let scope = match self.scope.join(",") {
            none if self.scope.is_empty() => none,
            some => format!("={some}"),
        };
        let shown = |(name, value): (&&str, &String)| {
            let value = if HIDDEN.contains(name) && !value.is_empty() { REDACTED } else { value };
            format!("{name}={value}")
        };
        let values = self.values.iter().map(shown).collect::<Vec<_>>().join(";");
        let (name, kind, provider) = (&self.name, self.kind, self.provider);
        ToldSecret {
            name: name.clone(),
            kind,
            provider,
            scope: self.scope.clone(),
            text: format!("name={name};type={kind};provider={provider};serializable=true;scope{scope};{values}"),
        }
    }
}

/// `scope` as URLs are written here.
fn canonical(scope: &str) -> String {
    match address::scheme_of(scope) {
        Some((scheme, rest)) => format!("{}://{rest}", scheme.name()),
        None => scope.to_owned(),
    }
}

fn truth(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "1" => Ok(true),
        "false" | "f" | "no" | "0" => Ok(false),
        _ => Err(Error::Plan(format!("the parameter {name} of a secret is true or false, not '{value}'"))),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn secret(name: &str, kind: &str, parameters: &[(&str, &str)]) -> NewSecret {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        NewSecret { name: name.to_owned(), kind: kind.to_owned(), parameters, ..NewSecret::default() }
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let secrets = Secrets::default();
        let given = [("key_id", "abc"), ("secret", "GEHEIM"), ("session_token", "GEHEIM2"), ("use_ssl", "No")];
        secrets.create(secret("x", "S3", &given)).unwrap();
        secrets.create(secret("h", "http", &[("bearer_token", "GEHEIM3")])).unwrap();
        let told = secrets.list();
        assert_eq!(
            told[1].text,
            "name=x;type=s3;provider=config;serializable=true;scope=s3://,s3n://,s3a://;\
            key_id=abc;secret=redacted;session_token=redacted;use_ssl=false"
        );
        assert_eq!(told[0].text, "name=h;type=http;provider=config;serializable=true;scope;bearer_token=redacted");
        for shown in [format!("{secrets:?}"), format!("{:?}", secret("x", "s3", &given))] {
            assert!(!shown.contains("GEHEIM"), "{shown}");
        }
        let error = secrets.create(secret("x", "s3", &given)).unwrap_err().to_string();
        assert!(!error.contains("GEHEIM"), "{error}");
    }

    #[test]
    fn the_longest_scope_decides() {
        let secrets = Secrets::default();
        secrets.create(secret("all", "s3", &[])).unwrap();
        secrets.create(secret("b", "s3", &[("scope", "s3a://b")])).unwrap();
        secrets.create(secret("bd", "s3", &[("scope", "s3://c"), ("scope", "s3://b/d")])).unwrap();
        secrets.create(secret("g", "gcs", &[])).unwrap();
        let of = |url: &str, kind: &str| secrets.of(url, kind).map(|secret| secret.name.clone());
        assert_eq!(of("s3://a/x", "s3").unwrap(), "all");
        assert_eq!(of("s3://b/x", "s3").unwrap(), "b");
        assert_eq!(of("s3://b/d/x", "s3").unwrap(), "bd");
        assert_eq!(of("gs://b/d/x", "gcs").unwrap(), "g");
        assert_eq!(of("https://h/x", "http"), None);
        secrets.remove("b", false).unwrap();
        assert_eq!(of("s3://b/x", "s3").unwrap(), "all");
        assert!(secrets.remove("b", false).is_err() && secrets.remove("b", true).is_ok());
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let secrets = Secrets::default();
        for (kind, given, named) in [
            ("nope", &[][..], "'nope'"),
            ("s3", &[("nope", "1")], "'nope'"),
            ("s3", &[("provider", "nope")], "'nope'"),
            ("s3", &[("use_ssl", "maybe")], "use_ssl"),
            ("s3", &[("url_style", "maybe")], "url_style"),
            ("s3", &[("key_id", "a")], "secret"),
            ("s3", &[("region", "a"), ("region", "b")], "region"),
            ("s3", &[("provider", "credential_chain"), ("chain", "env")], "'chain'"),
        ] {
            let error = secrets.create(secret("x", kind, given)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        secrets.create(secret("x", "s3", &[])).unwrap();
        assert!(secrets.create(secret("x", "s3", &[])).is_err());
        secrets.create(NewSecret { if_not_exists: true, ..secret("x", "gcs", &[]) }).unwrap();
        assert_eq!(secrets.list()[0].kind, "s3");
        secrets.create(NewSecret { is_replacing: true, ..secret("x", "gcs", &[]) }).unwrap();
        assert_eq!(secrets.list()[0].kind, "gcs");
    }
}
