/* A thread that carries out many calls side by side over few connections (HTTP/2 streams of one where the
 * server can). Private to net/: HttpClient uses it when it multiplexes. Callbacks of a transfer run on the
 * loop's thread. Thread-safe. */
#pragma once

#include <curl/curl.h>
#include <glib.h>

typedef struct HttpLoop HttpLoop;

/* One transfer on its way; belongs to the caller's stack from add until wait says TRUE or remove returns. */
typedef struct {
  CURL *easy;
  const guint64 *moved; /* grows with each byte in either direction; touched on the loop's thread alone */
  gint64 no_progress_timeout_ms;

  CURLcode code; /* once done; CURLE_OPERATION_TIMEDOUT also when no byte moved for too long */
  gboolean done;
  gboolean stalled;
  guint64 last_moved;
  gint64 last_us;
} HttpLoopJob;

HttpLoop *http_loop_new (void);
/* Every job must be done or removed. Closes the connections. */
void http_loop_free (HttpLoop *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpLoop, http_loop_free)

void http_loop_add (HttpLoop *self, HttpLoopJob *job);
/* TRUE once the job is done; blocks up to `timeout_ms`. */
gboolean http_loop_wait (HttpLoop *self, HttpLoopJob *job, gint64 timeout_ms);
/* Ends the transfer if it is under way; no callback of it runs after the return. */
void http_loop_remove (HttpLoop *self, HttpLoopJob *job);
