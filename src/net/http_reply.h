/* What an answer means: status to error, Retry-After, OCI error bodies. Private to net/. Pure. */
#pragma once

#include "net/http_client.h"

/* 2xx, or one of the call's own. */
gboolean http_call_accepts (const HttpCall *call, guint status);
/* A status that is neither 2xx nor accepted, by the table of http_client.h. Returns FALSE. */
gboolean http_reply_fail (const HttpReply *reply, const char *method, const char *display_url, GError **error);
/* A proxy did not pass the call on. `proxy` is "" or " at ADDRESS". Returns FALSE. */
gboolean http_fail_proxy (guint status, const char *proxy, const char *method, const char *display_url,
                          GError **error);
/* 408, 429 and 5xx but 501. */
gboolean http_status_is_passing (guint status);
/* Seconds or an HTTP date, capped at five minutes; 0 when absent, past or malformed. */
gint64 http_retry_after_ms (const char *header);
/* Until a quota that is used up is filled again, from a RateLimit header ('"api";r=0;t=12', as the Hugging Face hub sends
 * it); capped likewise, 0 when something is left of it, or the header is absent or malformed. */
gint64 http_rate_limit_ms (const char *header);
