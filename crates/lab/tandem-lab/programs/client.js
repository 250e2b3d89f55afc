// A TLS client on Node's tls module. Asks for /trial over HTTP/1.0 and prints the answer. Arguments: ADDRESS PORT VERSION ROOT.pem.
'use strict';

const fs = require('fs');
const tls = require('tls');

const name = 'www.tandem.example';
const [host, port, number, root] = process.argv.slice(2);
const version = number === '1.0' ? 'TLSv1' : `TLSv${number}`;
const old = number === '1.0' || number === '1.1';

const socket = tls.connect({
  host,
  port: Number(port),
  servername: name,
  ca: fs.readFileSync(root),
  minVersion: version,
  maxVersion: version,
  ...(old ? { ciphers: 'DEFAULT@SECLEVEL=0' } : {}),
}, () => socket.write(`GET /trial HTTP/1.0\r\nHost: ${name}\r\n\r\n`));
socket.on('data', (data) => process.stdout.write(data));
socket.on('error', (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
