#!/usr/bin/env bash
# Builds the OpenSSL that the lab and tests use where the system's is too old: for post-quantum algorithms
# (docs/post-quantum.md), QUIC, and cipher suites that keep nothing secret.
#
#   scripts/build-openssl.sh FOLDER      FOLDER/bin/openssl, FOLDER/lib/libssl.so, FOLDER/lib/libcrypto.so
#
# Its source comes out of a crate of the registry (extras/openssl). Some minutes on two cores. Nothing of the system is
# touched, and what TLS does not need is left out. Brotli (RFC 8879) is in where its headers are.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1
work=$folder.build
cd "$(dirname "$0")/.."
here=$PWD
rm -rf "$work"
mkdir -p "$work/openssl"
source=$(CARGO_TARGET_DIR="$work/cargo" cargo run --quiet --locked --manifest-path extras/openssl/Cargo.toml </dev/null)
brotli=no-brotli
[ ! -e /usr/include/brotli/encode.h ] || brotli=enable-brotli
cd "$work/openssl"
perl "$source/Configure" --prefix="$folder" --libdir=lib --openssldir="$folder/ssl" "$brotli" \
    shared no-tests no-docs no-ssl3 no-legacy no-engine no-module no-cmp no-cms no-ct no-ts no-srp \
    no-idea no-seed no-camellia no-aria no-bf no-cast no-des no-md4 no-mdc2 no-rc2 no-rc4 no-rmd160 no-sm2 no-sm3 no-sm4 \
    no-whirlpool no-gost no-dsa no-scrypt no-slh-dsa no-siv '-Wl,-rpath,$(LIBRPATH)' >configure.log
# The crate builds static libraries only, and leaves out what makes a shared library's list of symbols.
sed -i "s#\$(SRCDIR)/util/mkdef.pl#$here/extras/openssl/export-all.pl#g" Makefile
make -j"$(nproc)" >make.log 2>&1 || { tail -n 20 make.log >&2; exit 3; }
make install_sw >>make.log 2>&1
"$folder/bin/openssl" version >&2
cp "$source/LICENSE.txt" "$folder/"
rm -rf "$work"
