/* Random access to a remote file. Headers are read in blocks; whoever reads in order gets windows that are fetched ahead
 * over several connections. Private to sources/, but for the size of a head. */
#pragma once

#include "base/reader.h"
#include "sources/remote_file.h"

/* What of a large file is looked at to tell what it is. */
#define REMOTE_HEAD_BYTES (256u << 10)

/* Takes `file` over; opens nothing yet. `head` (may be NULL) is what remote_reader_head gave for it. One reader is for one
 * thread. Errors while reading: those of remote_file_read. */
Reader *remote_reader_new (RemoteFile *file, GBytes *head);
/* The first REMOTE_HEAD_BYTES of it. Blocks; caller frees. */
GBytes *remote_reader_head (Ctx *ctx, RemoteFile *file, GError **error);
