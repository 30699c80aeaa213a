/* Remembers, across processes, in which upload session an interrupted push stands: a small JSON file
 * <dir>/<sha256 of host, name and key>.json with the session's path on the registry; no credentials, no content.
 * Losing it costs nothing but time, so nothing here fails. Private to registry/. */
#pragma once

#include "base/ctx.h"

/* NULL when either `dir` or `key` is. Caller frees. */
char *resume_file_path (const char *dir, const char *host, const char *name, const char *key);
/* The session's path ("/v2/..."), or NULL. `path` may be NULL everywhere. Caller frees. */
char *resume_file_load (const char *path);
/* Remembers the path of the URL `location`; one with a query is not kept, it may be secret. */
void resume_file_save (Ctx *ctx, const char *path, const char *location);
void resume_file_remove (const char *path);
