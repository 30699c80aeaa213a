/* The pieces of a web address that a person pastes to name a model. Pure. Private to sources/. */
#pragma once

#include "base/error.h"

#define WEB_ADDRESS_MAX_BYTES 4096

/* Behind the blanks that a pasted text may begin with. */
const char *web_address_start (const char *text);
/* `scheme` has its "://"; case does not matter. */
gboolean web_address_has_scheme (const char *text, const char *scheme);
/* What follows one of the `hosts` (NULL-terminated) in `text`, which begins with a host; port 443 may be there. NULL: none
 * of them. */
const char *web_address_after_host (const char *text, const char *const *hosts);
/* What follows `endpoint`, "https://mirror/hub" without a slash at its end, or NULL; it may be NULL. */
const char *web_address_after_endpoint (const char *text, const char *endpoint);
/* User info before the host may be a token: such a text must not be shown. */
gboolean web_address_has_user_info (const char *text);
/* Decoded segments of the first `size` bytes of a path; slashes at its ends are nothing. NULL when one of them is empty or
 * badly encoded; caller frees. */
GPtrArray *web_address_segments (const char *path, gsize size);
const char *web_address_segment (const GPtrArray *segments, guint i); /* NULL behind the last */
/* Segments from `first` on with slashes between, caller frees; NULL when there are none. */
char *web_address_join (const GPtrArray *segments, guint first);
/* INVALID_ARGUMENT: `"TEXT" WHY`, without the query. Returns FALSE. */
gboolean web_address_fail (GError **error, const char *reason, const char *text, const char *why);
