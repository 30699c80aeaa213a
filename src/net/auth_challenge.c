#include "net/auth_challenge.h"

#include <string.h>

#include "base/json.h"
#include "net/http_client.h"

#define MAX_HEADER_BYTES 8192
#define TOKEN_MAX_BYTES (64u << 10)
#define TOKEN_DEFAULT_LIFE_S 60
#define TOKEN_MAX_LIFE_S (24 * 3600)

void
auth_challenge_clear (AuthChallenge *self)
{
  g_clear_pointer (&self->realm, g_free);
  g_clear_pointer (&self->service, g_free);
  g_clear_pointer (&self->scope, g_free);
}

static const char *
skip_separators (const char *at)
{
  return at + strspn (at, " \t,");
}

static gsize
token_length (const char *at)
{
  return strspn (at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~");
}

/* Reads `"quoted"` or a bare word; returns what follows. */
static const char *
read_value (const char *at, char **out_value)
{
  g_autoptr (GString) value = g_string_new (NULL);
  if (*at != '"')
    {
      gsize length = strcspn (at, " \t,");
      *out_value = g_strndup (at, length);
      return at + length;
    }
  at++;
  while (*at != '\0' && *at != '"')
    {
      if (*at == '\\' && at[1] != '\0')
        at++;
      g_string_append_c (value, *at++);
    }
  *out_value = g_string_free (g_steal_pointer (&value), FALSE);
  return *at == '"' ? at + 1 : at;
}

static void
take_parameter (AuthChallenge *self, const char *name, gsize length, char *value)
{
  const struct {
    const char *name;
    char **slot;
  } slots[] = { { "realm", &self->realm }, { "service", &self->service }, { "scope", &self->scope } };
  for (guint i = 0; i < G_N_ELEMENTS (slots); i++)
    if (strlen (slots[i].name) == length && g_ascii_strncasecmp (name, slots[i].name, length) == 0
        && *slots[i].slot == NULL)
      {
        *slots[i].slot = value;
        return;
      }
  g_free (value);
}

/* A word that no '=' follows begins a challenge; otherwise it is a parameter of the current one. */
void
auth_challenge_parse (const char *header, AuthChallenge *out_challenge)
{
  g_autofree char *text = g_strndup (header == NULL ? "" : header, MAX_HEADER_BYTES);
  AuthChallenge challenge = { 0 };
  gboolean in_bearer = FALSE;
  for (const char *at = skip_separators (text); *at != '\0'; at = skip_separators (at))
    {
      gsize length = token_length (at);
      const char *after = at + length + strspn (at + length, " \t");
      if (length == 0)
        {
          /* Not a word at all: what is in quotes goes with them. */
          g_autofree char *ignored = NULL;
          at = *at == '"' ? read_value (at, &ignored) : at + 1;
          continue;
        }
      if (*after == '=')
        {
          char *value = NULL;
          const char *end = read_value (after + 1 + strspn (after + 1, " \t"), &value);
          if (in_bearer)
            take_parameter (&challenge, at, length, value);
          else
            g_free (value);
          at = end;
          continue;
        }
      in_bearer = length == 6 && g_ascii_strncasecmp (at, "Bearer", 6) == 0 && !challenge.offers_bearer;
      challenge.offers_bearer |= in_bearer;
      challenge.offers_basic |= length == 5 && g_ascii_strncasecmp (at, "Basic", 5) == 0;
      at = after;
    }
  *out_challenge = challenge;
}

/* Suffixes below which anybody can have a name: there the registrable domain has one label more. A short list
 * instead of the whole public suffix list: what is missing here only makes a foreign tenant of the same
 * provider look related, and https on that name is still needed. */
static const char *const shared_suffixes[] = {
  "amazonaws.com", "azure.com",   "azurecr.io",      "azurewebsites.net", "cloudapp.net",   "cloudfront.net",
  "duckdns.org",   "fly.dev",     "github.io",       "gitlab.io",         "googleapis.com", "herokuapp.com",
  "hf.space",      "jfrog.io",    "netlify.app",     "ngrok-free.app",    "ngrok.io",       "nip.io",
  "pages.dev",     "pkg.dev",     "run.app",         "sslip.io",          "ts.net",         "vercel.app",
  "windows.net",   "workers.dev", "yandexcloud.net",
};

/* "co.uk", "com.au": a label of general use below a country. */
static gboolean
is_country_suffix (const char *last_two)
{
  static const char *const general[] = { "ac", "co", "com", "edu", "go", "gov", "ne", "net", "or", "org", NULL };
  const char *dot = strchr (last_two, '.');
  g_autofree char *label = g_strndup (last_two, (gsize) (dot - last_two));
  return strlen (dot + 1) == 2 && g_strv_contains (general, label);
}

/* The last labels of `host` that one party owns, or NULL when it has none to share. */
static const char *
registrable_domain (const char *host)
{
  if (g_hostname_is_ip_address (host))
    return NULL;
  guint n_labels = 2;
  for (guint i = 0; i < G_N_ELEMENTS (shared_suffixes); i++)
    {
      g_autofree char *suffix = g_strconcat (".", shared_suffixes[i], NULL);
      if (g_str_has_suffix (host, suffix))
        n_labels = 3;
    }
  const char *at = host + strlen (host);
  for (guint seen = 0; at > host; at--)
    {
      if (at[-1] != '.' || ++seen < n_labels)
        continue;
      if (n_labels == 2 && is_country_suffix (at))
        {
          n_labels = 3;
          continue;
        }
      return at;
    }
  guint n_all = 1;
  for (const char *dot = strchr (host, '.'); dot != NULL; dot = strchr (dot + 1, '.'))
    n_all++;
  return n_all >= n_labels ? host : NULL;
}

static char *
host_without_port (const char *host)
{
  if (host[0] == '[')
    return g_ascii_strdown (host + 1, (gssize) strcspn (host + 1, "]"));
  return g_ascii_strdown (host, (gssize) strcspn (host, ":"));
}

gboolean
auth_realm_check (const char *realm, const char *registry_host, gboolean plain_http, GError **error)
{
  g_autoptr (GUri) uri = realm == NULL ? NULL : g_uri_parse (realm, G_URI_FLAGS_ENCODED, NULL);
  const char *scheme = uri == NULL ? NULL : g_uri_get_scheme (uri);
  gboolean is_https = g_strcmp0 (scheme, "https") == 0;
  gboolean is_http = g_strcmp0 (scheme, "http") == 0;
  if ((!is_https && !is_http) || g_uri_get_host (uri) == NULL || g_uri_get_userinfo (uri) != NULL)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "RealmRefused",
                    "registry %s names a token service that is no http or https URL", registry_host);
  g_autofree char *host = g_ascii_strdown (g_uri_get_host (uri), -1);
  g_autofree char *own = host_without_port (registry_host);
  const char *domain = registrable_domain (host);
  const char *own_domain = registrable_domain (own);
  gboolean same_host = strcmp (host, own) == 0;
  gboolean related = domain != NULL && own_domain != NULL && strcmp (domain, own_domain) == 0;
  if ((is_https && (same_host || related)) || (is_http && plain_http && same_host))
    return TRUE;
  return am_fail (
    error, AM_ERROR_FAILED_PRECONDITION, "RealmRefused",
    "registry %s wants a token from %s://%s, which is not its own host or https on its domain; nothing was "
    "sent there",
    registry_host, scheme, host);
}

char *
auth_challenge_token_url (const AuthChallenge *bearer, const char *own_scope)
{
  gboolean has_scope = bearer->scope != NULL && *bearer->scope != '\0';
  g_autofree char *scope = g_uri_escape_string (has_scope ? bearer->scope : own_scope, NULL, FALSE);
  g_autofree char *with_scope = http_url_with (bearer->realm, "scope", scope);
  if (bearer->service == NULL)
    return g_steal_pointer (&with_scope);
  g_autofree char *service = g_uri_escape_string (bearer->service, NULL, FALSE);
  return http_url_with (with_scope, "service", service);
}

/* A token goes into a header: nothing but what RFC 6750 allows there. */
static gboolean
token_is_sane (const char *token)
{
  if (token == NULL || *token == '\0' || strlen (token) > TOKEN_MAX_BYTES)
    return FALSE;
  for (const char *c = token; *c != '\0'; c++)
    if (!g_ascii_isgraph (*c))
      return FALSE;
  return TRUE;
}

gboolean
auth_token_read (GBytes *reply, char **out_token, gint64 *out_life_s, GError **error)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (reply, &size);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, AUTH_TOKEN_REPLY_LIMIT, JSON_STRICT, NULL);
  yyjson_val *root = doc == NULL ? NULL : yyjson_doc_get_root (doc);
  const char *token = json_get_string (root, "token");
  if (token == NULL)
    token = json_get_string (root, "access_token");
  if (!token_is_sane (token))
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED", "no usable token came");
  yyjson_val *life = yyjson_obj_get (root, "expires_in");
  gint64 seconds = yyjson_is_int (life) ? yyjson_get_sint (life) : TOKEN_DEFAULT_LIFE_S;
  *out_token = g_strdup (token);
  *out_life_s = CLAMP (seconds, 1, TOKEN_MAX_LIFE_S);
  return TRUE;
}
