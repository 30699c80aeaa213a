/* What the parts of the hub's client share. Private to sources/. */
#pragma once

#include "net/http_client.h"
#include "sources/fetch_gate.h"
#include "sources/hf_hub.h"

struct HfHub {
  HttpClient *api;  /* retries by itself */
  HttpClient *data; /* one attempt: who reads a file knows how far it came */
  FetchGate *gate;
  char *endpoint;
  char *origin; /* "https://host:443" */
  gboolean is_mirror, has_token;
  gint64 retry_base_ms;
};

/* Percent-encodes all but unreserved characters; slashes too unless `keep_slashes`. */
char *hf_escape (const char *text, gboolean keep_slashes);

/* What the hub refused, for the message. */
typedef struct {
  const char *repository, *revision, *path; /* the latter two may be NULL */
} HfAsked;

/* Replaces `*error`, which came with `reply` from the hub itself (status 0: no answer), by one that names the
 * repository and says what to do. Returns FALSE. */
gboolean hf_explain (const HfHub *self, const HfAsked *asked, const HttpReply *reply, GError **error);
