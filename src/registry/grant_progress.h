/* How much was read from the module's registry under a read grant, so how far the Job is that it was given to. Each replica of the
 * registry counts what it sent itself, since it began: all are asked, and what one had counted before it was replaced is kept in mind.
 * Used by the controller. Thread-safe. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

typedef struct {
  const char *registry; /* HOST[:PORT]: what its certificate says */
  const char *
    peers; /* "HOST[:PORT],...": names behind which every replica stands (a headless Service, so the port is the Pods' own);
                           NULL: `registry`, when it is one process */
  gboolean plain_http;
  const char *ca_file;   /* or NULL: the system's */
  const char *login_dir; /* as registry_login_header takes it; or NULL. Files are read anew each time */
  gint64 max_age_ms;     /* of an answer; 0: 3 s */
} GrantProgressConfig;

typedef struct GrantProgress GrantProgress;

/* Copies the configuration. */
GrantProgress *grant_progress_new (const GrantProgressConfig *config);
void grant_progress_free (GrantProgress *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GrantProgress, grant_progress_free)

/* Decoded bytes read so far; never less than at the call before. Blocks for at most 2 s, and only when the last answer (that
 * there is none, too) is too old. Errors mean "not known now" and name neither the registry nor the grant: UNAVAILABLE
 * and what an HTTP call may give; CANCELLED. INVALID_ARGUMENT for an `id` that no grant of ours has (letters, digits, "-", "_", "."). */
gboolean grant_progress_read (Ctx *ctx, GrantProgress *self, const char *id, guint64 *out_read_bytes, GError **error);
