/* A request target taken apart (RFC 9112 3.2, RFC 3986), and the patterns it is matched against. Pure.
 * Private to net/. Decoding is done once, segment by segment, so an escaped slash never changes which
 * route fits. */
#pragma once

#include "base/error.h"

typedef struct {
  char *name;
  char *value;
} HttpArgument;

typedef struct {
  char *path;          /* decoded; an escaped slash stays "%2F" in it */
  GPtrArray *segments; /* decoded strings between the slashes; "/a/" has "a" and "" */
  GPtrArray *query;    /* HttpArgument, in order */
} HttpTarget;

/* Origin form ("/a/b?c=d") or absolute form. INVALID_ARGUMENT on bad escapes, NUL or control bytes or
 * invalid UTF-8 in the path, "." and ".." segments, more than 256 arguments. */
gboolean http_target_parse (const char *raw, HttpTarget *out_target, GError **error);
void http_target_clear (HttpTarget *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (HttpTarget, http_target_clear)

/* "/v2/{name+}/blobs/{digest}": a literal must be equal; {x} takes one segment (which may hold a
 * decoded slash), {x+} one or more (which may not). At most one {x+}; a bad pattern is an assert. */
typedef struct HttpPattern HttpPattern;
HttpPattern *http_pattern_new (const char *text);
void http_pattern_free (HttpPattern *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpPattern, http_pattern_free)
/* NULL when it does not fit, else HttpArgument per {x}, freed with g_ptr_array_unref. */
GPtrArray *http_pattern_match (const HttpPattern *self, const HttpTarget *target);
const char *http_arguments_find (const GPtrArray *arguments, const char *name);
