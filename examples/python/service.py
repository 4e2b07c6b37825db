#!/usr/bin/env python3
"""A web service that takes part in global transactions, in the standard library
of Python alone. It is the mailer of examples/mailer in another language, to show
what the contract asks of a service: see docs/reference/web.md.

    python3 examples/python/service.py --listen 127.0.0.1:8026
    txmgr participant add mail --kind web \\
        --set url=http://127.0.0.1:8026/txmgr --set list=/prepared

Mails are limited: prepare sets one aside, commit uses it, rollback gives it back.
The counts are in SQLite, and with them, in the same local transaction, one row
for each branch: the barrier. It makes every phase safe to repeat, and refuses a
prepare that comes after its rollback.
"""

import argparse
import hashlib
import hmac
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

MAX_BODY = 64 << 10
# A larger body up to this size is read before it is refused: closed before, the connection is
# reset, and the coordinator may miss the answer.
MAX_DISCARDED = 256 << 10
MAX_PAGE = 1000
TOLERANCE = 300  # seconds that the clock of a signature may be off
KEEP = 7 * 24 * 3600  # seconds that an end is remembered: longer than a coordinator is ever down
PHASES = ("prepare", "commit", "rollback")
SIGNED = ("Txmgr-Transaction-Id", "Txmgr-Branch-Id", "Txmgr-Xid", "Txmgr-Phase", "Txmgr-Deadline")
ULID = "[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}"
XID = re.compile(f"txm_[a-z0-9]{{1,16}}_({ULID})_(b[1-9][0-9]{{0,9}})")

SCHEMA = """
CREATE TABLE IF NOT EXISTS barrier (
    xid TEXT PRIMARY KEY, state TEXT NOT NULL, detail TEXT NOT NULL, changed REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mail_count (name TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0));
"""


class No(Exception):
    """A vote of no: all that the phase did is undone, and the no is remembered."""


class Failed(Exception):
    """The phase is to be tried again."""


# ---- the work of the service ------------------------------------------------


def parse_mail(payload):
    try:
        mail = json.loads(payload)
        to, subject, body = mail["to"], mail.get("subject", ""), mail.get("body", "")
        (to + subject + body).encode()  # half a surrogate pair could not be written at commit
    except (ValueError, TypeError, KeyError, AttributeError):
        raise No("not a mail") from None
    if not all(isinstance(text, str) for text in (to, subject, body)):
        raise No("not a mail")
    if not re.fullmatch(r"[^\s@<>]+@[^\s@<>]+", to) or "\n" in subject or "\r" in subject:
        raise No("to or subject is not one")
    return to, subject, body


def move(db, here, there):
    if db.execute("UPDATE mail_count SET n = n - 1 WHERE name = ? AND n > 0", (here,)).rowcount != 1:
        raise No(f"no {here} mail is left")
    db.execute("UPDATE mail_count SET n = n + 1 WHERE name = ?", (there,))


def leave(outbox, xid, payload):
    """Writes the mail under a name that is the branch's alone: done again after a
    crash, it makes no second mail."""
    to, subject, body = parse_mail(payload)
    with tempfile.NamedTemporaryFile("w", dir=outbox, prefix=".", delete=False, newline="", encoding="utf-8") as f:
        f.write(f"To: {to}\r\nSubject: {subject}\r\n\r\n{body}\r\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(f.name, os.path.join(outbox, xid + ".eml"))


# ---- the barrier ------------------------------------------------------------


class Barrier:
    def __init__(self, path, outbox, quota):
        self.path, self.outbox = path, outbox
        db = self.connect()
        try:
            db.executescript(SCHEMA)
            db.execute("BEGIN IMMEDIATE")
            for name, n in (("free", quota), ("held", 0), ("sent", 0)):
                db.execute("INSERT OR IGNORE INTO mail_count VALUES (?, ?)", (name, n))
            db.execute("DELETE FROM barrier WHERE state <> 'prepared' AND changed < ?", (time.time() - KEEP,))
            db.execute("COMMIT")
        finally:
            db.close()

    def connect(self):
        db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        db.execute("PRAGMA synchronous = FULL")
        return db

    def transaction(self, do):
        """One local transaction. BEGIN IMMEDIATE lets one writer in at a time, so
        nobody else works on the same branch."""
        db = self.connect()
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                answer = do(db)
                db.execute("COMMIT")
                return answer
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        finally:
            db.close()

    def run(self, phase, xid, payload, deadline):
        """Answers (status, header or None, value, text)."""

        def do(db):
            row = db.execute("SELECT state, detail FROM barrier WHERE xid = ?", (xid,)).fetchone()
            state, detail = row or ("", "")
            answer, new = self.step(db, phase, state, detail, xid, payload)
            if deadline is not None and time.monotonic() > deadline:
                raise Failed("the transaction's time is over")
            if new != state:
                self.remember(db, xid, new, "")
            return answer

        try:
            return self.transaction(do)
        except No as no:
            if phase != "prepare":
                raise Failed(str(no)) from None
            return self.transaction(lambda db: self.refuse(db, xid, str(no)))

    def step(self, db, phase, state, detail, xid, payload):
        if phase == "prepare":
            if state == "":
                parse_mail(payload)
                move(db, "free", "held")
                return (200, "Txmgr-Vote", "prepared", "prepared"), "prepared"
            if state == "no":
                return (409, "Txmgr-Vote", "no", detail), state
            if state in ("rolled-back", "never-prepared"):
                return (409, "Txmgr-Vote", "no", "the branch has been rolled back already"), state
            return (200, "Txmgr-Vote", "prepared", "prepared"), state
        if phase == "commit":
            if state == "":
                return (404, "Txmgr-Outcome", "unknown", "the branch was never prepared here, or is forgotten"), state
            if state in ("no", "rolled-back", "never-prepared"):
                return (409, "Txmgr-Outcome", "rolled-back", "the branch has been rolled back"), state
            if state == "prepared":
                leave(self.outbox, xid, payload)
                move(db, "held", "sent")
            return (200, "Txmgr-Outcome", "committed", "committed"), "committed"
        if state == "committed":
            return (409, "Txmgr-Outcome", "committed", "the branch has been committed"), state
        if state in ("", "never-prepared"):
            return (200, "Txmgr-Outcome", "never-prepared", "rolled back; it was never prepared here"), "never-prepared"
        if state == "prepared":
            move(db, "held", "free")
        return (200, "Txmgr-Outcome", "rolled-back", "rolled back"), "no" if state == "no" else "rolled-back"

    def refuse(self, db, xid, reason):
        """Makes a no final: the transaction with the work has been undone."""
        if not db.execute("SELECT 1 FROM barrier WHERE xid = ?", (xid,)).fetchone():
            self.remember(db, xid, "no", reason[:512])
        return 409, "Txmgr-Vote", "no", reason[:512]

    @staticmethod
    def remember(db, xid, state, detail):
        db.execute("INSERT OR REPLACE INTO barrier VALUES (?, ?, ?, ?)", (xid, state, detail, time.time()))

    def list(self, prefix, after, limit, xid):
        db = self.connect()
        try:
            if xid:
                rows = db.execute("SELECT xid, state, changed FROM barrier WHERE xid = ?", (xid,)).fetchall()
            else:
                rows = db.execute(
                    "SELECT xid, state, changed FROM barrier WHERE state = 'prepared' AND xid > ? AND xid >= ? AND xid < ?"
                    " ORDER BY xid LIMIT ?",
                    (after, prefix, prefix + "~", limit + 1),
                ).fetchall()
        finally:
            db.close()
        page = {
            "branches": [
                {"xid": x, "state": s, "since": datetime.fromtimestamp(c, timezone.utc).isoformat()} for x, s, c in rows[:limit]
            ]
        }
        if len(rows) > limit:
            page["next"] = rows[limit - 1][0]
        return page

    def counts(self):
        db = self.connect()
        try:
            return dict(db.execute("SELECT name, n FROM mail_count"))
        finally:
            db.close()


# ---- the contract on the wire -----------------------------------------------


def verify(secret, handler, body):
    """Says what is wrong with the signature of a request, None if nothing is."""
    if any(len(handler.headers.get_all(name, [])) > 1 for name in SIGNED + ("Txmgr-Signature",)):
        return "a header is there twice"
    match = re.fullmatch(r"t=([0-9]{1,15}),v1=([0-9a-f]{64})", handler.headers.get("Txmgr-Signature", ""), re.ASCII)
    if not match:
        return "Txmgr-Signature: want t=<seconds>,v1=<64 hex digits>"
    lines = [handler.command, handler.path]
    lines += [handler.headers.get(name, "") for name in SIGNED]
    lines += [match[1], hashlib.sha256(body).hexdigest()]
    text = "".join(line + "\n" for line in lines).encode("latin-1")
    if not hmac.compare_digest(hmac.new(secret, text, hashlib.sha256).hexdigest(), match[2]):
        return "the signature is wrong"
    if abs(time.time() - int(match[1])) > TOLERANCE:
        return "the signature is too old, or the clocks differ"
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # of an idle connection
    barrier = None
    secret = None

    def answer(self, status, text, header=None, value=None, kind="text/plain; charset=utf-8"):
        data = text.encode()
        self.send_response(status)
        if header:
            self.send_header(header, value)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        """The body, or None after an answer that says what is wrong with it."""
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") or not re.fullmatch("[0-9]{1,12}", length, re.ASCII):
            self.close_connection = True
            self.answer(411, "want Content-Length\n")
            return None
        if int(length) > MAX_BODY:
            self.close_connection = True
            if int(length) <= MAX_DISCARDED:
                self.rfile.read(int(length))
            self.answer(413, f"the body has more than {MAX_BODY} bytes\n")
            return None
        return self.rfile.read(int(length))

    def signed(self, body):
        problem = verify(self.secret, self, body) if self.secret else None
        if problem:
            self.answer(401, problem + "\n")
        return problem is None

    def do_OPTIONS(self):
        self.send_response(204)
        self.send_header("Allow", "GET, OPTIONS, POST")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/counts":
            self.answer(200, json.dumps(self.barrier.counts()), kind="application/json")
            return
        body = self.body()
        if body is None or not self.signed(body):
            return
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        limit = query.get("limit", str(MAX_PAGE))
        if not url.path.startswith("/txmgr/"):
            self.answer(404, "no such page\n")
        elif not re.fullmatch("[1-9][0-9]{0,8}", limit, re.ASCII):
            self.answer(400, "limit: want a number from 1\n")
        else:
            page = self.barrier.list(
                query.get("prefix", ""), query.get("after", ""), min(int(limit), MAX_PAGE), query.get("xid", "")
            )
            self.answer(200, json.dumps(page), kind="application/json")

    def not_allowed(self):
        self.close_connection = True  # the body is not read
        self.answer(405, "want POST, or GET of the list\n")

    do_PUT = do_DELETE = do_PATCH = not_allowed

    def do_POST(self):
        body = self.body()
        if body is None or not self.signed(body):
            return
        phase, xid = self.headers.get("Txmgr-Phase", ""), self.headers.get("Txmgr-Xid", "")
        match = XID.fullmatch(xid)
        named = match and ("tx_" + match[1], match[2]) == (
            self.headers.get("Txmgr-Transaction-Id"),
            self.headers.get("Txmgr-Branch-Id"),
        )
        left = self.headers.get("Txmgr-Deadline", "") if phase == "prepare" else ""
        key = f'"tx_{match[1]}/{match[2]}/{phase}"' if match else ""
        if phase not in PHASES or urlsplit(self.path).path != "/txmgr/" + phase:
            self.answer(400, "Txmgr-Phase: want prepare, commit or rollback, as the URL\n")
        elif not named:
            self.answer(400, "Txmgr-Xid, Txmgr-Transaction-Id and Txmgr-Branch-Id do not belong together\n")
        elif self.headers.get("Idempotency-Key", key) != key:
            self.answer(400, "Idempotency-Key belongs to another request\n")
        elif left and not re.fullmatch("[0-9]{1,18}", left, re.ASCII):
            self.answer(400, "Txmgr-Deadline: want milliseconds\n")
        elif left and int(left) == 0:
            self.answer(503, "the transaction's time is over\n")
        else:
            self.run_phase(phase, xid, body, time.monotonic() + int(left) / 1000 if left else None)

    def run_phase(self, phase, xid, body, deadline):
        try:
            status, header, value, text = self.barrier.run(phase, xid, body, deadline)
        except (Failed, sqlite3.OperationalError) as e:
            self.answer(503, f"{e}\n")
        except Exception as e:
            self.answer(500, f"{e}\n")
            raise
        else:
            self.answer(status, text + "\n", header, value)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description="A web service that takes part in global transactions.")
    parser.add_argument("--listen", default="127.0.0.1:8026", help="address to listen on")
    parser.add_argument("--data", default=os.path.join(tempfile.gettempdir(), "txmgr-mailer-python"), help="folder of the database and the outbox")
    parser.add_argument("--secret-file", help="file with the secret with which the coordinator signs requests")
    parser.add_argument("--quota", type=int, default=1000, help="how many mails may leave; counts at the first start")
    args = parser.parse_args()
    outbox = os.path.join(args.data, "outbox")
    os.makedirs(outbox, mode=0o700, exist_ok=True)
    if args.secret_file:
        with open(args.secret_file, "rb") as f:
            Handler.secret = f.read().strip()
        if len(Handler.secret) < 16:
            sys.exit("service.py: the secret has less than 16 bytes")
    Handler.barrier = Barrier(os.path.join(args.data, "mailer.sqlite"), outbox, args.quota)
    host, _, port = args.listen.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    print(f"service.py: listening on http://{host}:{server.server_port}/txmgr", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
