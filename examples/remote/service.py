"""A service to ask: prices by name. Busy the first time that it is asked.

Usage: python service.py [PORT]
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Prices(BaseHTTPRequestHandler):
    """Answers GET /items/NAME."""

    asked = 0

    def do_GET(self) -> None:
        """Say what it costs."""
        Prices.asked += 1
        name = unquote(self.path.rpartition("/")[2])
        busy = Prices.asked == 1
        answer = {"error": "busy"} if busy else {"name": name, "price": 4.5}
        body = json.dumps(answer).encode()
        self.send_response(503 if busy else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8090
    with ThreadingHTTPServer(("127.0.0.1", port), Prices) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
