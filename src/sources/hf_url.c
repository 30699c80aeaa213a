#include "sources/hf_url.h"

#include <string.h>

#include "base/file.h"
#include "sources/web_address.h"

#define REPOSITORY_MAX_BYTES 96
#define VARIANT_MAX_BYTES 128u

static const char *const hosts[] = { "huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co", NULL };
static const char *const git_prefixes[] = { "git@hf.co:", "git@huggingface.co:", "ssh://git@hf.co/",
                                            "ssh://git@huggingface.co/" };
static const char *const revision_words[] = { "tree", "blob", "resolve", "raw", "commit", "commits" };

/* First segments that are no owners. */
static const struct {
  const char *word, *what;
} other_pages[] = {
  { "datasets", "is a dataset, not a model" },
  { "spaces", "is a space, not a model" },
  { "buckets", "is a bucket, not a model" },
  { "models", "is a list of models: name one of them" },
  { "api", "is an address for programs: give the model's own page" },
  { "collections", "is a collection: name one of its models" },
  { "papers", "is a paper, not a model" },
  { "docs", "is a page of the documentation, not a model" },
  { "blog", "is a page of the blog, not a model" },
  { "settings", "is a page of settings, not a model" },
  { "organizations", "is an organization, not a model" },
};

static gboolean
is_word (const char *text)
{
  for (gsize i = 0; i < G_N_ELEMENTS (revision_words); i++)
    if (strcmp (text, revision_words[i]) == 0)
      return TRUE;
  return FALSE;
}

static gboolean
name_is_valid (const char *name, gsize size)
{
  static const char *const ends = "-.";
  if (size == 0 || strchr (ends, name[0]) != NULL || strchr (ends, name[size - 1]) != NULL)
    return FALSE;
  for (gsize i = 0; i < size; i++)
    {
      gboolean doubled = i > 0 && name[i] == name[i - 1] && strchr (ends, name[i]) != NULL;
      if (doubled || (!g_ascii_isalnum (name[i]) && strchr ("_.-", name[i]) == NULL))
        return FALSE;
    }
  return TRUE;
}

gboolean
hf_repository_is_valid (const char *name)
{
  gsize size = strlen (name);
  const char *slash = strchr (name, '/');
  if (size > REPOSITORY_MAX_BYTES || g_str_has_suffix (name, ".git"))
    return FALSE;
  if (slash == NULL)
    return name_is_valid (name, size);
  return name_is_valid (name, (gsize) (slash - name)) && name_is_valid (slash + 1, strlen (slash + 1));
}

static const char *
after_host (const char *text)
{
  return web_address_after_host (text, hosts);
}

/* The part of a web address that names a repository: behind the host, or behind git's forms. NULL: none. */
static const char *
web_part (const char *text, const char *endpoint)
{
  const char *rest = web_address_after_endpoint (text, endpoint);
  for (gsize i = 0; rest == NULL && i < G_N_ELEMENTS (git_prefixes); i++)
    if (g_str_has_prefix (text, git_prefixes[i]))
      rest = text + strlen (git_prefixes[i]);
  if (rest != NULL)
    return rest;
  return after_host (web_address_has_scheme (text, "https://") ? text + strlen ("https://") : text);
}

gboolean
hf_url_is (const char *text, const char *endpoint)
{
  text = web_address_start (text);
  return web_address_has_scheme (text, "hf://") || web_part (text, endpoint) != NULL
         || (web_address_has_scheme (text, "http://") && after_host (text + strlen ("http://")) != NULL);
}

static gboolean
is_commit (const char *revision)
{
  return strlen (revision) == 40 && strspn (revision, "0123456789abcdef") == 40;
}

/* The revision at `first`, and the path behind it. */
static void
take_revision (const GPtrArray *segments, guint first, HfUrl *url)
{
  const char *word = web_address_segment (segments, first), *kind = web_address_segment (segments, first + 1),
             *name = web_address_segment (segments, first + 2);
  if (word == NULL)
    return;
  gboolean is_ref = strcmp (word, "refs") == 0 && name != NULL
                    && (strcmp (kind, "pr") == 0 || strcmp (kind, "convert") == 0);
  url->revision = is_ref ? g_strdup_printf ("refs/%s/%s", kind, name) : g_strdup (word);
  url->path = web_address_join (segments, first + (is_ref ? 3 : 1));
  url->is_guess = url->path != NULL && strchr (url->revision, '/') == NULL && !is_commit (url->revision);
}

/* Value of `revision` in a query; NULL: none. */
static char *
query_revision (const char *text)
{
  const char *mark = text + strcspn (text, "?#");
  if (*mark != '?')
    return NULL;
  g_autofree char *query = g_strndup (mark + 1, strcspn (mark + 1, "#"));
  g_auto (GStrv) pairs = g_strsplit (query, "&", -1);
  for (guint i = 0; pairs[i] != NULL; i++)
    if (g_str_has_prefix (pairs[i], "revision=") && pairs[i][strlen ("revision=")] != '\0')
      return g_uri_unescape_string (pairs[i] + strlen ("revision="), NULL);
  return NULL;
}

static gboolean
check_first (const char *text, const char *first, GError **error)
{
  for (gsize i = 0; first != NULL && i < G_N_ELEMENTS (other_pages); i++)
    if (strcmp (first, other_pages[i].word) == 0)
      return web_address_fail (error, "UnsupportedSource", text, other_pages[i].what);
  return first != NULL
         || web_address_fail (error, "InvalidUrl", text, "names no repository: https://huggingface.co/OWNER/NAME");
}

/* Moves what stands behind a colon of the name, as Ollama and llama.cpp write it. FALSE when it is no variant. */
static gboolean
take_variant (HfUrl *url)
{
  char *colon = strchr (url->repository, ':');
  if (colon == NULL)
    return TRUE;
  url->variant = g_strdup (colon + 1);
  *colon = '\0';
  gsize size = strlen (url->variant);
  for (gsize i = 0; i < size; i++)
    if (!g_ascii_isalnum (url->variant[i]) && strchr ("_.-", url->variant[i]) == NULL)
      return FALSE;
  return size > 0 && size <= VARIANT_MAX_BYTES;
}

/* /OWNER/NAME[:VARIANT][/tree|blob|resolve.../REVISION[/PATH]]; the oldest repositories have no owner. */
static gboolean
parse_web (const char *text, const char *rest, HfUrl *url, GError **error)
{
  g_autoptr (GPtrArray) segments = web_address_segments (rest, strcspn (rest, "?#"));
  if (segments == NULL)
    return web_address_fail (error, "InvalidUrl", text, "is not well formed");
  const char *first = web_address_segment (segments, 0), *second = web_address_segment (segments, 1),
             *third = web_address_segment (segments, 2);
  if (!check_first (text, first, error))
    return FALSE;
  gboolean has_owner = second != NULL && !(is_word (second) && third != NULL && !is_word (third));
  guint at = has_owner ? 2 : 1;
  url->repository = has_owner ? g_strdup_printf ("%s/%s", first, second) : g_strdup (first);
  if (g_str_has_suffix (url->repository, ".git"))
    url->repository[strlen (url->repository) - strlen (".git")] = '\0';
  if (!take_variant (url) || (url->variant != NULL && web_address_segment (segments, at) != NULL))
    return web_address_fail (error, "InvalidUrl", text, "names no variant that could be: OWNER/NAME:Q4_K_M");
  if (web_address_segment (segments, at) != NULL && !is_word (web_address_segment (segments, at)))
    return web_address_fail (
      error, "InvalidUrl", text,
      "is not a page of the repository's files: give OWNER/NAME, or a page below /tree/ or /blob/");
  take_revision (segments, at + 1, url);
  if (url->revision == NULL)
    url->revision = query_revision (text);
  return TRUE;
}

/* hf://[models/]OWNER/NAME[@REVISION][/PATH]; KServe writes a colon instead of the @. */
static gboolean
parse_scheme (const char *text, const char *rest, HfUrl *url, GError **error)
{
  if (g_str_has_prefix (rest, "models/"))
    rest += strlen ("models/");
  gsize size = strcspn (rest, "?#");
  gsize mark = MIN (strcspn (rest, "@:"), size);
  g_autoptr (GPtrArray) before = web_address_segments (rest, mark);
  g_autoptr (GPtrArray) after = mark < size ? web_address_segments (rest + mark + 1, size - mark - 1) : NULL;
  if (before == NULL || (mark < size && after == NULL))
    return web_address_fail (error, "InvalidUrl", text, "is not well formed");
  const char *first = web_address_segment (before, 0), *second = web_address_segment (before, 1);
  if (!check_first (text, first, error))
    return FALSE;
  if (mark < size && (before->len > 2 || after->len == 0))
    return web_address_fail (error, "InvalidUrl", text, "is not well formed: hf://OWNER/NAME@REVISION/PATH");
  url->repository = second != NULL ? g_strdup_printf ("%s/%s", first, second) : g_strdup (first);
  if (mark < size)
    take_revision (after, 0, url);
  else
    url->path = web_address_join (before, 2);
  return TRUE;
}

static gboolean
check_parts (const char *text, const HfUrl *url, GError **error)
{
  if (!hf_repository_is_valid (url->repository))
    return web_address_fail (
      error, "InvalidUrl", text,
      "names no repository that the hub could have: letters, digits, _ . - and one slash, at most 96");
  if (url->revision != NULL && !path_is_safe (url->revision))
    return web_address_fail (error, "InvalidUrl", text, "names a revision that cannot be");
  if (url->path != NULL && !path_is_safe (url->path))
    return web_address_fail (error, "InvalidUrl", text, "names a file or folder that cannot be");
  return TRUE;
}

/* Where git's own form has a user, and a revision its mark, there is none. */
static gboolean
has_user_info (const char *text)
{
  return !web_address_has_scheme (text, "hf://") && !web_address_has_scheme (text, "ssh://git@hf.co/")
         && !web_address_has_scheme (text, "ssh://git@huggingface.co/") && web_address_has_user_info (text);
}

gboolean
hf_url_parse (const char *given, const char *endpoint, HfUrl *out_url, GError **error)
{
  g_auto (HfUrl) url = { 0 };
  g_autofree char *text = g_strstrip (g_strdup (given));
  if (strlen (text) > WEB_ADDRESS_MAX_BYTES)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "InvalidUrl", "the address is longer than %d bytes",
                    WEB_ADDRESS_MAX_BYTES);
  if (has_user_info (text))
    return am_fail (
      error, AM_ERROR_INVALID_ARGUMENT, "InvalidUrl",
      "the address holds a user or a token: leave it out, and give a token with --token-file or HF_TOKEN");
  const char *web = web_part (text, endpoint);
  if (web == NULL && web_address_has_scheme (text, "http://") && after_host (text + strlen ("http://")) != NULL)
    return web_address_fail (error, "InvalidUrl", text, "is not safe: write https://");
  if (web == NULL && !web_address_has_scheme (text, "hf://"))
    return web_address_fail (error, "UnsupportedSource", text,
                             "is not an address of the Hugging Face hub: https://huggingface.co/OWNER/NAME");
  gboolean parsed = web != NULL ? parse_web (text, web, &url, error)
                                : parse_scheme (text, text + strlen ("hf://"), &url, error);
  if (!parsed || !check_parts (text, &url, error))
    return FALSE;
  *out_url = url;
  url = (HfUrl){ 0 };
  return TRUE;
}

gboolean
hf_url_widen (HfUrl *self)
{
  if (!self->is_guess || self->path == NULL)
    return FALSE;
  const char *slash = strchr (self->path, '/');
  gsize size = slash != NULL ? (gsize) (slash - self->path) : strlen (self->path);
  g_autofree char *segment_text = g_strndup (self->path, size);
  char *revision = g_strdup_printf ("%s/%s", self->revision, segment_text);
  if (!path_is_safe (revision))
    {
      g_free (revision);
      return FALSE;
    }
  char *path = slash != NULL ? g_strdup (slash + 1) : NULL;
  g_free (self->revision);
  g_free (self->path);
  self->revision = revision;
  self->path = path;
  return TRUE;
}

void
hf_url_clear (HfUrl *self)
{
  g_clear_pointer (&self->repository, g_free);
  g_clear_pointer (&self->revision, g_free);
  g_clear_pointer (&self->path, g_free);
  g_clear_pointer (&self->variant, g_free);
  self->is_guess = FALSE;
}
