/* What may be uploaded, and under which name it is kept: upload-gateway.md, "File name and content rules". Pure. Used by the
 * gateway. */
#pragma once

#include "base/error.h"

#define UPLOAD_PROBE_BYTES (64u * 1024) /* of the beginning that is looked at, at most */

/* Base name of what a client sent as a file's name, or NULL when that is none: empty, dots, hidden, longer than 200 bytes,
 * not UTF-8, with a control character. Caller frees. */
char *upload_file_name (const char *sent);
/* The "filename" of a Content-Disposition header (RFC 6266), as it was sent; NULL when it has none. Caller frees. */
char *upload_disposition_name (const char *header);
/* A name for a file whose client sent none: that of the model ("model" when empty) with an extension by the first bytes.
 * Caller frees. */
char *upload_infer_name (const char *owner_name, const guint8 *head, gsize size);
/* Whether a file of this name that begins so may be published; `out_format` is "GGUF", or "" when that is told after
 * unpacking. INVALID_ARGUMENT says what is wrong and what may be sent. */
gboolean upload_check (const char *file_name, const guint8 *head, gsize size, const char **out_format,
                       GError **error);
