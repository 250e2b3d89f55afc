PRAGMA application_id = 1413632590;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE site (
        name TEXT PRIMARY KEY NOT NULL,
        version INTEGER NOT NULL,
        clients INTEGER NOT NULL,
        sent INTEGER NOT NULL,
        from_origin INTEGER NOT NULL,
        accepted INTEGER NOT NULL DEFAULT 0
    ) STRICT;
INSERT INTO site VALUES('a.example',1795867774,0,0,0,0);
CREATE TABLE members (
        key BLOB PRIMARY KEY NOT NULL CHECK (length(key) = 32),
        address TEXT NOT NULL,
        peers INTEGER NOT NULL,
        healthy INTEGER NOT NULL,
        joined INTEGER NOT NULL,
        clients INTEGER NOT NULL,
        sent INTEGER NOT NULL,
        from_origin INTEGER NOT NULL,
        was_clients INTEGER NOT NULL,
        was_sent INTEGER NOT NULL,
        was_from_origin INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
INSERT INTO members VALUES(X'62be61853e6c52049cb18966aab7eab8953e397dbb575d43379984de396198f4','127.0.0.2',17444,1,1795867774,9,14807,8557,0,0,0);
INSERT INTO members VALUES(X'f5a5cc748de012f9d2d97136cad1858ade5ce309d885a05a724af0f74f512e48','127.0.0.3',0,0,1795867774,0,0,0,0,0,0);
COMMIT;
