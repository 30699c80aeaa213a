/* What a registry's `WWW-Authenticate` asks for, and which token services may see our credentials
 * (RFC 9110 11.6.1; distribution's token specification; pitfalls-registry.md "Auth and trust": a realm is a
 * place that the registry names, so it must be bound to the registry). Used by registry/ and sources/. Pure. */
#pragma once

#include "base/error.h"

typedef struct {
  gboolean offers_basic, offers_bearer;
  char *realm, *service, *scope; /* of Bearer; or NULL */
} AuthChallenge;

void auth_challenge_clear (AuthChallenge *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AuthChallenge, auth_challenge_clear)
/* Reads all challenges of a header (several lines joined with ", "); what is malformed is passed over. The
 * first Bearer challenge counts. `header` may be NULL. */
void auth_challenge_parse (const char *header, AuthChallenge *out_challenge);

/* FALSE with FAILED_PRECONDITION (reason RealmRefused) unless the realm is on the registry's own host, or is
 * https on its registrable domain; plain http only where the registry itself is spoken to in plain http, and
 * only on its own host. `registry_host` may have a port. */
gboolean auth_realm_check (const char *realm, const char *registry_host, gboolean plain_http, GError **error);

#define AUTH_TOKEN_REPLY_LIMIT (256u << 10)

/* Where a Bearer challenge with a realm has its token; `own_scope` where it names no scope. Caller frees. */
char *auth_challenge_token_url (const AuthChallenge *bearer, const char *own_scope);
/* The token service's answer: a token that is fit for a header, which the caller frees, and how long it is good.
 * UNAUTHENTICATED (reason UNAUTHORIZED) when there is none. */
gboolean auth_token_read (GBytes *reply, char **out_token, gint64 *out_life_s, GError **error);
