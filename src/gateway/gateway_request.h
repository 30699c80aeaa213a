/* JSON bodies of the gateway's calls: members that a call does not have, values behind the first and numbers out of range
 * are refused. Pure. Used by gateway_parts.c. */
#pragma once

#include "base/error.h"

#define GATEWAY_BODY_MAX_BYTES (1024u * 1024)

typedef struct {
  char *file_name; /* a base name, checked by upload_file_name */
  gint64 size_bytes;
  GBytes *chunk; /* at most UPLOAD_PROBE_BYTES */
} ProbeRequest;

void probe_request_clear (ProbeRequest *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ProbeRequest, probe_request_clear)

/* INVALID_ARGUMENT says what is wrong, for all of these. */
gboolean probe_request_parse (GBytes *body, ProbeRequest *out_request, GError **error);
/* {"fileName"}: a base name; caller frees. */
char *init_request_parse (GBytes *body, GError **error);
/* {"partNumbers":[]}: guint, each from 1 to OBJECT_PARTS_MAX, none twice. Caller unrefs. */
GArray *parts_request_parse (GBytes *body, GError **error);
/* {"parts":[{"partNumber","etag"}]}: ObjectPart without sizes, by ascending number, at least one. Caller unrefs. */
GPtrArray *complete_request_parse (GBytes *body, GError **error);
/* Nothing, or {}. */
gboolean empty_request_check (GBytes *body, GError **error);
