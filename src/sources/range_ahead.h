/* The part of a remote file that somebody reads in order, fetched ahead of him in windows, over as many connections as
 * the gate allows. Private to sources/. For one thread. */
#pragma once

#include "sources/fetch_gate.h"
#include "sources/remote_file.h"

typedef struct RangeAhead RangeAhead;

/* From `offset_bytes` to the file's end. Borrows both; its threads end with `ctx`, or in range_ahead_free. */
RangeAhead *range_ahead_new (Ctx *ctx, RemoteFile *file, FetchGate *gate, guint64 offset_bytes);
/* The next `size` bytes, which must be there. Blocks. After an error it can only be freed. */
gboolean range_ahead_read (Ctx *ctx, RangeAhead *self, guint8 *buffer, gsize size, GError **error);
void range_ahead_free (RangeAhead *self);
