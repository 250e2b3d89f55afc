#!/usr/bin/env bash
# Makes the Debian package out of a built program. Needs dpkg-deb, strip and gzip; neither root nor a network.
#
#   scripts/make-deb.sh PROGRAM DIR       prints the path of the package that it has put into DIR
#
# $DEB_MAINTAINER names the maintainer, $DEB_COMPRESSION the compression (xz). The same program and source give the same package.
set -euo pipefail
umask 022

[ $# -eq 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)-1
architecture=$(dpkg --print-architecture)
maintainer=${DEB_MAINTAINER:-Tandem maintainers <root@localhost>}
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
put() { install -D -m "${3:-644}" "$1" "$root/$2"; }
# Documentation is compressed without the time of day.
put_compressed() { mkdir -p "$root/$(dirname "$2")" && gzip -9n <"$1" >"$root/$2"; }
# A page of docs/ comes with the pages that it links to.
put_page() {
    local link
    [ ! -e "$root/usr/share/doc/tandem/$1" ] || return 0
    put "docs/$1" "usr/share/doc/tandem/$1"
    for link in $(grep -oE '\]\([^]:)#[:space:]]+[)#]' "docs/$1" | tr -d '()#]'); do
        put_page "$(realpath -m --relative-to=docs "docs/$(dirname "$1")/$link")"
    done
}

put "$program" usr/bin/tandem 755
put "$(dirname "$program")/tandem-split" usr/bin/tandem-split 755
strip --strip-unneeded "$root/usr/bin/tandem" "$root/usr/bin/tandem-split"
# Where the preloadable library was built beside the program, it comes along.
keytap=$(dirname "$program")/libtandem_keytap.so
if [ -e "$keytap" ]; then
    put "$keytap" usr/lib/tandem/libtandem_keytap.so
    strip --strip-unneeded "$root/usr/lib/tandem/libtandem_keytap.so"
fi
# So does the program that brings keys from elsewhere.
keytap=$(dirname "$program")/tandem-keytap
if [ -e "$keytap" ]; then
    put "$keytap" usr/bin/tandem-keytap 755
    strip --strip-unneeded "$root/usr/bin/tandem-keytap"
    for part in keylog relay receive; do
        put "packaging/examples/tandem-keytap-$part.service" "usr/share/doc/tandem/examples/tandem-keytap-$part.service"
    done
fi
# And the key server.
keyserver=$(dirname "$program")/tandem-keyserver
if [ -e "$keyserver" ]; then
    put "$keyserver" usr/bin/tandem-keyserver 755
    strip --strip-unneeded "$root/usr/bin/tandem-keyserver"
    put packaging/systemd/tandem-keyserver.service usr/lib/systemd/system/tandem-keyserver.service
    put packaging/examples/keyserver.toml usr/share/doc/tandem/examples/keyserver.toml
    put_page keyserver.md
fi
# And the library with which web servers on OpenSSL use it.
provider=$(dirname "$program")/libtandem_openssl_provider.so
if [ -e "$provider" ]; then
    put "$provider" usr/lib/tandem/libtandem_openssl_provider.so
    strip --strip-unneeded "$root/usr/lib/tandem/libtandem_openssl_provider.so"
fi
# The same with the middleboxes' program.
mc=$(dirname "$program")/tandem-mc
if [ -e "$mc" ]; then
    put "$mc" usr/bin/tandem-mc 755
    strip --strip-unneeded "$root/usr/bin/tandem-mc"
    put_page mctls.md
fi
for side in client server; do
    put "packaging/systemd/tandem-$side-side@.service" "usr/lib/systemd/system/tandem-$side-side@.service"
    put "packaging/etc/$side-side.toml" "etc/tandem/$side-side.toml"
    put "packaging/systemd/tandem-tunnel-$side-side.service" "usr/lib/systemd/system/tandem-tunnel-$side-side.service"
    put "packaging/etc/tunnel-$side-side.toml" "etc/tandem/tunnel-$side-side.toml"
done

for part in origin volunteer broker; do
    put "packaging/systemd/tandem-split-$part.service" "usr/lib/systemd/system/tandem-split-$part.service"
done
for part in origin volunteer; do
    put "packaging/etc/split-$part.conf" "etc/tandem/split-$part.conf"
done
put packaging/examples/broker.toml usr/share/doc/tandem/examples/broker.toml
put packaging/examples/tariff.toml usr/share/doc/tandem/examples/tariff.toml
put packaging/examples/tunnel-firewall.conf usr/share/doc/tandem/examples/tunnel-firewall.conf
put packaging/examples/trial-certificate usr/share/doc/tandem/examples/trial-certificate 755

"$program" man "$root/man1"
# Programs of their own write theirs in full, in the place of those that name them.
for part in keyserver keytap mc; do
    if [ -e "$root/usr/bin/tandem-$part" ]; then
        "$root/usr/bin/tandem-$part" --manual "$root/man1"
    fi
done
for page in "$root"/man1/*.1; do
    put_compressed "$page" "usr/share/man/man1/$(basename "$page").gz"
done
rm -r "$root/man1"
mkdir -p "$root"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
"$program" completions bash >"$root/usr/share/bash-completion/completions/tandem"
"$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_tandem"
"$program" completions fish >"$root/usr/share/fish/vendor_completions.d/tandem.fish"

for file in tandem.lua mc13.lua; do
    put "extras/wireshark/$file" "usr/share/tandem/wireshark/$file"
done
put extras/grafana/tandem.json usr/share/tandem/grafana/tandem.json
for page in {operating,splitting,exit-codes,tls13,security,scale,keytap,processor-time}.md; do
    put_page "$page"
done
for file in LICENSE-MIT packaging/debian/copyright; do
    put "$file" "usr/share/doc/tandem/$(basename "$file")"
done
put_compressed CHANGELOG.md usr/share/doc/tandem/changelog.gz
date=$(date -u -R -d "@$SOURCE_DATE_EPOCH")
printf 'tandem (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" "$maintainer" "$date" |
    gzip -9n >"$root/usr/share/doc/tandem/changelog.Debian.gz"

mkdir "$root/DEBIAN"
for script in postinst prerm postrm; do
    put "packaging/debian/$script" "DEBIAN/$script" 755
done
(cd "$root" && find etc -type f -printf '/%p\n' | LC_ALL=C sort) >"$root/DEBIAN/conffiles"
(cd "$root" && find etc usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
# The newest of the C library's versions that the program names; packed relocations (DT_RELR) came with 2.36.
libc=$(grep -ahoE 'GLIBC_(2\.[0-9]+|ABI_DT_RELR)' "$root"/usr/bin/* |
    sed -e 's/ABI_DT_RELR/2.36/' -e 's/^GLIBC_//' | sort -uV | tail -n 1)
size=$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@MAINTAINER@|$maintainer|" \
    -e "s|@SIZE@|$size|" -e "s|@LIBC@|$libc|" packaging/debian/control.in >"$root/DEBIAN/control"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

package="$out/tandem_${version}_$architecture.deb"
dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
