//! Passwords: argon2id, on a bounded number of threads.
//!
//! A hash takes 19 MiB and some 20 ms by design, so only a few are computed at a time, and only
//! a few requests wait for one. Beyond that, sign-ins are told to try again.

use std::sync::{Arc, LazyLock};

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use sluice_store::Secret;
use tokio::sync::Semaphore;

/// Hashes that are computed at a time.
const AT_A_TIME: usize = 2;
/// Requests that wait for a hash, besides those whose hash is computed.
const WAITING: usize = 16;
/// The shortest and the longest password, in characters.
pub(crate) const SHORTEST: usize = 12;
const LONGEST: usize = 256;

/// Stands in for the password of a login that nobody has, so that the answer takes as long.
static NOBODY: LazyLock<Option<Secret>> = LazyLock::new(|| compute("nobody signs in with this"));

/// Computes and compares hashes of passwords.
#[derive(Debug, Clone)]
pub(crate) struct Passwords {
    places: Arc<Semaphore>,
    computing: Arc<Semaphore>,
}

/// Why no hash was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HashError {
    #[error("too many people sign in at once: try again in a few seconds")]
    Busy,
    #[error("the password could not be hashed")]
    Failed,
}

/// Why a password is not accepted as a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WeakPassword {
    #[error(
        "a password needs at least {SHORTEST} characters\nhint: four words in a row are easy to remember"
    )]
    Short,
    #[error("a password has at most {LONGEST} characters")]
    Long,
    #[error("the password is or contains the login\nhint: choose another one")]
    Login,
    #[error("the password repeats a few characters\nhint: choose another one")]
    Repetition,
}

impl Passwords {
    pub(crate) fn new() -> Passwords {
        Passwords {
            places: Arc::new(Semaphore::new(AT_A_TIME + WAITING)),
            computing: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Computes the hash of a new password.
    pub(crate) async fn hash(&self, password: Secret) -> Result<Secret, HashError> {
        self.run(move || compute(password.expose())).await?.ok_or(HashError::Failed)
    }

    /// Whether a password is the right one. Without a hash, it never is, and takes as long.
    pub(crate) async fn verify(
        &self,
        password: Secret,
        hash: Option<Secret>,
    ) -> Result<bool, HashError> {
        self.run(move || {
            let is_known = hash.is_some();
            let hash = hash.as_ref().or(NOBODY.as_ref()).map(Secret::expose).unwrap_or_default();
            let is_right = PasswordHash::new(hash).is_ok_and(|hash| {
                Argon2::default().verify_password(password.expose().as_bytes(), &hash).is_ok()
            });
            is_known && is_right
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HashError> {
        let _place = self.places.try_acquire().map_err(|_| HashError::Busy)?;
        let computing =
            Arc::clone(&self.computing).acquire_owned().await.map_err(|_| HashError::Failed)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // Also if the caller has stopped waiting.
            drop(computing);
            done
        });
        done.await.map_err(|_| HashError::Failed)
    }
}

fn compute(password: &str) -> Option<Secret> {
    let hash = Argon2::default().hash_password(password.as_bytes()).ok()?;
    Some(Secret::new(hash.to_string()))
}

/// Checks that a new password is not too easy to guess.
pub(crate) fn check_strength(password: &str, login: &str) -> Result<(), WeakPassword> {
    let length = password.chars().count();
    let mut different: Vec<_> = password.chars().collect();
    different.sort_unstable();
    different.dedup();
    match length {
        0..SHORTEST => Err(WeakPassword::Short),
        _ if length > LONGEST => Err(WeakPassword::Long),
        _ if password.to_lowercase().contains(login) && login.len() > 3 => Err(WeakPassword::Login),
        _ if different.len() < 5 => Err(WeakPassword::Repetition),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sluice_store::Secret;

    use super::{AT_A_TIME, HashError, Passwords, WAITING, WeakPassword, check_strength};

    fn secret(text: &str) -> Secret {
        Secret::new(text.into())
    }

    #[tokio::test]
    async fn only_the_right_password_is_right() {
        let passwords = Passwords::new();
        let hash = passwords.hash(secret("correct horse")).await.unwrap();
        assert!(hash.expose().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        let other = passwords.hash(secret("correct horse")).await.unwrap();
        assert_ne!(hash, other, "each has its own salt");
        let verify = async |text: &str, hash: Option<&Secret>| {
            passwords.verify(secret(text), hash.cloned()).await.unwrap()
        };
        assert!(verify("correct horse", Some(&hash)).await);
        assert!(!verify("correct horses", Some(&hash)).await);
        assert!(!verify("nobody signs in with this", None).await);
        assert!(!verify("correct horse", Some(&secret("not a hash"))).await);
    }

    #[tokio::test]
    async fn only_a_few_wait_for_a_hash() {
        let passwords = Passwords::new();
        let verify = || passwords.verify(secret("a"), None);
        let all = futures_util::future::join_all((0..50).map(|_| verify())).await;
        let busy = all.iter().filter(|one| **one == Err(HashError::Busy)).count();
        assert_eq!(busy, 50 - AT_A_TIME - WAITING);
        assert_eq!(verify().await, Ok(false), "places are free again");
    }

    #[test]
    fn passwords_must_not_be_easy_to_guess() {
        for (password, expected) in [
            ("short", Err(WeakPassword::Short)),
            ("aaaaaaaaaaaaaaaa", Err(WeakPassword::Repetition)),
            ("I am Alice indeed", Err(WeakPassword::Login)),
            ("paper boat north", Ok(())),
            ("äöüßéè漢字かなカナ", Ok(())),
        ] {
            assert_eq!(check_strength(password, "alice"), expected, "{password}");
        }
        assert_eq!(check_strength(&"abcdefgh".repeat(40), "alice"), Err(WeakPassword::Long));
    }
}
