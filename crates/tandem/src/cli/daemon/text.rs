//! What the help of the two daemons says before and after their flags.
//!
//! Is not: the flags. Clap wraps what is one line here, but for the examples: their lines fit 80
//! columns, since clap would break longer ones anywhere.

/// What `--help` of a daemon closes with.
macro_rules! examples {
    ($role:literal, $link:literal, $tunnel:literal) => {
        concat!(
            "Examples:\n",
            "  Show the firewall commands and stop\n",
            "    tandem ",
            $role,
            " --key /etc/tandem/key --link ",
            $link,
            " --dry-run\n",
            "  Take the settings from a file\n",
            "    tandem ",
            $role,
            " --config /etc/tandem/",
            $role,
            ".toml\n",
            "  Only to try it, without a key\n",
            "    tandem ",
            $role,
            " --link ",
            $link,
            " --insecure-no-key\n",
            $tunnel,
            "\n",
            "The settings file has the flags' names as keys. A flag beats the file, the file\n",
            "beats the default:\n",
            "    link = \"",
            $link,
            "\"\n",
            "    key = \"/etc/tandem/key\"\n",
            "    ports = [443, 8443]\n",
            "\n",
            "The firewall rules are removed at the end. Rules that a killed proxy left are\n",
            "removed at the next start.",
        )
    };
}

pub(in crate::cli) const CLIENT_SIDE: &str = "Run the proxy on the clients' side of the link";
pub(in crate::cli) const CLIENT_SIDE_LONG: &str = concat!(
    "Run the proxy on the clients' side of the link, until SIGTERM or SIGINT\n\n",
    "In packet mode it runs as root on the last machine before the link: a gateway (its forwarded traffic) or the \
     client itself. It tells the other proxy which certificates it holds, and rebuilds handshakes that arrive \
     shortened. Where no other proxy answers, every connection passes untouched. It prints `ready` when its firewall \
     rules are in place.\n\n",
    "In tunnel mode it runs anywhere on that side. It accepts connections and carries them to the other proxy, \
     which connects to the servers. While the other proxy does not answer, connections of `--link` go to their \
     servers directly or fail (`--when-down`), and all others fail. It prints `ready` when it accepts connections, \
     whether or not the other proxy answers yet.",
);
pub(in crate::cli) const CLIENT_SIDE_EXAMPLES: &str = examples!(
    "client-side",
    "ppp0",
    "  Tunnel mode without root, for programs with a proxy setting\n    \
         tandem client-side --mode tunnel --key key --peer 192.0.2.1:4433 \\\n        \
             --socks 127.0.0.1:1080\n  \
       Tunnel mode for all that would leave by ppp0 to port 443 (root)\n    \
         tandem client-side --mode tunnel --key key --peer 192.0.2.1:4433 \\\n        \
             --link ppp0\n"
);

pub(in crate::cli) const SERVER_SIDE: &str = "Run the proxy on the servers' side of the link";
pub(in crate::cli) const SERVER_SIDE_LONG: &str = concat!(
    "Run the proxy on the servers' side of the link, until SIGTERM or SIGINT\n\n",
    "In packet mode it runs as root on the first machine behind the link: a gateway (its forwarded traffic) or the \
     server itself. It replaces certificates that the other proxy holds by references. Where no other proxy \
     answers, every connection passes untouched. It prints `ready` when its firewall rules are in place.\n\n",
    "In tunnel mode it runs anywhere on that side, without root. It connects to servers for the client-side proxy, \
     if `--allow` permits. It prints `ready` when it listens.",
);
pub(in crate::cli) const SERVER_SIDE_EXAMPLES: &str = examples!(
    "server-side",
    "eth1",
    "  Tunnel mode without root, to public servers, port 443\n    \
         tandem server-side --mode tunnel --key key --listen 0.0.0.0:4433\n  \
       Tunnel mode to one network of your own\n    \
         tandem server-side --mode tunnel --key key --listen 0.0.0.0:4433 \\\n        \
             --allow 10.1.0.0/16:443,8443\n"
);
