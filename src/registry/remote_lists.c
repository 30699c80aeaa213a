/* Lists that a registry tells in pages, and the list of tags. */
#include "registry/remote.h"

#include <string.h>

#include "base/json.h"
#include "oci/reference.h"
#include "storage/repository_links.h"

#define PAGE_LENGTH 1000
#define MAX_PAGES 1000u
#define PAGE_MAX_BYTES (4u << 20)

/* The target of `<...>; rel="next"` in a Link header, as it is written; NULL when there is none. */
static char *
link_target (const char *link)
{
  for (const char *at = link; at != NULL && (at = strchr (at, '<')) != NULL;)
    {
      const char *end = strchr (at, '>');
      if (end == NULL)
        return NULL;
      const char *next = strchr (end, '<');
      g_autofree char *parameters = g_strndup (end + 1, next == NULL ? strlen (end + 1) : (gsize) (next - end - 1));
      if (strstr (parameters, "rel=\"next\"") != NULL || strstr (parameters, "rel=next") != NULL)
        return g_strndup (at + 1, (gsize) (end - at - 1));
      at = end;
    }
  return NULL;
}

/* The address of the next page in `*out_url` (caller frees), NULL behind the last one. One that leads away from the
 * registry is an error: half a list is no list. */
static gboolean
find_next_page (Remote *self, const HttpReply *reply, const char *url, char **out_url, GError **error)
{
  g_autofree char *target = link_target (http_reply_header (reply, "link"));
  g_autofree char *next = target == NULL ? NULL : g_uri_resolve_relative (url, target, G_URI_FLAGS_ENCODED, NULL);
  *out_url = NULL;
  if (target == NULL)
    return TRUE;
  if (next == NULL || !registry_client_is_home (self->client, next))
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                    "%s: the registry says that its list goes on at another host; it was not asked",
                    self->base.display);
  if (strcmp (next, url) != 0)
    *out_url = g_steal_pointer (&next);
  return TRUE;
}

gboolean
remote_read_pages (Ctx *ctx, Remote *self, const char *url, TakePage take, GPtrArray *items, GError **error)
{
  g_autofree char *at = g_strdup (url);
  for (guint page = 0; at != NULL && page < MAX_PAGES; page++)
    {
      HttpCall call = { .method = "GET", .url = at, .reply_limit_bytes = PAGE_MAX_BYTES };
      g_auto (HttpReply) reply = { 0 };
      g_autofree char *next = NULL;
      if (!registry_client_call (ctx, self->client, REGISTRY_PULL, &call, &reply, error)
          || !take (self, &reply, items, error) || !find_next_page (self, &reply, at, &next, error))
        return FALSE;
      g_free (at);
      at = g_steal_pointer (&next);
    }
  return at == NULL
         || am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s: the list has more than %u pages",
                     self->base.display, MAX_PAGES);
}

static gboolean
take_tags (Remote *self, const HttpReply *reply, GPtrArray *tags, GError **error)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (reply->body, &size);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, PAGE_MAX_BYTES, JSON_STRICT, error);
  if (doc == NULL)
    {
      g_prefix_error (error, "%s: list of tags: ", self->base.display);
      return FALSE;
    }
  yyjson_arr_iter iter = { 0 };
  yyjson_val *array = json_get_array (yyjson_doc_get_root (doc), "tags");
  if (array != NULL)
    yyjson_arr_iter_init (array, &iter);
  for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
    if (yyjson_is_str (item) && tag_name_check (yyjson_get_str (item), NULL))
      g_ptr_array_add (tags, g_strdup (yyjson_get_str (item)));
  return tags->len <= REPOSITORY_MAX_TAGS
         || am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s has more than %u tags", self->base.display,
                     REPOSITORY_MAX_TAGS);
}

static int
by_bytes (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

static void
sort_and_unite (GPtrArray *texts)
{
  g_ptr_array_sort (texts, by_bytes);
  for (guint i = texts->len; i > 1; i--)
    if (strcmp (g_ptr_array_index (texts, i - 1), g_ptr_array_index (texts, i - 2)) == 0)
      g_ptr_array_remove_index (texts, i - 1);
}

GPtrArray *
remote_list_tags (Ctx *ctx, Repository *base, GError **error)
{
  Remote *self = (Remote *) base;
  g_autoptr (GPtrArray) tags = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *url = registry_client_url (self->client, "tags/list?n=%d", PAGE_LENGTH);
  if (!remote_read_pages (ctx, self, url, take_tags, tags, error))
    return NULL;
  sort_and_unite (tags);
  return g_steal_pointer (&tags);
}
