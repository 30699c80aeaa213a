/* One request and one answer over libcurl: no redirects, no retries. Private to net/: the parts of the
 * HTTP client share it. Belongs to the calling thread. */
#pragma once

#include <curl/curl.h>

#include "net/http_client.h"
#include "net/http_loop.h"
#include "net/http_url.h"

#define HTTP_ERROR_BODY_LIMIT (64 * 1024)

/* A handle with its kept-alive connections, borrowed from the client's pool. */
typedef struct {
  CURLM *multi;
  CURL *easy;
  char *origin;           /* of the last call, where a connection may be open */
  GByteArray *last_words; /* what a plain connection still had to say when it was closed */
} HttpHandle;

HttpHandle *http_handle_new (void);
void http_handle_free (HttpHandle *self);

typedef enum {
  HTTP_FAILED_FINALLY,        /* ours or hopeless: trying again makes no sense */
  HTTP_FAILED_BEFORE_SENDING, /* no connection: the server saw nothing */
  HTTP_FAILED_UNKNOWN,        /* the server may have acted */
} HttpFailure;

typedef struct {
  Ctx *ctx;
  HttpHandle *handle;
  const HttpCall *call;
  const char *method;
  const HttpUrl *url;
  struct curl_slist *headers;
  struct curl_slist *connect_to; /* NULL: where the URL says */
  gboolean sends_body;
  gint64 no_progress_timeout_ms;
  HttpLoop *loop;      /* NULL: carried out on the calling thread, with the handle's own connections */
  const char *ca_file; /* where those stand that are trusted, for messages; NULL: the system's */
  const char *proxy;   /* NULL: the environment's */

  guint status;
  GHashTable *reply_headers;
  GByteArray *body;      /* collected */
  gboolean body_capped;  /* the rest of an error's body was left unread */
  gboolean upload_taken; /* bytes were read from the upload */
  gboolean sink_started, sink_fed;
  GError *abort; /* why a callback ended the transfer */

  guint64 upload_offset;
  guint n_header_lines;
  gsize header_bytes;
  guint64 moved; /* grows with each byte in either direction */
  char message[CURL_ERROR_SIZE];
} HttpTransfer;

/* Sets those options of the handle that depend on the transfer and carries it out. FALSE with an error
 * (UNAVAILABLE for network trouble) and the kind of failure; a status is not judged here. */
gboolean http_transfer_run (HttpTransfer *self, HttpFailure *out_failure, GError **error);
void http_transfer_clear (HttpTransfer *self);
/* What libcurl's `code` means. Returns FALSE. */
gboolean http_transfer_fail (HttpTransfer *self, CURLcode code, HttpFailure *out_failure, GError **error);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (HttpTransfer, http_transfer_clear)
