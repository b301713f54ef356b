#!/usr/bin/env bash
# gcsfs switches the time limit of its HTTP client off, also the one that the user gives for the session.
#
# Most expect: aiohttp ends a request after five minutes, or after the `timeout` of the session, which gcsfs takes as
# `session_kwargs={"timeout": ...}`. What happens: gcsfs passes `timeout=None` with every request unless
# `requests_timeout` is given, and to aiohttp None means no limit, not the session's. A response that is lost is then
# awaited forever, without an error and without a retry: in training, a loader worker that never returns.
#
# The script starts a server that answers with "not found", and prints the limit that gcsfs passes with a request (aiohttp 3.14: None is no limit).
# It exits with 1 if the limit of the session is applied, which means that the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q gcsfs==2026.10.0 aiohttp==3.14.5
"$folder/env/bin/python" - <<'PYTHON'
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import os

os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # no gRPC

import aiohttp
import gcsfs


class NotFound(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *words):
        pass


server = HTTPServer(("127.0.0.1", 0), NotFound)
threading.Thread(target=server.serve_forever, daemon=True).start()
limits = []
request = aiohttp.ClientSession._request


async def seen(self, method, url, **options):
    limits.append(options.get("timeout", "that of the session"))
    return await request(self, method, url, **options)


aiohttp.ClientSession._request = seen
endpoint = f"http://127.0.0.1:{server.server_port}"
session = {"timeout": aiohttp.ClientTimeout(total=7)}
for given in ({}, {"requests_timeout": 5}):
    fs = gcsfs.GCSFileSystem(token="anon", endpoint_url=endpoint, session_kwargs=session, **given)
    found = fs.exists("bucket/file")
    print(f"gcsfs {gcsfs.__version__}, aiohttp {aiohttp.__version__}, {given or 'no option'}: exists {found}, limit {limits[-1]}")
raise SystemExit(0 if limits[0] is None and limits[-1] == 5 else 1)
PYTHON
