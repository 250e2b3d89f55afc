//! The settings of nginx, Apache and HAProxy.

use std::path::{Path, PathBuf};

use super::{Keeping, Place, ProcessModel};

/// Where Debian has Apache's modules.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";
/// Processes of Apache's that each serve one connection, and threads of one that serves several.
const APACHE_PLACES: usize = 16;

/// Where a module of Apache's is.
pub(super) fn apache_module(name: &str) -> PathBuf {
    Path::new(APACHE_MODULES).join(format!("mod_{name}.so"))
}

pub(super) fn nginx(place: &Place<'_>) -> String {
    let dir = place.folder.display();
    let [secure, plain] = place.ports;
    let wanted = place.wanted;
    let (cache, tickets) = match wanted.keeping {
        Keeping::All => ("shared:lab:10m", "on"),
        Keeping::Shared => ("shared:lab:10m", "off"),
        Keeping::Own => ("builtin:10000", "off"),
    };
    format!(
        "daemon off;\n\
         user root;\n\
         worker_processes {workers};\n\
         worker_rlimit_nofile 30000;\n\
         pid {dir}/nginx.pid;\n\
         error_log stderr crit;\n\
         events {{ worker_connections 25000; }}\n\
         http {{\n\
           log_format reused '$ssl_session_reused';\n\
           client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;\n\
           uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;\n\
           default_type application/octet-stream;\n\
           keepalive_requests 1000000000;\n\
           root {www};\n\
           server {{\n\
             listen 127.0.0.1:{secure} ssl backlog=4096;\n\
             access_log {dir}/tls.log reused;\n\
             ssl_certificate {full};\n\
             ssl_certificate_key {key};\n\
             ssl_protocols TLSv1.2 TLSv1.3;\n\
             ssl_session_cache {cache};\n\
             ssl_session_tickets {tickets};\n\
           }}\n\
           server {{ listen 127.0.0.1:{plain} backlog=4096; access_log off; }}\n\
         }}\n",
        workers = wanted.workers,
        www = place.site.www().display(),
        full = wanted.chain.full.display(),
        key = wanted.chain.key.display(),
    )
}

pub(super) fn apache(place: &Place<'_>, model: ProcessModel) -> String {
    let dir = place.folder.display();
    let [secure, plain] = place.ports;
    let wanted = place.wanted;
    let load = |name: &str, file: &str| {
        format!(
            "LoadModule {name}_module {}\n",
            apache_module(file).display()
        )
    };
    let modules = [
        load(
            &format!("mpm_{}", model.name()),
            &format!("mpm_{}", model.name()),
        ),
        load("authz_core", "authz_core"),
        load("socache_shmcb", "socache_shmcb"),
        load("ssl", "ssl"),
    ]
    .concat();
    let places = APACHE_PLACES;
    let processes = match model {
        ProcessModel::Prefork => format!(
            "StartServers {places}\nMinSpareServers 1\nMaxSpareServers {places}\nMaxRequestWorkers {places}\n"
        ),
        ProcessModel::Worker | ProcessModel::Event => format!(
            "StartServers 1\nServerLimit 1\nThreadsPerChild {places}\nMinSpareThreads 1\n\
             MaxSpareThreads {places}\nMaxRequestWorkers {places}\n"
        ),
    };
    let tickets = match wanted.keeping {
        Keeping::All => "On",
        Keeping::Shared | Keeping::Own => "Off",
    };
    // Without rights of root these users cannot be had, and are not asked for.
    let user = match nix::unistd::geteuid().is_root() {
        true => "User www-data\nGroup www-data\n",
        false => "",
    };
    format!(
        "ServerName localhost\n\
         DefaultRuntimeDir {dir}\n\
         PidFile {dir}/apache.pid\n\
         ErrorLog {dir}/apache.log\n\
         {user}{modules}{processes}\
         MaxConnectionsPerChild 0\n\
         Listen 127.0.0.1:{secure}\n\
         Listen 127.0.0.1:{plain}\n\
         DocumentRoot {www}\n\
         LogFormat \"%{{SSL_SESSION_RESUMED}}x\" reused\n\
         SSLSessionCache shmcb:{dir}/sessions(4000000)\n\
         <VirtualHost 127.0.0.1:{secure}>\n\
         CustomLog {dir}/tls.log reused\n\
         SSLEngine on\n\
         SSLCertificateFile {full}\n\
         SSLCertificateKeyFile {key}\n\
         SSLProtocol -all +TLSv1.2 +TLSv1.3\n\
         SSLSessionTickets {tickets}\n\
         </VirtualHost>\n",
        www = place.site.www().display(),
        full = wanted.chain.full.display(),
        key = wanted.chain.key.display(),
    )
}

pub(super) fn haproxy(place: &Place<'_>) -> String {
    let [secure, plain] = place.ports;
    let wanted = place.wanted;
    let tickets = match wanted.keeping {
        Keeping::All => "",
        Keeping::Shared | Keeping::Own => "no-tls-tickets",
    };
    let answers: String = std::fs::read_dir(place.site.www())
        .into_iter()
        .flatten()
        .flatten()
        // It answers out of one buffer.
        .filter(|file| file.metadata().is_ok_and(|data| data.len() <= 12_288))
        .map(|file| {
            format!(
                "\thttp-request return status 200 content-type application/octet-stream file {} if {{ path /{} }}\n",
                file.path().display(),
                file.file_name().to_string_lossy(),
            )
        })
        .collect();
    format!(
        "global\n\
         \tnbthread 1\n\
         \tlog stdout format raw local0\n\
         \ttune.ssl.cachesize 20000\n\
         defaults\n\
         \tmode http\n\
         \ttimeout client 60s\n\
         \ttimeout connect 60s\n\
         \ttimeout server 60s\n\
         frontend secure\n\
         \tlog global\n\
         \tlog-format %[ssl_fc_is_resumed]\n\
         \tbind 127.0.0.1:{secure} ssl crt {pem} ssl-min-ver TLSv1.2 {tickets}\n\
         {answers}\
         frontend plain\n\
         \tbind 127.0.0.1:{plain}\n\
         {answers}",
        pem = place.combined().display(),
    )
}
