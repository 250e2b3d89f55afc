// A client on Node's https that does one job at a split site. Arguments and output as those of client.go.
'use strict';

const crypto = require('crypto');
const fs = require('fs');
const https = require('https');

const [port, name, root, seconds, job, path, argument] = process.argv.slice(2);
const agent = new https.Agent({ keepAlive: job === 'keep', maxSockets: 1, maxCachedSessions: 8 });
const options = {
  agent,
  host: '127.0.0.1',
  servername: name,
  port,
  path,
  ca: fs.readFileSync(root),
  method: { head: 'HEAD', upload: 'POST', chunked: 'POST' }[job] || 'GET',
  headers: { Host: `${name}:${port}` },
  timeout: Number(seconds) * 1000,
};
if (job === 'fresh') options.headers['If-None-Match'] = argument;
if (job === 'range') options.headers.Range = `bytes=${argument}`;
let body = null;
if (job === 'upload' || job === 'chunked') body = Uint8Array.from({ length: Number(argument) }, (_, at) => at % 251);
if (job === 'upload') options.headers['Content-Length'] = body.length;

function ask() {
  return new Promise((resolve) => {
    const request = https.request(options, (answer) => {
      const parts = [];
      const tell = (why) => {
        const got = Buffer.concat(parts);
        const sum = crypto.createHash('sha256').update(got).digest('hex');
        console.log(why ? 'cut' : 'answer', answer.statusCode, got.length, sum, why || '');
        resolve(!why);
      };
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => tell(answer.complete ? '' : 'not complete'));
      answer.on('error', (error) => tell(error.message));
    });
    request.on('timeout', () => request.destroy(new Error('too slow')));
    request.on('error', (error) => {
      // After the head has come, its reader has told.
      if (!request.res) {
        console.log('failed', error.message);
        resolve(false);
      }
    });
    if (body !== null) for (let at = 0; at < body.length; at += 10000) request.write(body.subarray(at, at + 10000));
    request.end();
  });
}

(async () => {
  for (let left = { twice: 2, keep: 3 }[job] || 1; left > 0; left -= 1) {
    if (!await ask()) break;
  }
  agent.destroy();
})();
