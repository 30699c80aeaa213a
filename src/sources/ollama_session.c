#include "sources/ollama_session.h"

#include <string.h>

#include "net/auth_challenge.h"
#include "sources/endpoint.h"
#include "sources/refusal.h"

/* formats-ollama.md 6. No credentials are supported, so a token never changes what a status means. The first row is for parts
 * alone. */
static const RefusalRow rows[] = {
  { 404, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubNotFound",
    "is not whole: the registry lacks a part that the model's manifest names; choose another tag" },
  { 400, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_INVALID_ARGUMENT, "HubNotFound",
    "is no name that the registry accepts: check it" },
  { 401, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized",
    "is private, or not there: check the name; models that need a login at Ollama's registry cannot be read" },
  { 403, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_PERMISSION_DENIED, "HubForbidden",
    "may not be read: models that need a login at Ollama's registry cannot be read" },
  { 404, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_NOT_FOUND, "HubNotFound",
    "is not there: check the name and the tag on the model's page" },
  { 412, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_FAILED_PRECONDITION, "HubClientRefused",
    "is not given to this program: the registry asks for a newer client, which OLLAMA_USER_AGENT can name" },
  { 429, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_UNAVAILABLE, "HubRateLimited",
    "cannot be read now: too many requests came from this address; wait some minutes" },
  { 500, NULL, NULL, REFUSAL_ANY_TOKEN, AM_ERROR_UNAVAILABLE, "HubTrouble",
    "cannot be read now: the registry has trouble" },
};

/* Whom Ollama's own registry may name as its token service, beside itself (CVE-2025-51471). */
static const char *const own_realms[] = { "https://ollama.com:443", "https://www.ollama.com:443", NULL };

static gboolean
check_realm (const OllamaRegistry *self, const char *realm, GError **error)
{
  g_autofree char *origin = endpoint_origin (realm);
  gboolean is_ollama = strcmp (self->endpoint, OLLAMA_ENDPOINT) == 0;
  return (origin != NULL && strcmp (origin, self->origin) == 0)
         || (is_ollama && origin != NULL && g_strv_contains (own_realms, origin))
         || am_fail (error, AM_ERROR_FAILED_PRECONDITION, "RealmRefused",
                     "the registry names a token service at another host, %s; refused",
                     origin != NULL ? origin : "which is no web address");
}

/* Under the lock: a burst of calls needs one token. FALSE without an error when the service refuses one. */
static gboolean
fetch_token_locked (Ctx *ctx, OllamaRegistry *self, const char *repository, const AuthChallenge *bearer,
                    GError **error)
{
  static const char *const headers[] = { "Accept: application/json", NULL };
  g_autofree char *scope = g_strdup_printf ("repository:%s:pull", repository);
  g_autofree char *url = auth_challenge_token_url (bearer, scope);
  HttpCall call = {
    .method = "GET", .url = url, .headers = headers, .reply_limit_bytes = AUTH_TOKEN_REPLY_LIMIT, .no_redirects = TRUE
  };
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *token = NULL;
  gint64 life_s;
  g_autoptr (GError) failure = NULL;
  gboolean done = http_client_call (ctx, self->api, &call, &reply, &failure);
  if (!done && (reply.status == 401 || reply.status == 403))
    return FALSE;
  if (!done || !auth_token_read (reply.body, &token, &life_s, &failure))
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&failure), "the registry's token service: ");
      return FALSE;
    }
  g_autofree char *value = g_strconcat ("Bearer ", token, NULL);
  http_client_set_credentials (self->api, self->endpoint, value);
  http_client_set_credentials (self->data, self->endpoint, value);
  self->n_tokens++;
  return TRUE;
}

/* FALSE without an error when the registry offers no way in. `n_tokens` is how many there were before the refused call. */
static gboolean
answer_challenge (Ctx *ctx, OllamaRegistry *self, const char *repository, const HttpReply *reply, guint n_tokens,
                  GError **error)
{
  g_auto (AuthChallenge) challenge = { 0 };
  auth_challenge_parse (http_reply_header (reply, "www-authenticate"), &challenge);
  if (!challenge.offers_bearer || challenge.realm == NULL)
    return FALSE;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (self->n_tokens != n_tokens)
    return TRUE; /* another call was faster */
  return check_realm (self, challenge.realm, error) && fetch_token_locked (ctx, self, repository, &challenge, error);
}

static guint
count_tokens (OllamaRegistry *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return self->n_tokens;
}

gboolean
ollama_session_call (Ctx *ctx, OllamaRegistry *self, const OllamaAsked *asked, const HttpCall *call,
                     HttpReply *out_reply, GError **error)
{
  static const RefusalTable of_parts = { rows, G_N_ELEMENTS (rows), "OLLAMA_REGISTRY" };
  static const RefusalTable of_models = { rows + 1, G_N_ELEMENTS (rows) - 1, "OLLAMA_REGISTRY" };
  g_autoptr (GError) failure = NULL, problem = NULL;
  guint n_tokens = count_tokens (self);
  if (http_client_call (ctx, self->api, call, out_reply, &failure))
    return TRUE;
  if (out_reply->status == 401 && answer_challenge (ctx, self, asked->repository, out_reply, n_tokens, &problem))
    {
      g_clear_error (&failure);
      http_reply_clear (out_reply);
      if (http_client_call (ctx, self->api, call, out_reply, &failure))
        return TRUE;
    }
  if (problem != NULL)
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&problem), "%s: ", asked->name);
      return FALSE;
    }
  g_propagate_error (error, g_steal_pointer (&failure));
  return refusal_explain (asked->is_part ? &of_parts : &of_models, asked->name, FALSE, out_reply, error);
}
