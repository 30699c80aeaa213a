/* Reading with a signed grant in place of a user's password: one artifact of one repository, counted for whoever it was
 * given to (dmcr-registry.md, "Authentication and grants", "Byte accounting and logs"). Private to dmcr/. Thread-safe. */
#pragma once

#include "domain/read_grant.h"
#include "net/http_server.h"
#include "storage/blob_store.h"

typedef struct Grants Grants;

/* `salt_file` holds the secret that grants are signed with. INVALID_ARGUMENT when there is none in it. Borrows `blobs`. */
Grants *grants_new (const char *salt_file, BlobStore *blobs, GError **error);
void grants_free (Grants *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Grants, grants_free)

/* The token of an Authorization header that carries one, "Bearer TOKEN" or Basic with the user "grant"; else NULL. Caller
 * frees. */
char *grants_token (const char *authorization);
/* Whether the token allows the request: it is good, reads, and asks for the manifest or a blob that it names. UNAUTHENTICATED
 * or PERMISSION_DENIED (reason DENIED). Sets the request's identity and data. Blocks. */
gboolean grants_admit (Ctx *ctx, Grants *self, HttpRequest *req, const char *token, GError **error);

/* Who reads, for as long as a body is sent. */
typedef struct GrantUse GrantUse;
/* Of an admitted request: a reference; NULL when it came without a grant. */
GrantUse *grants_use (HttpRequest *req);
void grant_use_unref (GrantUse *self);
/* So many more decoded bytes of a blob were sent. `self` may be NULL. */
void grant_use_count (GrantUse *self, guint64 n_bytes);
/* Decoded bytes of blobs that this process sent under the grants of that id ("jti"; one that was renewed keeps it) since it began;
 * forgotten ten minutes after the last of them ended. 0 for an id that nobody read with. */
guint64 grants_read_bytes (Grants *self, const char *id);
