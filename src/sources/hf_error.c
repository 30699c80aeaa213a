#include "sources/hf_hub_private.h"
#include "sources/refusal.h"

/* formats-huggingface.md 3.2 */
static const RefusalRow rows[] = {
  { 401, "GatedRepo", NULL, REFUSAL_ANY_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubGated",
    "is gated: accept its terms on its page, then give a token of that account with --token-file or HF_TOKEN" },
  { 403, "GatedRepo", NULL, REFUSAL_WITHOUT_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubGated",
    "is gated: accept its terms on its page, then give a token of that account with --token-file or HF_TOKEN" },
  { 403, "GatedRepo", NULL, REFUSAL_WITH_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubGated",
    "is gated, and the token's account has no access yet: accept its terms on its page, or wait until its owner agrees; "
    "a fine-grained token also needs the right to read gated repositories" },
  { 401, NULL, "Invalid credentials", REFUSAL_ANY_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized",
    "cannot be read: the hub does not accept the token, which is mistyped, expired or revoked; make a new one in the "
    "account's settings" },
  { 401, NULL, NULL, REFUSAL_WITH_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized",
    "is not there, or the token may not read it: check the name, and the rights of the token" },
  { 401, NULL, NULL, REFUSAL_WITHOUT_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized",
    "is not there, or is private: check the name; for a private one give a token with --token-file or HF_TOKEN" },
  { 403, NULL, "disabled", REFUSAL_ANY_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubForbidden", "was disabled by the hub" },
  { 403, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubForbidden",
    "may not be read: check the rights of the token" },
  { 404, "RevisionNotFound", NULL, REFUSAL_ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubRevisionNotFound",
    "has no such branch, tag or commit" },
  { 404, "EntryNotFound", NULL, REFUSAL_ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubNotFound", "has no such file" },
  { 404, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubNotFound", "is not there: check the name" },
  { 429, NULL, NULL, REFUSAL_WITHOUT_TOKEN, AM_ERROR_UNAVAILABLE, "HubRateLimited",
    "cannot be read now: too many requests came from this address; wait some minutes, or give a token, which allows more" },
  { 429, NULL, NULL, REFUSAL_WITH_TOKEN, AM_ERROR_UNAVAILABLE, "HubRateLimited",
    "cannot be read now: the token's account sent too many requests; wait some minutes" },
  { 500, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_UNAVAILABLE, "HubTrouble",
    "cannot be read now: the hub has trouble" },
};

static char *
name_of (const HfHub *self, const HfAsked *asked)
{
  return g_strdup_printf ("%s/%s%s%s%s%s", self->endpoint, asked->repository, asked->revision != NULL ? " at " : "",
                          asked->revision != NULL ? asked->revision : "", asked->path != NULL ? ", file " : "",
                          asked->path != NULL ? asked->path : "");
}

gboolean
hf_explain (const HfHub *self, const HfAsked *asked, const HttpReply *reply, GError **error)
{
  static const RefusalTable table = { rows, G_N_ELEMENTS (rows), "HF_ENDPOINT" };
  g_autofree char *name = name_of (self, asked);
  return refusal_explain (&table, name, self->has_token, reply, error);
}
