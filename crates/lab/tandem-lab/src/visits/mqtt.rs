//! A device reports to a broker by MQTT over TLS: mosquitto at both ends.

use std::fs;
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::installed::Question;
use tandem_testbed::moment;
use tandem_testbed::server::Server;
use tandem_trace::Moment;

use super::application::{Application, Scene, openssl_settings};
use super::grounds::{Grounds, put};
use crate::hosts;

const HOST: &str = "mqtt.tandem.example";
const PORT: u16 = 8883;

/// Where the broker listens without TLS, on its own host alone: there the message is looked at.
const PLAIN_PORT: u16 = 1883;

const TOPIC: &str = "site/7/pump";

/// A device connects, publishes one message and leaves.
pub(super) struct Report;

impl Application for Report {
    fn about(&self) -> &'static str {
        "a device connects, publishes 123 bytes with QoS 1 and leaves: mosquitto_pub, mosquitto"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["mosquitto", "mosquitto_pub", "mosquitto_sub", "unshare"]
    }

    fn programs(&self) -> Vec<(&'static str, Question)> {
        vec![("mosquitto", Question::new("mosquitto_pub", &["--version"]))]
    }

    fn names(&self) -> &'static [&'static str] {
        &[HOST]
    }

    fn make(&self, _grounds: &Grounds) -> Result<(), LabError> {
        Ok(())
    }

    fn serve(&self, scene: &Scene<'_>) -> Result<Vec<Server>, LabError> {
        let chain = scene.grounds.chain(HOST)?;
        let settings = scene.folder.join("mosquitto.conf");
        put(
            &settings,
            format!(
                "user root\npersistence false\nallow_anonymous true\nlog_dest stderr\n\
                 listener {PORT}\ncertfile {}\nkeyfile {}\nlistener {PLAIN_PORT} 127.0.0.1\n",
                chain.full.display(),
                chain.key.display()
            ),
        )?;
        let mut broker = Command::new("mosquitto");
        broker
            .env("OPENSSL_CONF", openssl_settings(scene)?)
            .arg("-c")
            .arg(settings);
        let log = scene.folder.join("mosquitto.log");
        Ok(vec![Server::launch(scene.server, &mut broker, PORT, &log)?])
    }

    fn client(&self, scene: &Scene<'_>) -> Result<Command, LabError> {
        let message = scene.folder.join("message");
        put(&message, reading(moment::now()))?;
        let mut command = hosts::with(&scene.grounds.hosts());
        command
            .args(["mosquitto_pub", "-h", HOST, "-p", &PORT.to_string()])
            .arg("--cafile")
            .arg(&scene.grounds.chain(HOST)?.root)
            .args(["-i", "pump-7", "-q", "1", "-r", "-t", TOPIC, "-f"])
            .arg(message);
        Ok(command)
    }

    fn verify(&self, scene: &Scene<'_>, _output: &[u8]) -> Result<(), String> {
        let sent = fs::read(scene.folder.join("message")).map_err(|error| error.to_string())?;
        let mut look = Command::new("mosquitto_sub");
        look.args(["-h", "127.0.0.1", "-p", &PLAIN_PORT.to_string()])
            .args(["-N", "-C", "1", "-W", "5", "-t", TOPIC]);
        match scene.server.output(&mut look) {
            Ok(kept) if kept == sent => Ok(()),
            Ok(_) => Err("the message at the broker is not the client's".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A message, which no other is like.
fn reading(at: Moment) -> String {
    let nanos = at.since_epoch().as_nanos();
    format!(
        "{{\"at\":{nanos:020},\"pressure\":4.012,\"flow\":12.71,\"motor\":61.4,\"bearing\":48.9,\
         \"fluid\":22.1,\"alarms\":[],\"up\":8123401}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_long_as_is_said() {
        assert_eq!(reading(moment::now()).len(), 123);
    }
}
