// A server of files over TLS and over plain HTTP, with Node's own modules. GET /counts on the plain port tells how many connections
// came with new sessions and how many with resumed ones.
// Arguments: TLS-PORT PORT CHAIN.pem KEY.pem FOLDER.
'use strict';
const fs = require('fs');
const http = require('http');
const https = require('https');
const path = require('path');

const [securePort, port, chain, key, folder] = process.argv.slice(2);
const files = new Map(fs.readdirSync(folder).map((name) => ['/' + name, fs.readFileSync(path.join(folder, name))]));
let fresh = 0;
let resumed = 0;

function answer(request, response) {
    if (request.url === '/counts') {
        response.end(`${fresh} ${resumed}`);
        return;
    }
    const body = files.get(request.url);
    response.writeHead(body ? 200 : 404, { 'Content-Type': 'application/octet-stream', 'Content-Length': body ? body.length : 0 });
    response.end(body);
}

const secure = https.createServer({ cert: fs.readFileSync(chain), key: fs.readFileSync(key) }, answer);
secure.on('secureConnection', (socket) => { if (socket.isSessionReused()) resumed += 1; else fresh += 1; });
secure.listen(Number(securePort), '127.0.0.1');
http.createServer(answer).listen(Number(port), '127.0.0.1');
