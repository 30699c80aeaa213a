/* For the tests of net/: a raw HTTP client that can misbehave, and small servers that do. */
#pragma once

#include "net/http_client.h"
#include "net/http_server.h"

typedef struct {
  guint status;
  char *head; /* status line and headers */
  GString *body;
  gboolean complete; /* as its framing says; FALSE when the connection ended before */
} RawReply;

void raw_reply_clear (RawReply *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RawReply, raw_reply_clear)

/* A TCP connection to 127.0.0.1. */
int raw_connect (guint16 port);
void raw_send (int fd, const char *text);
/* FALSE when the peer does not take it. */
gboolean raw_try_send (int fd, gconstpointer data, gsize size);
/* Reads one answer, skipping 100; `no_body` for HEAD. Waits at most ten seconds. */
void raw_read (int fd, gboolean no_body, RawReply *out_reply);
/* Sends and reads one answer. */
void raw_ask (int fd, const char *text, RawReply *out_reply);
/* TRUE when the peer closes (or resets) within `timeout_ms`; what it sends until then is dropped. */
gboolean raw_closes_within (int fd, gint64 timeout_ms);
/* Value of a header of `reply`, or NULL; caller frees. */
char *raw_header (const RawReply *reply, const char *name);

/* A server that accepts on its own thread and hands each connection to `serve`, one after the other. */
typedef struct RawServer RawServer;
typedef void (*RawServe) (int fd, guint n_connection, gpointer data);
RawServer *raw_server_start (RawServe serve, gpointer data);
guint16 raw_server_port (RawServer *self);
guint raw_server_n_connections (RawServer *self);
void raw_server_free (RawServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RawServer, raw_server_free)
/* Reads one request's head (and nothing of its body); FALSE at the end. Caller frees. */
char *raw_read_head (int fd);

/* A server that plays a list of answers, one a connection, the last one again and again. */
typedef struct {
  const char *const *answers; /* NULL-terminated */
  guint n_answers;
  GMutex lock;
  GPtrArray *requests; /* heads */
  RawServer *server;
} RawScript;
/* An answer with its length, for a script; freed at the end of the test program. For one thread. */
char *raw_answer (const char *status, const char *headers, const char *body);
RawServer *raw_script_start (RawScript *self, const char *const *answers);
/* Head of the n-th request, from 0. */
const char *raw_script_request (RawScript *self, guint n);
void raw_script_clear (RawScript *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RawScript, raw_script_clear)

/* A client that retries at once, and a URL of such a server for it; the caller frees both. */
HttpClient *fixture_client (gint64 no_progress_timeout_ms);
/* Whether those clients multiplex. */
extern gboolean fixture_multiplexed;
char *fixture_url (RawServer *server, const char *path);

/* Body source of `size` bytes that repeat the alphabet; fails at `fail_at` when that is not 0. */
extern const HttpBodySource fixture_source;
gpointer fixture_source_new (guint64 size, guint64 fail_at);
/* The byte of it at `position`. */
char fixture_byte (guint64 position);
extern gint fixture_sources_alive;

/* Writes a self-signed certificate for 127.0.0.1 with this name, and its key. */
void fixture_make_certificate (const char *name, const char *certificate_file, const char *key_file);
