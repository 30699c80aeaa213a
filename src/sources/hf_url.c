#include "sources/hf_url.h"

#include <string.h>

#include "base/file.h"

#define REPOSITORY_MAX_BYTES 96
#define URL_MAX_BYTES 4096

static const char *const hosts[] = { "huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co" };
static const char *const git_prefixes[] = { "git@hf.co:", "git@huggingface.co:", "ssh://git@hf.co/",
                                            "ssh://git@huggingface.co/" };
static const char *const revision_words[] = { "tree", "blob", "resolve", "raw", "commit", "commits" };

/* First segments that are no owners. */
static const struct {
  const char *word, *what;
} other_pages[] = {
  { "datasets", "a dataset, not a model" },
  { "spaces", "a space, not a model" },
  { "buckets", "a bucket, not a model" },
  { "models", "a list of models: name one of them" },
  { "api", "an address for programs: give the model's own page" },
  { "collections", "a collection: name one of its models" },
  { "papers", "a paper, not a model" },
  { "docs", "a page of the documentation, not a model" },
  { "blog", "a page of the blog, not a model" },
  { "settings", "a page of settings, not a model" },
  { "organizations", "an organization, not a model" },
};

static gboolean
invalid (GError **error, const char *text, const char *why)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "InvalidUrl", "\"%.*s\" %s",
                  (int) MIN (strcspn (text, "?#"), 200), text, why);
}

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

/* What follows a host of the hub in `text`, or NULL. */
static const char *
after_host (const char *text)
{
  gsize size = strcspn (text, "/?#");
  gsize name_size = size > 4 && strncmp (text + size - 4, ":443", 4) == 0 ? size - 4 : size;
  for (gsize i = 0; i < G_N_ELEMENTS (hosts); i++)
    if (strlen (hosts[i]) == name_size && g_ascii_strncasecmp (text, hosts[i], name_size) == 0)
      return text + size;
  return NULL;
}

static gboolean
has_scheme (const char *text, const char *scheme)
{
  return g_ascii_strncasecmp (text, scheme, strlen (scheme)) == 0;
}

/* What follows the address of another hub, or NULL. */
static const char *
after_endpoint (const char *text, const char *endpoint)
{
  gsize size = endpoint != NULL ? strlen (endpoint) : 0;
  if (size == 0 || strncmp (text, endpoint, size) != 0 || (text[size] != '\0' && strchr ("/?#", text[size]) == NULL))
    return NULL;
  return text + size;
}

/* The part of a web address that names a repository: behind the host, or behind git's forms. NULL: none. */
static const char *
web_part (const char *text, const char *endpoint)
{
  const char *rest = after_endpoint (text, endpoint);
  for (gsize i = 0; rest == NULL && i < G_N_ELEMENTS (git_prefixes); i++)
    if (g_str_has_prefix (text, git_prefixes[i]))
      rest = text + strlen (git_prefixes[i]);
  if (rest != NULL)
    return rest;
  return after_host (has_scheme (text, "https://") ? text + strlen ("https://") : text);
}

gboolean
hf_url_is (const char *text, const char *endpoint)
{
  text += strspn (text, " \t\r\n");
  return has_scheme (text, "hf://") || web_part (text, endpoint) != NULL
         || (has_scheme (text, "http://") && after_host (text + strlen ("http://")) != NULL);
}

/* Decoded segments of `size` bytes of a path; a slash at either end, and after the host, is nothing. NULL when one
 * of them is empty or badly encoded. */
static GPtrArray *
split_segments (const char *path, gsize size)
{
  g_autoptr (GPtrArray) segments = g_ptr_array_new_with_free_func (g_free);
  while (size > 0 && path[0] == '/')
    {
      path++;
      size--;
    }
  while (size > 0 && path[size - 1] == '/')
    size--;
  g_autofree char *text = g_strndup (path, size);
  g_auto (GStrv) parts = g_strsplit (text, "/", -1);
  for (guint i = 0; parts[i] != NULL; i++)
    {
      char *decoded = g_uri_unescape_string (parts[i], NULL);
      if (decoded == NULL || *decoded == '\0')
        {
          g_free (decoded);
          return NULL;
        }
      g_ptr_array_add (segments, decoded);
    }
  return g_steal_pointer (&segments);
}

static const char *
segment (const GPtrArray *segments, guint i)
{
  return i < segments->len ? g_ptr_array_index (segments, i) : NULL;
}

/* Segments from `first` on with slashes between; NULL when there are none. */
static char *
join_from (const GPtrArray *segments, guint first)
{
  if (first >= segments->len)
    return NULL;
  g_autoptr (GString) text = g_string_new (segment (segments, first));
  for (guint i = first + 1; i < segments->len; i++)
    g_string_append_printf (text, "/%s", segment (segments, i));
  return g_string_free (g_steal_pointer (&text), FALSE);
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
  const char *word = segment (segments, first), *kind = segment (segments, first + 1),
             *name = segment (segments, first + 2);
  if (word == NULL)
    return;
  gboolean is_ref = strcmp (word, "refs") == 0 && name != NULL
                    && (strcmp (kind, "pr") == 0 || strcmp (kind, "convert") == 0);
  url->revision = is_ref ? g_strdup_printf ("refs/%s/%s", kind, name) : g_strdup (word);
  url->path = join_from (segments, first + (is_ref ? 3 : 1));
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
      return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedSource", "\"%.*s\" is %s",
                      (int) MIN (strcspn (text, "?#"), 200), text, other_pages[i].what);
  return first != NULL || invalid (error, text, "names no repository: https://huggingface.co/OWNER/NAME");
}

/* /OWNER/NAME[/tree|blob|resolve.../REVISION[/PATH]]; the oldest repositories have no owner. */
static gboolean
parse_web (const char *text, const char *rest, HfUrl *url, GError **error)
{
  g_autoptr (GPtrArray) segments = split_segments (rest, strcspn (rest, "?#"));
  if (segments == NULL)
    return invalid (error, text, "is not well formed");
  const char *first = segment (segments, 0), *second = segment (segments, 1), *third = segment (segments, 2);
  if (!check_first (text, first, error))
    return FALSE;
  gboolean has_owner = second != NULL && !(is_word (second) && third != NULL && !is_word (third));
  guint at = has_owner ? 2 : 1;
  url->repository = has_owner ? g_strdup_printf ("%s/%s", first, second) : g_strdup (first);
  if (g_str_has_suffix (url->repository, ".git"))
    url->repository[strlen (url->repository) - strlen (".git")] = '\0';
  if (strchr (url->repository, ':') != NULL)
    return invalid (error, text,
                    "names a variant behind a colon: give the file's address instead, .../blob/main/FILE.gguf");
  if (segment (segments, at) != NULL && !is_word (segment (segments, at)))
    return invalid (error, text,
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
  g_autoptr (GPtrArray) before = split_segments (rest, mark);
  g_autoptr (GPtrArray) after = mark < size ? split_segments (rest + mark + 1, size - mark - 1) : NULL;
  if (before == NULL || (mark < size && after == NULL))
    return invalid (error, text, "is not well formed");
  const char *first = segment (before, 0), *second = segment (before, 1);
  if (!check_first (text, first, error))
    return FALSE;
  if (mark < size && (before->len > 2 || after->len == 0))
    return invalid (error, text, "is not well formed: hf://OWNER/NAME@REVISION/PATH");
  url->repository = second != NULL ? g_strdup_printf ("%s/%s", first, second) : g_strdup (first);
  if (mark < size)
    take_revision (after, 0, url);
  else
    url->path = join_from (before, 2);
  return TRUE;
}

static gboolean
check_parts (const char *text, const HfUrl *url, GError **error)
{
  if (!hf_repository_is_valid (url->repository))
    return invalid (error, text,
                    "names no repository that the hub could have: letters, digits, _ . - and one slash, at most 96");
  if (url->revision != NULL && !path_is_safe (url->revision))
    return invalid (error, text, "names a revision that cannot be");
  if (url->path != NULL && !path_is_safe (url->path))
    return invalid (error, text, "names a file or folder that cannot be");
  return TRUE;
}

/* User info before the host may be a token: such a text is not shown. */
static gboolean
has_user_info (const char *text)
{
  const char *scheme = strstr (text, "://");
  return scheme != NULL && !has_scheme (text, "hf://") && !has_scheme (text, "ssh://git@hf.co/")
         && !has_scheme (text, "ssh://git@huggingface.co/") && scheme[3 + strcspn (scheme + 3, "@/?#")] == '@';
}

gboolean
hf_url_parse (const char *given, const char *endpoint, HfUrl *out_url, GError **error)
{
  g_auto (HfUrl) url = { 0 };
  g_autofree char *text = g_strstrip (g_strdup (given));
  if (strlen (text) > URL_MAX_BYTES)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "InvalidUrl", "the address is longer than %d bytes",
                    URL_MAX_BYTES);
  if (has_user_info (text))
    return am_fail (
      error, AM_ERROR_INVALID_ARGUMENT, "InvalidUrl",
      "the address holds a user or a token: leave it out, and give a token with --token-file or HF_TOKEN");
  const char *web = web_part (text, endpoint);
  if (web == NULL && has_scheme (text, "http://") && after_host (text + strlen ("http://")) != NULL)
    return invalid (error, text, "is not safe: write https://");
  if (web == NULL && !has_scheme (text, "hf://"))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedSource",
                    "\"%.*s\" is not an address of the Hugging Face hub: https://huggingface.co/OWNER/NAME",
                    (int) MIN (strcspn (text, "?#"), 200), text);
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
  self->is_guess = FALSE;
}
