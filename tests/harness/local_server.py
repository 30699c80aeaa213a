"""An HTTP server in this process, on a port of its own, for test servers to build on."""

import http.server
import threading


class LocalServer:
    """Hands every request to serve(handler). Use as a context."""

    def __init__(self):
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer goes out in one piece: in two, the second waits until the first is acknowledged.
            wbufsize = -1
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def handle_expect_100(self):
                goes_on = super().handle_expect_100()
                self.wfile.flush()  # the client waits for it
                return goes_on

            def any(self):
                server.serve(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = any

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.httpd.daemon_threads = True
        self.thread = threading.Thread(target=self.httpd.serve_forever, daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.httpd.server_port}"

    def serve(self, handler):
        raise NotImplementedError

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.httpd.shutdown()
        self.httpd.server_close()
