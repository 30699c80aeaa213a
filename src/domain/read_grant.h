/* A signed, short-lived right to read one artifact of one repository: dmcr-registry.md, "Read grant". Pure: the clock is the
 * caller's. Issued by the controller, checked by dmcr/. */
#pragma once

#include "base/error.h"

#define READ_GRANT_KEY_SIZE 32
#define READ_GRANT_MAX_BYTES 8192 /* of a token */

typedef struct {
  char *id;      /* "jti": tells grants apart in logs and metrics; no secret */
  char *purpose; /* "shared-pvc", "import", "node-cache" */
  char *repository, *digest;
  char *namespace, *name; /* of the Job or Pod; or */
  char *user, *uid;       /* of the Kubernetes user; NULL where they do not apply */
  GPtrArray *groups;      /* of char *; or NULL */
  guint64 expected_bytes; /* 0: not said */
  gint64 issued_s, expires_s;
} ReadGrant;

void read_grant_clear (ReadGrant *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ReadGrant, read_grant_clear)

/* The key that a salt stands for: one secret serves several purposes, none of which can forge another. */
void read_grant_key (const char *salt, guint8 out_key[READ_GRANT_KEY_SIZE]);
/* The token of a grant. Caller frees; it is a secret. */
char *read_grant_sign (const ReadGrant *self, const guint8 key[READ_GRANT_KEY_SIZE]);
/* UNAUTHENTICATED (reason UNAUTHORIZED) for what was not signed with the key or is no grant, and for one that has ended or
 * has not begun at `now_s` (with a minute's patience for clocks that differ). Messages never hold the token. */
gboolean read_grant_verify (const char *token, const guint8 key[READ_GRANT_KEY_SIZE], gint64 now_s,
                            ReadGrant *out_grant, GError **error);
