//! nginx in the foreground with one worker: what all measurements with it have in common.
//!
//! Is not a choice of what it serves, nor for servers under load: `tandem-cost-lab` has its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::LabError;

/// nginx that keeps all its files in `directory`, which is there, with this in its block `http`.
///
/// # Errors
/// `Io` where the settings cannot be written.
pub fn command(directory: &Path, http: &str) -> Result<Command, LabError> {
    let dir = directory.display();
    let text = format!(
        "daemon off;\n\
         user root;\n\
         worker_processes 1;\n\
         pid {dir}/nginx.pid;\n\
         error_log stderr warn;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n\
           access_log off;\n\
           client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;\n\
           uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;\n\
           {http}\
         }}\n"
    );
    let settings = directory.join("nginx.conf");
    fs::write(&settings, text).map_err(LabError::io("write nginx.conf"))?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&settings).arg("-p").arg(directory);
    command.args(["-e", "stderr"]);
    Ok(command)
}
