//! Certificates and keys out of PEM and DER.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Authorities.
#[pyclass(frozen)]
pub(crate) struct Roots(Mutex<RootCertStore>);

impl Roots {
    pub(crate) fn store(&self) -> Arc<RootCertStore> {
        let store = self.0.lock().map(|store| store.clone());
        Arc::new(store.unwrap_or_else(|_| RootCertStore::empty()))
    }

    fn add(&self, certificate: CertificateDer<'_>) -> PyResult<()> {
        let mut store = self
            .0
            .lock()
            .map_err(|_| wrong("authorities", &"unusable"))?;
        let added = store.add(certificate);
        added.map_err(|error| wrong("an authority", &error))
    }
}

#[pymethods]
impl Roots {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(RootCertStore::empty()))
    }

    /// Takes all certificates in PEM.
    fn add_pem(&self, pem: &[u8]) -> PyResult<usize> {
        let certificates = certificates(pem)?;
        let count = certificates.len();
        certificates.into_iter().try_for_each(|one| self.add(one))?;
        Ok(count)
    }

    /// Takes a certificate in DER.
    fn add_der(&self, der: &[u8]) -> PyResult<()> {
        self.add(CertificateDer::from(der))
    }

    fn __len__(&self) -> usize {
        self.0.lock().map_or(0, |store| store.len())
    }
}

/// A certificate chain and its key.
#[pyclass(frozen)]
pub(crate) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    pub(crate) fn parts(&self) -> mctls_io::Identity {
        mctls_io::Identity {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

#[pymethods]
impl Identity {
    #[new]
    fn new(chain: &[u8], key: &[u8]) -> PyResult<Self> {
        let key = PrivateKeyDer::from_pem_slice(key);
        Ok(Self {
            chain: certificates(chain)?,
            key: key.map_err(|error| wrong("a private key", &error))?,
        })
    }
}

fn certificates(pem: &[u8]) -> PyResult<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| wrong("a certificate", &error))?;
    match found.is_empty() {
        true => Err(PyValueError::new_err("no certificates in PEM")),
        false => Ok(found),
    }
}

fn wrong(what: &str, why: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{what} that cannot be used: {why}"))
}
