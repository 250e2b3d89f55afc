//! Texts that are hard to fit.
