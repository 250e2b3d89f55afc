#!/usr/bin/env bash
# Makes sure that the tools which the make targets call are there.
#
#   scripts/ensure-tools.sh GROUP...      groups: rust build deny fuzz mutants models lab tunnels openssl visits interop
#   browsers page cost package dns python fleet udp icap
#
# Quiet and quick when nothing is missing. On Debian and Ubuntu, as root, it installs what is missing; elsewhere
# it says what to install. It never installs a Rust toolchain: it says how.
# Ends with 0 when all is there, 3 when something is missing that it could not install, 2 for an unknown group.
set -euo pipefail

# An ordinary user's PATH often lacks the folders in which iptables and nginx live.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# Built from the registry once, into a folder of its own: no cargo subcommand appears in anyone's PATH.
DENY_VERSION=0.20.2
FUZZ_VERSION=0.13.2
MUTANTS_VERSION=27.1.0
# scripts/models.sh wants just this one. It is not part of Tandem: GPL-3.0-only, and newer than our Rust.
VERIFPAL_VERSION=1.6.7
VERIFPAL_RUST=1.98.0
# Its source: extras/openssl/Cargo.toml.
OPENSSL_VERSION=3.5
DENY_ROOT="${TANDEM_TOOLS:-$HOME/.cache/tandem/tools}"

# command:Debian package
BUILD_TOOLS=(cc:gcc pkg-config:pkg-config)
LAB_TOOLS=(
    iptables:iptables ip6tables:iptables ip:iproute2 nginx:nginx-light openssl:openssl curl:curl tshark:tshark
    gnutls-cli:gnutls-bin tcpdump:tcpdump jq:jq conntrack:conntrack setcap:libcap2-bin capsh:libcap2-bin
    setpriv:util-linux unshare:util-linux ping:iputils-ping python3:python3 wget:wget faketime:faketime
    ssh:openssh-client sshd:openssh-server git:git fcgiwrap:fcgiwrap mosquitto:mosquitto mosquitto_pub:mosquitto-clients
    gpg:gpg gpgv:gpgv xz:xz-utils
)
# Tunnels that tunnel mode is measured beside, and what builds two of them.
TUNNEL_TOOLS=(wireguard-go:wireguard-go wg:wireguard-tools go:golang-go)
# What makes whole visits (tandem lab visits) beside the lab's own tools; the largest of them.
VISITS_TOOLS=(dovecot:dovecot-imapd)
INTEROP_TOOLS=(
    apache2:apache2-bin haproxy:haproxy stunnel4:stunnel4 gnutls-serv:gnutls-bin tstclnt:libnss3-tools certutil:libnss3-tools
    wget:wget python3:python3-minimal node:nodejs go:golang-go javac:default-jdk-headless
)
# Servers and load generators whose cost is measured beside each other.
COST_TOOLS=(
    nginx:nginx-light apache2:apache2-bin haproxy:haproxy openssl:openssl node:nodejs go:golang-go javac:default-jdk-headless
    taskset:util-linux h2load:nghttp2-client wrk:wrk
)
# What visits a site: browsers, and the other clients of the matrix of split sites.
BROWSER_TOOLS=(
    chromium:chromium firefox-esr:firefox-esr setpriv:util-linux certutil:libnss3-tools gnutls-cli:gnutls-bin curl:curl openssl:openssl
    python3:python3-minimal node:nodejs go:golang-go javac:default-jdk-headless
)
# Browsers that tests attack: at a split site, and by names on the proxies' page.
PAGE_TOOLS=(chromium:chromium firefox-esr:firefox-esr setpriv:util-linux certutil:libnss3-tools)
# What reads what the package brings: manual pages, units, completions; and what shows which system calls a daemon makes.
PACKAGE_TOOLS=(fish:fish zsh:zsh man:man-db groff:groff-base systemd-analyze:systemd strace:strace dpkg-deb:dpkg)

# What asks the broker's name server, and the other name server that it works with.
DNS_TOOLS=(dig:bind9-dnsutils delv:bind9-dnsutils dnssec-dsfromkey:bind9-utils pdns_server:pdns-server)
# A backend of PowerDNS is no command: the tool of its name is missing for as long as its library is.
compgen -G '/usr/lib/*/pdns/libremotebackend.so' >/dev/null || DNS_TOOLS+=(pdns-backend-remote:pdns-backend-remote)

# What server-side proxies share their knowledge through. Where there is a package of Valkey, it does as well.
FLEET_TOOLS=(redis-server:redis-server redis-cli:redis-tools)
! command -v valkey-server >/dev/null || FLEET_TOOLS=(valkey-server:valkey-server valkey-cli:valkey-tools)

# What speaks HTTP/3 and DNS through the tunnel.
UDP_TOOLS=(gtlsclient:ngtcp2-client gtlsserver:ngtcp2-server dnsmasq:dnsmasq-base)

# An ICAP server with services that block and replace. A service is no command: it is missing for as long as its library is.
ICAP_TOOLS=(c-icap:c-icap)
for service in content_filtering:contentfiltering url_check:urlcheck; do
    compgen -G "/usr/lib/*/c_icap/srv_${service%%:*}.so" >/dev/null || ICAP_TOOLS+=("srv_${service%%:*}:libc-icap-mod-${service##*:}")
done

# Servers whose packages bring a unit that would start them, command:unit.
SERVICES=(
    nginx:nginx pdns_server:pdns sshd:ssh mosquitto:mosquitto dovecot:dovecot redis-server:redis-server
    fcgiwrap:fcgiwrap.socket fcgiwrap:fcgiwrap gtlsserver:ngtcp2d c-icap:c-icap
)

say() { printf 'tools: %s\n' "$*" >&2; }

is_debian() { command -v apt-get >/dev/null && [ -e /etc/debian_version ]; }

# Packages are installed without starting what they bring: a web server on port 80 is not what was asked for.
install_packages() {
    local policy=/usr/sbin/policy-rc.d made_policy= service brought=()
    for service in "${SERVICES[@]}"; do
        command -v "${service%%:*}" >/dev/null || brought+=("$service")
    done
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made_policy=1
    fi
    say "installing: $*"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -y --no-install-recommends install)
    local log status=0
    log=$(mktemp)
    # The package lists are fetched only when those at hand do not do.
    "${apt[@]}" "$@" >"$log" 2>&1 </dev/null ||
        { apt-get -qq update >"$log" 2>&1 && "${apt[@]}" "$@" >"$log" 2>&1 </dev/null; } || status=$?
    [ -n "$made_policy" ] && rm -f "$policy"
    for service in ${brought[@]+"${brought[@]}"}; do
        if command -v "${service%%:*}" >/dev/null && command -v systemctl >/dev/null; then
            systemctl disable --quiet "${service##*:}" >/dev/null 2>&1 || true
        fi
    done
    [ "$status" -eq 0 ] || { say "apt-get failed:"; tail -n 15 "$log" >&2; }
    rm -f "$log"
    return "$status"
}

ensure_commands() {
    local pair missing=() packages=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null && continue
        missing+=("${pair%%:*}")
        [[ " ${packages[*]-} " == *" ${pair##*:} "* ]] || packages+=("${pair##*:}")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if is_debian && [ "$(id -u)" -eq 0 ] && install_packages "${packages[@]}"; then
        return 0
    fi
    say "missing: ${missing[*]}"
    if is_debian; then
        say "install them as root: apt-get install ${packages[*]}"
    else
        say "install them with this system's package manager (Debian calls the packages: ${packages[*]})"
    fi
    return 3
}

ensure_rust() {
    local wanted found part missing=0
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        say "no Rust toolchain; install one: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
        return 3
    fi
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    found=$(rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
        say "rustc $found is older than $wanted; update it: rustup update stable"
        return 3
    fi
    for part in fmt:rustfmt clippy:clippy; do
        cargo "${part%%:*}" --version >/dev/null 2>&1 && continue
        say "cargo ${part%%:*} is missing; add it: rustup component add ${part##*:}"
        missing=3
    done
    return "$missing"
}

ensure_deny() {
    local deny="$DENY_ROOT/bin/cargo-deny"
    [ -x "$deny" ] && [ "$("$deny" --version)" = "cargo-deny $DENY_VERSION" ] && return 0
    say "building cargo-deny $DENY_VERSION into $DENY_ROOT (once; some minutes)"
    CARGO_TARGET_DIR="$DENY_ROOT/build" cargo install --quiet --locked --force --root "$DENY_ROOT" \
        --version "$DENY_VERSION" cargo-deny </dev/null || return 3
    rm -rf "$DENY_ROOT/build"
}

# ensure_subcommand NAME VERSION: builds a cargo subcommand once.
ensure_subcommand() {
    local program="$DENY_ROOT/bin/$1"
    [ -x "$program" ] && return 0
    say "building $1 $2 into $DENY_ROOT (once; some minutes)"
    CARGO_TARGET_DIR="$DENY_ROOT/build" cargo install --quiet --locked --root "$DENY_ROOT" --version "$2" "$1" \
        </dev/null || return 3
    rm -rf "$DENY_ROOT/build"
}

# Tunnels that no distribution packages: extras/other-tunnels, from the Go module proxy. Built anew when its source has changed.
ensure_tunnels() {
    ensure_commands "${TUNNEL_TOOLS[@]}" || return $?
    local program="$DENY_ROOT/bin/tandem-other-tunnels" file
    for file in extras/other-tunnels/*; do
        [ "$program" -nt "$file" ] && continue
        say "building $program (some minutes)"
        mkdir -p "$DENY_ROOT/bin" && (cd extras/other-tunnels && go build -o "$program" .) && touch "$program" && return
        say "go could not build it: its arms, hysteria and quic-zstd, are left out"
        return 0
    done
}

# An OpenSSL with post-quantum algorithms and QUIC beside the system's, for the lab and for tests. Built anew when how it
# is built has changed.
ensure_openssl() {
    local program="$DENY_ROOT/bin/openssl-$OPENSSL_VERSION"
    [ -x "$program" ] && cmp -s scripts/build-openssl.sh "$DENY_ROOT/openssl-$OPENSSL_VERSION/made-by" && return 0
    ensure_commands perl:perl make:make cc:gcc || return $?
    # Brotli's headers are no command.
    [ -e /usr/include/brotli/encode.h ] || ensure_commands no-brotli-headers:libbrotli-dev || return $?
    say "building OpenSSL $OPENSSL_VERSION into $DENY_ROOT (once; some three minutes)"
    scripts/build-openssl.sh "$DENY_ROOT/openssl-$OPENSSL_VERSION" || return 3
    mkdir -p "$DENY_ROOT/bin" && ln -sf "../openssl-$OPENSSL_VERSION/bin/openssl" "$program"
    cp scripts/build-openssl.sh "$DENY_ROOT/openssl-$OPENSSL_VERSION/made-by"
}

# What builds and tests the Python package: a virtual environment with the packages of extras/python/tools.txt.
ensure_python() {
    local folder="$DENY_ROOT/python" wanted=extras/python/tools.txt
    cmp -s "$wanted" "$folder/made-of" && "$folder/bin/python" -c "" 2>/dev/null && return 0
    ensure_commands python3:python3 || return $?
    # The module is no command.
    python3 -c 'import ensurepip, venv' 2>/dev/null || ensure_commands no-venv-module:python3-venv || return $?
    say "installing maturin and what the Python package is tested with into $folder (once)"
    rm -rf "$folder"
    if python3 -m venv "$folder" &&
        "$folder/bin/pip" --quiet --disable-pip-version-check --retries 1 --timeout 5 install --requirement "$wanted" </dev/null; then
        cp "$wanted" "$folder/made-of"
        return 0
    fi
    rm -rf "$folder"
    say 'pip could not install them'
    return 3
}

ensure_fuzz() {
    if ! rustc +nightly --version >/dev/null 2>&1; then
        say "no nightly toolchain; install one: rustup toolchain install nightly --profile minimal"
        return 3
    fi
    ensure_commands c++:g++ || return $?
    ensure_subcommand cargo-fuzz "$FUZZ_VERSION"
}

ensure_models() {
    local verifpal="$DENY_ROOT/bin/verifpal"
    [ -x "$verifpal" ] && [ "$("$verifpal" --version)" = "verifpal $VERIFPAL_VERSION" ] && return 0
    if ! rustc "+$VERIFPAL_RUST" --version >/dev/null 2>&1; then
        say "Verifpal needs Rust $VERIFPAL_RUST beside yours: rustup toolchain install $VERIFPAL_RUST --profile minimal"
        return 3
    fi
    say "building verifpal $VERIFPAL_VERSION into $DENY_ROOT (once; some minutes)"
    CARGO_TARGET_DIR="$DENY_ROOT/build" cargo "+$VERIFPAL_RUST" install --quiet --locked --force --root "$DENY_ROOT" \
        --version "$VERIFPAL_VERSION" verifpal </dev/null || return 3
    rm -rf "$DENY_ROOT/build"
}

[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
for group in "$@"; do
    case "$group" in
        rust) ensure_rust || exit $? ;;
        build) ensure_commands "${BUILD_TOOLS[@]}" || exit $? ;;
        deny) ensure_deny || exit $? ;;
        fuzz) ensure_fuzz || exit $? ;;
        mutants) ensure_subcommand cargo-mutants "$MUTANTS_VERSION" || exit $? ;;
        models) ensure_models || exit $? ;;
        lab) ensure_commands "${LAB_TOOLS[@]}" || exit $? ;;
        openssl) ensure_openssl || exit $? ;;
        tunnels) ensure_tunnels || exit $? ;;
        visits) ensure_commands "${VISITS_TOOLS[@]}" || exit $? ;;
        interop) ensure_commands "${INTEROP_TOOLS[@]}" || exit $? ;;
        cost) ensure_commands "${COST_TOOLS[@]}" || exit $? ;;
        browsers) ensure_commands "${BROWSER_TOOLS[@]}" || exit $? ;;
        page) ensure_commands "${PAGE_TOOLS[@]}" || exit $? ;;
        package) ensure_commands "${PACKAGE_TOOLS[@]}" || exit $? ;;
        dns) ensure_commands "${DNS_TOOLS[@]}" || exit $? ;;
        python) ensure_python || exit $? ;;
        fleet) ensure_commands "${FLEET_TOOLS[@]}" || exit $? ;;
        udp) ensure_commands "${UDP_TOOLS[@]}" || exit $? ;;
        icap) ensure_commands "${ICAP_TOOLS[@]}" || exit $? ;;
        *) say "no group called $group (there are rust, build, deny, fuzz, mutants, models, lab, tunnels, openssl, visits, interop, browsers, page, cost, package, dns, python, fleet, udp, icap)"; exit 2 ;;
    esac
done
