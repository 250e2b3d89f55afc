// Fetches a URL with Node's fetch, its time-outs as they are: 10 s to connect, TLS included. Prints the answer's body; trusts
// the roots in NODE_EXTRA_CA_CERTS.
'use strict';

fetch(process.argv[2])
  .then((answer) => answer.text())
  .then((body) => process.stdout.write(body))
  .catch((error) => {
    console.error((error.cause ?? error).message);
    process.exitCode = 1;
  });
