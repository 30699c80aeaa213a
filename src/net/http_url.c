#include "net/http_url.h"

#include <curl/curl.h>
#include <string.h>

#include "net/http_client.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC (CURLU, curl_url_cleanup)

static gboolean
malformed (GError **error)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "not an http or https URL"); /* never shown: secrets */
}

/* A part as a GLib string; NULL when absent. */
static char *
get_part (CURLU *url, CURLUPart part, unsigned flags)
{
  char *text = NULL;
  if (curl_url_get (url, part, &text, flags) != CURLUE_OK)
    return NULL;
  char *copy = g_strdup (text);
  curl_free (text);
  return copy;
}

static gboolean
has_control_bytes (const char *text)
{
  for (const guchar *c = (const guchar *) text; *c != '\0'; c++)
    if (*c <= 0x20 || *c == 0x7f)
      return TRUE;
  return FALSE;
}

static gboolean
fill (CURLU *parsed, char *text, HttpUrl *out_url, GError **error)
{
  g_auto (HttpUrl) url = { .text = text };
  g_autofree char *scheme = get_part (parsed, CURLUPART_SCHEME, 0);
  g_autofree char *host = get_part (parsed, CURLUPART_HOST, 0);
  g_autofree char *port = get_part (parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  g_autofree char *own_port = get_part (parsed, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  g_autofree char *path = get_part (parsed, CURLUPART_PATH, 0);
  if (text == NULL || scheme == NULL || host == NULL || port == NULL)
    return malformed (error);
  url.is_https = strcmp (scheme, "https") == 0;
  if (!url.is_https && strcmp (scheme, "http") != 0)
    return malformed (error);
  g_autofree char *lower = g_ascii_strdown (host, -1);
  url.origin = g_strdup_printf ("%s://%s:%s", scheme, lower, port);
  url.display = g_strdup_printf ("%s://%s%s%s%s", scheme, host, own_port != NULL ? ":" : "",
                                 own_port != NULL ? own_port : "", path != NULL ? path : "/");
  *out_url = url;
  url = (HttpUrl){ 0 };
  return TRUE;
}

gboolean
http_url_parse (const char *text, HttpUrl *out_url, GError **error)
{
  g_autoptr (CURLU) parsed = curl_url ();
  if (text == NULL || has_control_bytes (text)
      || curl_url_set (parsed, CURLUPART_URL, text, CURLU_PATH_AS_IS) != CURLUE_OK)
    return malformed (error);
  return fill (parsed, g_strdup (text), out_url, error);
}

gboolean
http_url_resolve (const HttpUrl *base, const char *location, HttpUrl *out_url, GError **error)
{
  g_autoptr (CURLU) parsed = curl_url ();
  if (has_control_bytes (location) || curl_url_set (parsed, CURLUPART_URL, base->text, CURLU_PATH_AS_IS) != CURLUE_OK
      || curl_url_set (parsed, CURLUPART_URL, location, CURLU_PATH_AS_IS) != CURLUE_OK)
    return malformed (error);
  return fill (parsed, get_part (parsed, CURLUPART_URL, 0), out_url, error);
}

void
http_url_clear (HttpUrl *self)
{
  g_clear_pointer (&self->text, g_free);
  g_clear_pointer (&self->origin, g_free);
  g_clear_pointer (&self->display, g_free);
}

char *
http_origin (const char *url)
{
  g_autoptr (GUri) uri = url == NULL ? NULL : g_uri_parse (url, G_URI_FLAGS_ENCODED, NULL);
  if (uri == NULL || g_uri_get_host (uri) == NULL)
    return NULL;
  gboolean is_https = strcmp (g_uri_get_scheme (uri), "https") == 0;
  if (!is_https && strcmp (g_uri_get_scheme (uri), "http") != 0)
    return NULL;
  int port = g_uri_get_port (uri) > 0 ? g_uri_get_port (uri) : is_https ? 443 : 80;
  g_autofree char *host = g_ascii_strdown (g_uri_get_host (uri), -1);
  gboolean is_ip6 = strchr (host, ':') != NULL;
  return g_strdup_printf ("%s://%s%s%s:%d", g_uri_get_scheme (uri), is_ip6 ? "[" : "", host, is_ip6 ? "]" : "", port);
}

char *
http_url_with (const char *url, const char *name, const char *value)
{
  const char *query = strchr (url, '?');
  const char *joint = query == NULL ? "?" : query[1] == '\0' || g_str_has_suffix (url, "&") ? "" : "&";
  return g_strdup_printf ("%s%s%s=%s", url, joint, name, value);
}
