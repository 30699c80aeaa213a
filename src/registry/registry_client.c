#include "registry/registry_client.h"

#include <string.h>

#include "base/log.h"
#include "net/auth_challenge.h"
#include "oci/media_types.h"
#include "oci/reference.h"

/* A registry that stores a large blob elsewhere may be silent for long before it answers the closing PUT. */
#define NO_PROGRESS_TIMEOUT_MS (120 * 1000)

/* How one action authorizes. */
typedef struct {
  char *header;         /* "Bearer ..." or "Basic ..."; NULL: none yet */
  gint64 expires_us;    /* monotonic; G_MAXINT64: never */
  AuthChallenge bearer; /* where to get the next token; realm NULL: not known */
} Grant;

struct RegistryClient {
  HttpClient *http;
  char *host, *name, *display;
  char *base;   /* "https://host" */
  char *origin; /* the same with a port */
  char *basic;  /* "Basic ..." of the credentials; or NULL */
  gboolean plain_http;
  gint plain_oci; /* atomic */
  gint wire;      /* WireState, atomic */
  GMutex lock;
  Grant grants[N_REGISTRY_ACTIONS];
};

static const char *const action_names[] = {
  [REGISTRY_PULL] = "pull",
  [REGISTRY_PUSH] = "pull,push",
  [REGISTRY_DELETE] = "pull,push,delete",
};

RegistryClient *
registry_client_new (const RegistryConfig *config, const char *name, GError **error)
{
  HttpClientConfig http = {
    .ca_file = config->ca_file,
    .insecure_skip_verify = config->insecure_skip_verify,
    .no_progress_timeout_ms = config->no_progress_timeout_ms > 0 ? config->no_progress_timeout_ms
                                                                 : NO_PROGRESS_TIMEOUT_MS,
    .retry_base_ms = config->retry_base_ms,
  };
  if (!registry_host_check (config->host, error) || !repository_name_check (name, error))
    return NULL;
  g_autoptr (RegistryClient) self = g_new0 (RegistryClient, 1);
  g_mutex_init (&self->lock);
  self->http = http_client_new (&http, error);
  if (self->http == NULL)
    return NULL;
  self->host = g_strdup (config->host);
  self->name = g_strdup (name);
  self->display = g_strdup_printf ("%s/%s", config->host, name);
  self->plain_http = config->plain_http;
  self->plain_oci = config->plain_oci;
  self->base = g_strdup_printf ("%s://%s", config->plain_http ? "http" : "https", config->host);
  self->origin = http_origin (self->base);
  if (config->username != NULL && config->password != NULL)
    {
      g_autofree char *pair = g_strdup_printf ("%s:%s", config->username, config->password);
      g_autofree char *text = g_base64_encode ((const guchar *) pair, strlen (pair));
      self->basic = g_strdup_printf ("Basic %s", text);
    }
  return g_steal_pointer (&self);
}

void
registry_client_free (RegistryClient *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < N_REGISTRY_ACTIONS; i++)
    {
      g_free (self->grants[i].header);
      auth_challenge_clear (&self->grants[i].bearer);
    }
  http_client_free (self->http);
  g_free (self->host);
  g_free (self->name);
  g_free (self->display);
  g_free (self->base);
  g_free (self->origin);
  g_free (self->basic);
  g_mutex_clear (&self->lock);
  g_free (self);
}

const char *
registry_client_name (const RegistryClient *self)
{
  return self->name;
}

const char *
registry_client_display (const RegistryClient *self)
{
  return self->display;
}

const char *
registry_client_host (const RegistryClient *self)
{
  return self->host;
}

char *
registry_client_url (const RegistryClient *self, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *rest = g_strdup_vprintf (format, args);
  va_end (args);
  return g_strdup_printf ("%s/v2/%s/%s", self->base, self->name, rest);
}

gboolean
registry_client_is_home (const RegistryClient *self, const char *url)
{
  g_autofree char *origin = http_origin (url);
  return g_strcmp0 (origin, self->origin) == 0;
}

WireState
registry_client_wire (const RegistryClient *self)
{
  return g_atomic_int_get (&self->plain_oci) ? WIRE_NOT_SPOKEN : (WireState) g_atomic_int_get (&self->wire);
}

void
registry_client_refuse_wire (RegistryClient *self)
{
  g_atomic_int_set (&self->plain_oci, TRUE);
}

/* Whether the registry itself answered, not somebody it redirected to. */
static gboolean
is_own_reply (const RegistryClient *self, const HttpReply *reply)
{
  return reply->scheme_host != NULL && g_ascii_strcasecmp (reply->scheme_host, self->origin) == 0;
}

/* Remembers whether the server's answers carry the wire's header. */
static void
learn_wire (RegistryClient *self, const HttpReply *reply)
{
  const char *header = http_reply_header (reply, "x-ai-models-chunks");
  gboolean own = is_own_reply (self, reply);
  if (g_strcmp0 (header, "1") == 0 && own)
    g_atomic_int_set (&self->wire, WIRE_SPOKEN);
  else if (own && reply->status >= 200 && reply->status < 300)
    g_atomic_int_compare_and_exchange (&self->wire, WIRE_UNKNOWN, WIRE_NOT_SPOKEN);
}

static gboolean
read_token (RegistryClient *self, const HttpReply *reply, Grant *grant, GError **error)
{
  g_autofree char *token = NULL;
  gint64 seconds;
  if (!auth_token_read (reply->body, &token, &seconds, error))
    {
      g_prefix_error (error, "token service of registry %s: ", self->host);
      return FALSE;
    }
  g_free (grant->header);
  grant->header = g_strconcat ("Bearer ", token, NULL);
  /* Used up early, so that it does not expire on the way. */
  grant->expires_us = g_get_monotonic_time () + (seconds - MIN (10, seconds / 4)) * G_USEC_PER_SEC;
  return TRUE;
}

/* Asks the token service. Under the lock: a burst of calls needs one token. */
static gboolean
fetch_token_locked (Ctx *ctx, RegistryClient *self, RegistryAction action, GError **error)
{
  Grant *grant = &self->grants[action];
  if (!auth_realm_check (grant->bearer.realm, self->host, self->plain_http, error))
    return FALSE;
  g_autofree char *scope = g_strdup_printf ("repository:%s:%s", self->name, action_names[action]);
  g_autofree char *url = auth_challenge_token_url (&grant->bearer, scope);
  g_autofree char *authorization = self->basic == NULL ? NULL : g_strconcat ("Authorization: ", self->basic, NULL);
  const char *headers[] = { "Accept: application/json", authorization, NULL };
  HttpCall call = {
    .method = "GET", .url = url, .headers = headers, .reply_limit_bytes = AUTH_TOKEN_REPLY_LIMIT, .no_redirects = TRUE
  };
  g_auto (HttpReply) reply = { 0 };
  if (!http_client_call (ctx, self->http, &call, &reply, error))
    {
      g_prefix_error (error, "token service of registry %s: ", self->host);
      return FALSE;
    }
  return read_token (self, &reply, grant, error);
}

/* The Authorization value to send, NULL for none; fetches a new token when the last is used up. */
static gboolean
current_authorization (Ctx *ctx, RegistryClient *self, RegistryAction action, char **out_header, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Grant *grant = &self->grants[action];
  if (grant->header != NULL && g_get_monotonic_time () >= grant->expires_us
      && !fetch_token_locked (ctx, self, action, error))
    return FALSE;
  *out_header = g_strdup (grant->header);
  return TRUE;
}

/* Answers a 401. FALSE without an error when there is no way to do better than what was sent. */
static gboolean
answer_challenge (Ctx *ctx, RegistryClient *self, RegistryAction action, const HttpReply *reply, const char *sent,
                  GError **error)
{
  g_auto (AuthChallenge) challenge = { 0 };
  auth_challenge_parse (http_reply_header (reply, "www-authenticate"), &challenge);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Grant *grant = &self->grants[action];
  if (g_strcmp0 (grant->header, sent) != 0)
    return TRUE; /* another call was faster */
  if (challenge.offers_bearer && challenge.realm != NULL)
    {
      auth_challenge_clear (&grant->bearer);
      grant->bearer = challenge;
      challenge = (AuthChallenge){ 0 };
      return fetch_token_locked (ctx, self, action, error);
    }
  if (!challenge.offers_basic || self->basic == NULL || g_strcmp0 (sent, self->basic) == 0)
    return FALSE;
  g_free (grant->header);
  grant->header = g_strdup (self->basic);
  grant->expires_us = G_MAXINT64;
  return TRUE;
}

static const struct {
  AmErrorCode code;
  const char *reason;
  const char *remedy;
} remedies[] = {
  { AM_ERROR_UNAUTHENTICATED, "ProxyLogin", NULL },
  { AM_ERROR_PERMISSION_DENIED, "ProxyRefused", NULL },
  { AM_ERROR_UNAUTHENTICATED, NULL,
    "log in: check --username and --password-stdin, or the registry's entry in the docker config" },
  { AM_ERROR_PERMISSION_DENIED, NULL, "this user may not do that here; ask for access or use another user" },
  { AM_ERROR_FAILED_PRECONDITION, "CertificateNotTrusted",
    "if the registry has a private certificate authority, name its certificate with --ca-file" },
  { AM_ERROR_UNAVAILABLE, "HostUnreachable", "is the address right, and does the registry run there?" },
  { AM_ERROR_UNAVAILABLE, "TlsFailed",
    "does the registry speak HTTP without TLS? Then write http:// before its name, or give --plain-http" },
};

#define NO_TLS_REMEDY "if the registry speaks TLS, write https:// before its name"

/* NULL: none. */
static const char *
find_remedy (const RegistryClient *self, const GError *error)
{
  /* The words that go with such a status are not sent in answer to HEAD. */
  gboolean is_bare_refusal = am_error_is (error, AM_ERROR_INVALID_ARGUMENT) && am_error_reason (error) == NULL;
  if (self->plain_http && (am_error_has_reason (error, "NoAnswer") || is_bare_refusal))
    return NO_TLS_REMEDY;
  for (guint i = 0; i < G_N_ELEMENTS (remedies); i++)
    if (am_error_is (error, remedies[i].code)
        && (remedies[i].reason == NULL || am_error_has_reason (error, remedies[i].reason)))
      return remedies[i].remedy;
  return NULL;
}

/* Says where it happened and, for the usual causes, what to do. */
static void
explain (const RegistryClient *self, GError **error)
{
  if (error == NULL || *error == NULL)
    return;
  g_prefix_error (error, "%s: ", self->display);
  const char *remedy = find_remedy (self, *error);
  if (remedy == NULL)
    return;
  char *message = g_strdup_printf ("%s (%s)", (*error)->message, remedy);
  g_free ((*error)->message);
  (*error)->message = message;
}

/* Sends the call with one Authorization value. */
static gboolean
send_with (Ctx *ctx, RegistryClient *self, const HttpCall *call, const char *authorization, HttpReply *out_reply,
           GError **error)
{
  HttpCall own = *call;
  g_autoptr (GPtrArray) headers = g_ptr_array_new ();
  g_autofree char *line = authorization == NULL ? NULL : g_strconcat ("Authorization: ", authorization, NULL);
  for (guint i = 0; call->headers != NULL && call->headers[i] != NULL; i++)
    g_ptr_array_add (headers, (gpointer) call->headers[i]);
  if (line != NULL && registry_client_is_home (self, call->url))
    g_ptr_array_add (headers, line);
  g_ptr_array_add (headers, NULL);
  own.headers = (const char *const *) headers->pdata;
  gboolean done = http_client_call (ctx, self->http, &own, out_reply, error);
  learn_wire (self, out_reply);
  return done;
}

static gboolean
rewind_upload (const HttpCall *call)
{
  g_autoptr (GError) problem = NULL;
  if (call->upload == NULL)
    return TRUE;
  if (call->upload->rewind != NULL && call->upload->rewind (call->upload_data, &problem))
    return TRUE;
  am_ignore (&problem, "the caller starts the upload anew");
  return FALSE;
}

gboolean
registry_client_call (Ctx *ctx, RegistryClient *self, RegistryAction action, const HttpCall *call,
                      HttpReply *out_reply, GError **error)
{
  g_autofree char *first = NULL;
  g_autofree char *second = NULL;
  g_autoptr (GError) failure = NULL;
  gboolean done = current_authorization (ctx, self, action, &first, &failure)
                  && send_with (ctx, self, call, first, out_reply, &failure);
  gboolean asked = !done && out_reply->status == 401 && is_own_reply (self, out_reply);
  g_autoptr (GError) refusal = NULL;
  if (asked && answer_challenge (ctx, self, action, out_reply, first, &refusal))
    {
      if (rewind_upload (call))
        {
          g_clear_error (&failure);
          http_reply_clear (out_reply);
          done = current_authorization (ctx, self, action, &second, &failure)
                 && send_with (ctx, self, call, second, out_reply, &failure);
        }
      else
        {
          /* The next attempt has what it takes. */
          g_clear_error (&failure);
          am_fail (&failure, AM_ERROR_UNAVAILABLE, NULL,
                   "the registry asked for credentials in the middle of an upload");
        }
    }
  if (refusal != NULL)
    {
      g_clear_error (&failure);
      failure = g_steal_pointer (&refusal);
    }
  if (done)
    return TRUE;
  explain (self, &failure);
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}
