/* The two range headers, parsed and applied. Pure. RFC 9110 14; distribution-spec 1.1 for uploads. */
#pragma once

#include "base/error.h"

typedef enum {
  HTTP_RANGE_NONE,          /* absent, malformed, another unit or several ranges: send the whole */
  HTTP_RANGE_PART,          /* answer 206 with [first, first + length) */
  HTTP_RANGE_UNSATISFIABLE, /* answer 416 with "bytes * /size" */
} HttpRangeVerdict;

/* `header` may be NULL. "bytes=a-b", "bytes=a-", "bytes=-n"; a suffix longer than the body is the whole
 * as 206, "-0" is unsatisfiable, an end past the body is clipped, start >= size is unsatisfiable. */
HttpRangeVerdict http_range_parse (const char *header, guint64 size_bytes, guint64 *out_first, guint64 *out_length);
/* Content-Range of an upload request, "a-b" inclusive, also "bytes a-b/total" and "/ *" (digits only).
 * INVALID_ARGUMENT when malformed or b < a. */
gboolean http_upload_range_parse (const char *header, guint64 *out_first, guint64 *out_last, GError **error);
/* Content-Range of a 206 answer, "bytes a-b/total" or "bytes a-b/ *" (then *out_total is G_MAXUINT64).
 * DATA_LOSS when malformed: a peer that answers so cannot be trusted with offsets. */
gboolean http_content_range_parse (const char *header, guint64 *out_first, guint64 *out_last, guint64 *out_total,
                                   GError **error);
