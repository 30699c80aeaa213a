/* URLs of the HTTP client, over libcurl's parser. Private to net/. Pure. */
#pragma once

#include "base/error.h"

typedef struct {
  char *text;    /* as given or resolved */
  char *origin;  /* "https://host:443", always with a port: what credentials belong to */
  char *display; /* without user info, query and fragment: fit for messages and logs */
  gboolean is_https;
} HttpUrl;

/* INVALID_ARGUMENT unless it is an absolute http or https URL with a host. */
gboolean http_url_parse (const char *text, HttpUrl *out_url, GError **error);
/* `location` (absolute or relative) seen from `base`; dot segments of an absolute path are kept.
 * INVALID_ARGUMENT as above. */
gboolean http_url_resolve (const HttpUrl *base, const char *location, HttpUrl *out_url, GError **error);
void http_url_clear (HttpUrl *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (HttpUrl, http_url_clear)
