#include "sources/ollama_url.h"

#include <string.h>

#include "sources/web_address.h"

#define PART_MAX_BYTES 80
#define SITE "https://ollama.com"
#define FORM "https://ollama.com/library/NAME:TAG"

static const char *const site_hosts[] = { "ollama.com", "www.ollama.com", "ollama.ai", "www.ollama.ai", NULL };
static const char *const registry_hosts[] = { "registry.ollama.ai", "registry.ollama.com", NULL };

/* First segments of the site that are no users. */
static const struct {
  const char *word, *what;
} other_pages[] = {
  { "search", "is a search, not a model: open one of its results" },
  { "models", "is a list of models: name one of them, " FORM },
  { "public", "is a file of the site, not a model" },
  { "blog", "is a page of the blog, not a model" },
  { "docs", "is a page of the documentation, not a model" },
  { "download", "is the page to get Ollama itself, not a model" },
  { "install.sh", "is the installer of Ollama itself, not a model" },
  { "settings", "is a page of settings, not a model" },
  { "signin", "is the page to sign in, not a model" },
  { "signup", "is the page to sign up, not a model" },
  { "pricing", "is a page of the site, not a model" },
  { "cloud", "is a page of the site, not a model" },
  { "turbo", "is a page of the site, not a model" },
  { "api", "is an address for programs: give the model's own page, " FORM },
  { "v2", "is an address for programs: give the model's own page, " FORM },
};

static gboolean
invalid (GError **error, const char *text, const char *why)
{
  return web_address_fail (error, "InvalidUrl", text, why);
}

static gboolean
unsupported (GError **error, const char *text, const char *why)
{
  return web_address_fail (error, "UnsupportedSource", text, why);
}

/* formats-ollama.md 1: first a letter, a digit or _, then also - and, but for a namespace, a dot. */
static gboolean
part_is_valid (const char *part, gboolean may_have_dots)
{
  gsize size = strlen (part);
  if (size == 0 || size > PART_MAX_BYTES || (!g_ascii_isalnum (part[0]) && part[0] != '_'))
    return FALSE;
  for (gsize i = 0; i < size; i++)
    if (!g_ascii_isalnum (part[i]) && strchr (may_have_dots ? "_-." : "_-", part[i]) == NULL)
      return FALSE;
  return TRUE;
}

static const char *
after_any_host (const char *text)
{
  const char *rest = web_address_after_host (text, site_hosts);
  return rest != NULL ? rest : web_address_after_host (text, registry_hosts);
}

/* The path behind the host or the mirror's address; NULL when `text` names neither. */
static const char *
web_part (const char *text, const char *endpoint)
{
  const char *rest = web_address_after_endpoint (text, endpoint);
  if (rest != NULL)
    return rest;
  return after_any_host (web_address_has_scheme (text, "https://") ? text + strlen ("https://") : text);
}

static gboolean
is_plain_http (const char *text)
{
  return web_address_has_scheme (text, "http://") && after_any_host (text + strlen ("http://")) != NULL;
}

gboolean
ollama_url_is (const char *text, const char *endpoint)
{
  text = web_address_start (text);
  return web_address_has_scheme (text, "ollama://") || web_part (text, endpoint) != NULL || is_plain_http (text);
}

/* MODEL[:TAG] */
static gboolean
take_name (const char *text, const char *space, const char *name, OllamaUrl *url, GError **error)
{
  const char *colon = strrchr (name, ':');
  url->space = g_strdup (space);
  url->model = colon != NULL ? g_strndup (name, (gsize) (colon - name)) : g_strdup (name);
  url->tag = g_strdup (colon != NULL ? colon + 1 : "latest");
  if (strchr (name, '@') != NULL)
    return invalid (error, text, "names a digest, which the registry does not know: give a tag, " FORM);
  if (!part_is_valid (url->space, FALSE) || !part_is_valid (url->model, TRUE))
    return invalid (
      error, text,
      "names no model that the registry could have: letters, digits, _ - and . in at most 80 characters");
  return part_is_valid (url->tag, TRUE)
         || invalid (error, text, "names no tag that the registry could have: letters, digits, _ - and .");
}

/* What stands behind the model's own segments is a page about it. */
static gboolean
check_rest (const char *text, const GPtrArray *segments, guint at, GError **error)
{
  const char *word = web_address_segment (segments, at);
  if (word == NULL)
    return TRUE;
  if (strcmp (word, "tags") == 0)
    return unsupported (error, text, "is the list of a model's tags: give one of them, " FORM);
  if (strcmp (word, "blobs") == 0)
    return unsupported (error, text, "is a page about one part of a model: give the model's own page, " FORM);
  return unsupported (error, text, "is no model's own page: " FORM);
}

static gboolean
check_first (const char *text, const GPtrArray *segments, GError **error)
{
  const char *first = web_address_segment (segments, 0);
  if (first == NULL)
    return unsupported (error, text, "names no model: " FORM);
  for (gsize i = 0; i < G_N_ELEMENTS (other_pages); i++)
    if (strcmp (first, other_pages[i].word) == 0)
      return unsupported (error, text, other_pages[i].what);
  if (segments->len > 1)
    return TRUE;
  if (strcmp (first, "library") == 0)
    return unsupported (error, text, "is the list of all models: name one of them, " FORM);
  return unsupported (error, text, "names a user or lacks /library/: " FORM ", or https://ollama.com/USER/NAME:TAG");
}

/* /library/MODEL[:TAG] or /USER/MODEL[:TAG] */
static gboolean
parse_web (const char *text, const char *rest, OllamaUrl *url, GError **error)
{
  g_autoptr (GPtrArray) segments = web_address_segments (rest, strcspn (rest, "?#"));
  if (segments == NULL)
    return invalid (error, text, "is not well formed");
  return check_first (text, segments, error) && check_rest (text, segments, 2, error)
         && take_name (text, web_address_segment (segments, 0), web_address_segment (segments, 1), url, error);
}

/* ollama://[HOST/][NAMESPACE/]MODEL[:TAG], read from the right. */
static gboolean
parse_scheme (const char *text, const char *rest, OllamaUrl *url, GError **error)
{
  const char *after_host = after_any_host (rest);
  g_autoptr (GPtrArray) segments = web_address_segments (after_host != NULL ? after_host : rest,
                                                         strcspn (after_host != NULL ? after_host : rest, "?#"));
  if (segments == NULL || segments->len == 0)
    return invalid (error, text, "names no model: ollama://NAME:TAG");
  if (segments->len > 2)
    return unsupported (error, text, "names another registry than Ollama's, or no model: ollama://USER/NAME:TAG");
  const char *first = web_address_segment (segments, 0), *second = web_address_segment (segments, 1);
  return second != NULL ? take_name (text, first, second, url, error)
                        : take_name (text, "library", first, url, error);
}

static gboolean
parse (const char *text, const char *endpoint, OllamaUrl *url, GError **error)
{
  const char *web = web_part (text, endpoint);
  if (web != NULL)
    return parse_web (text, web, url, error);
  if (is_plain_http (text))
    return invalid (error, text, "is not safe: write https://");
  if (web_address_has_scheme (text, "ollama://"))
    return parse_scheme (text, text + strlen ("ollama://"), url, error);
  return unsupported (error, text, "is no address of Ollama's registry: " FORM);
}

gboolean
ollama_url_parse (const char *given, const char *endpoint, OllamaUrl *out_url, GError **error)
{
  g_auto (OllamaUrl) url = { 0 };
  g_autofree char *text = g_strstrip (g_strdup (given));
  if (strlen (text) > WEB_ADDRESS_MAX_BYTES)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "InvalidUrl", "the address is longer than %d bytes",
                    WEB_ADDRESS_MAX_BYTES);
  if (web_address_has_user_info (text))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "InvalidUrl",
                    "the address holds a user or a token: leave it out, Ollama's registry is read without one");
  if (!parse (text, endpoint, &url, error))
    return FALSE;
  *out_url = url;
  url = (OllamaUrl){ 0 };
  return TRUE;
}

void
ollama_url_clear (OllamaUrl *self)
{
  g_clear_pointer (&self->space, g_free);
  g_clear_pointer (&self->model, g_free);
  g_clear_pointer (&self->tag, g_free);
}

char *
ollama_url_to_string (const OllamaUrl *self, const char *endpoint)
{
  return g_strdup_printf ("%s/%s/%s:%s", endpoint != NULL ? endpoint : SITE, self->space, self->model, self->tag);
}
