/* Who may do what: Basic credentials from a file, rights by verb (dmcr-registry.md, "Authentication").
 * Thread-safe; the file is read again when it changes. */
#pragma once

#include "base/error.h"

typedef struct Auth Auth;

typedef struct {
  const char *htpasswd_file, *plain_users_file; /* at most one */
  const char *const *writers;                   /* NULL: "ai-models" */
  gboolean anonymous_read, anonymous_write;
} AuthConfig;

/* INVALID_ARGUMENT when a file cannot be read or holds nothing usable. */
Auth *auth_new (const AuthConfig *config, GError **error);
void auth_free (Auth *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Auth, auth_free)

/* `authorization` is the request's header or NULL. `out_user` (caller frees) is NULL for anonymous.
 * UNAUTHENTICATED (reason UNAUTHORIZED): ask for credentials; PERMISSION_DENIED (reason DENIED): these do
 * not suffice. Never tells whether the user or the password was wrong. */
gboolean auth_check (Auth *self, const char *authorization, gboolean writes, char **out_user, GError **error);
