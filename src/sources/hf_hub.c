#include "sources/hf_hub.h"

#include <string.h>

#include "sources/endpoint.h"
#include "sources/hf_hub_private.h"

#define REPLY_LIMIT_BYTES (64u << 20)
#define MAX_PAGES 2000u
#define TOKEN_MAX_BYTES 1024

char *
hf_escape (const char *text, gboolean keep_slashes)
{
  return g_uri_escape_string (text, keep_slashes ? "/" : NULL, FALSE);
}

static gboolean
set_token (HfHub *self, const char *token, GError **error)
{
  if (token == NULL)
    return TRUE;
  gsize size = strlen (token);
  for (gsize i = 0; i < size; i++)
    if (!g_ascii_isgraph (token[i]))
      size = 0;
  if (size == 0 || size > TOKEN_MAX_BYTES)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                    "the token is empty, or holds what no token of the hub has");
  g_autofree char *value = g_strconcat ("Bearer ", token, NULL);
  http_client_set_credentials (self->api, self->endpoint, value);
  http_client_set_credentials (self->data, self->endpoint, value);
  self->has_token = TRUE;
  return TRUE;
}

HfHub *
hf_hub_new (const HfHubConfig *config, GError **error)
{
  HttpClientConfig http = {
    .ca_file = config->ca_file,
    .no_progress_timeout_ms = config->no_progress_timeout_ms,
    .retry_base_ms = config->retry_base_ms,
  };
  g_autoptr (HfHub) self = g_new0 (HfHub, 1);
  const char *endpoint = config->endpoint != NULL ? config->endpoint : HF_ENDPOINT;
  if (!endpoint_parse (endpoint, "HF_ENDPOINT", &self->endpoint, &self->origin, error))
    return NULL;
  self->gate = fetch_gate_new ();
  self->is_mirror = strcmp (self->endpoint, HF_ENDPOINT) != 0;
  self->retry_base_ms = config->retry_base_ms > 0 ? config->retry_base_ms : 250;
  self->api = http_client_new (&http, error);
  http.max_attempts = 1;
  self->data = self->api != NULL ? http_client_new (&http, error) : NULL;
  return self->data != NULL && set_token (self, config->token, error) ? g_steal_pointer (&self) : NULL;
}

void
hf_hub_free (HfHub *self)
{
  if (self == NULL)
    return;
  http_client_free (self->api);
  http_client_free (self->data);
  fetch_gate_free (self->gate);
  g_free (self->endpoint);
  g_free (self->origin);
  g_free (self);
}

/* One document of the hub itself; a redirect may lead to another name of the repository but not to another host. */
static gboolean
get_document (Ctx *ctx, HfHub *self, const char *url, const HfAsked *asked, HttpReply *out_reply, GError **error)
{
  static const char *const headers[] = { "Accept: application/json", NULL };
  HttpCall call = { .method = "GET", .url = url, .headers = headers, .reply_limit_bytes = REPLY_LIMIT_BYTES };
  if (!http_client_call (ctx, self->api, &call, out_reply, error))
    return hf_explain (self, asked, out_reply, error);
  if (g_strcmp0 (out_reply->scheme_host, self->origin) != 0)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer",
                    "%s/%s: the hub sends its callers to another host, %s", self->endpoint, asked->repository,
                    out_reply->scheme_host);
  return TRUE;
}

static HfInfo *
get_info (Ctx *ctx, HfHub *self, const char *repository, const char *revision, const char *query, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  HfAsked asked = { repository, revision, NULL };
  g_autofree char *escaped = revision != NULL ? hf_escape (revision, FALSE) : NULL;
  g_autofree char *url = g_strdup_printf ("%s/api/models/%s%s%s%s", self->endpoint, repository,
                                          escaped != NULL ? "/revision/" : "", escaped != NULL ? escaped : "", query);
  if (!get_document (ctx, self, url, &asked, &reply, error))
    return NULL;
  HfInfo *info = hf_info_parse (reply.body, self->is_mirror, error);
  if (info == NULL)
    g_prefix_error (error, "%s/%s: ", self->endpoint, repository);
  return info;
}

/* Where the next page is; NULL in `*out_url` after the last. A mirror may name the hub it mirrors. */
static gboolean
next_page (const HfHub *self, const HttpReply *reply, char **out_url, GError **error)
{
  g_autofree char *link = hf_link_next (http_reply_header (reply, "link"));
  *out_url = NULL;
  if (link == NULL)
    return TRUE;
  g_autofree char *url = g_uri_resolve_relative (reply->url, link, G_URI_FLAGS_ENCODED, NULL);
  g_autofree char *origin = url != NULL ? endpoint_origin (url) : NULL;
  if (g_strcmp0 (origin, self->origin) == 0)
    *out_url = g_steal_pointer (&url);
  else if (url != NULL && self->is_mirror && g_str_has_prefix (url, HF_ENDPOINT "/"))
    *out_url = g_strconcat (self->endpoint, url + strlen (HF_ENDPOINT), NULL);
  return *out_url != NULL
         || am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer",
                     "the hub's list of files goes on at another host");
}

static gboolean
get_tree (Ctx *ctx, HfHub *self, const HfInfo *info, GArray *files, GError **error)
{
  HfAsked asked = { info->id, info->commit, NULL };
  g_autoptr (GHashTable) visited = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autofree char *url = g_strdup_printf ("%s/api/models/%s/tree/%s?recursive=true", self->endpoint, info->id,
                                          info->commit);
  while (url != NULL)
    {
      g_auto (HttpReply) reply = { 0 };
      if (!g_hash_table_add (visited, g_strdup (url)) || g_hash_table_size (visited) > MAX_PAGES)
        return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer", "the hub's list of files has no end");
      if (!get_document (ctx, self, url, &asked, &reply, error))
        return FALSE;
      g_clear_pointer (&url, g_free);
      if (!hf_tree_parse (reply.body, files, error) || !next_page (self, &reply, &url, error))
        {
          g_prefix_error (error, "%s/%s: ", self->endpoint, info->id);
          return FALSE;
        }
    }
  return TRUE;
}

/* A listing that lacks files would become a model that lacks them. */
static gboolean
check_complete (const HfHub *self, const HfInfo *info, const GArray *files, GError **error)
{
  g_autoptr (GHashTable) listed = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < files->len; i++)
    {
      const HfFile *file = &g_array_index (files, HfFile, i);
      if (file->size_bytes == G_MAXUINT64)
        return am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubIncomplete",
                        "%s/%s: the hub does not say how large %s is", self->endpoint, info->id, file->path);
      g_hash_table_add (listed, file->path);
    }
  for (guint i = 0; i < info->files->len; i++)
    {
      const char *path = g_array_index (info->files, HfFile, i).path;
      if (!g_hash_table_contains (listed, path))
        return am_fail (error, AM_ERROR_UNAVAILABLE, "HubIncomplete",
                        "%s/%s: the hub's list of files is not complete: %s is "
                        "missing in it",
                        self->endpoint, info->id, path);
    }
  return TRUE;
}

/* Mirrors may lack the tree; then the model's card has sizes and hashes too. */
static GArray *
get_files (Ctx *ctx, HfHub *self, const HfInfo *info, GError **error)
{
  g_autoptr (GArray) files = hf_files_new ();
  g_autoptr (GError) failure = NULL;
  if (get_tree (ctx, self, info, files, &failure))
    return g_steal_pointer (&files);
  if (!self->is_mirror
      || (!am_error_is (failure, AM_ERROR_NOT_FOUND) && !am_error_is (failure, AM_ERROR_UNIMPLEMENTED)))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return NULL;
    }
  g_autoptr (HfInfo) full = get_info (ctx, self, info->id, info->commit, "?blobs=true", error);
  return full != NULL ? g_array_ref (full->files) : NULL;
}

HfInfo *
hf_hub_find (Ctx *ctx, HfHub *self, HfUrl *url, GError **error)
{
  g_autoptr (HfInfo) info = NULL;
  g_autoptr (GError) first = NULL;
  while (info == NULL)
    {
      g_autoptr (GError) failure = NULL;
      info = get_info (ctx, self, url->repository, url->revision, "", &failure);
      gboolean go_on = info != NULL || (am_error_has_reason (failure, "HubRevisionNotFound") && hf_url_widen (url));
      if (first == NULL)
        first = g_steal_pointer (&failure);
      if (go_on)
        continue;
      g_propagate_error (error, g_steal_pointer (&first));
      return NULL;
    }
  g_autoptr (GArray) files = get_files (ctx, self, info, error);
  if (files == NULL || !check_complete (self, info, files, error))
    return NULL;
  g_array_unref (info->files);
  info->files = g_steal_pointer (&files);
  return g_steal_pointer (&info);
}
