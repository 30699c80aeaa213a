/* Listing a bucket in the order of the keys' bytes. Some stores list as a walk through folders would ("a/b" before
 * "a-b"): there each folder is listed by itself, and its names are sorted. */
#include "storage/object_store_s3_private.h"

#include <string.h>

#include "base/file.h"
#include "storage/s3_listing.h"

/* What others put into the bucket that no key of the port can name is not there. */
static gboolean
is_key (const char *key)
{
  return key[0] != '.' && strchr (key, '/') != NULL && path_is_safe (key);
}

static void
add_object (GPtrArray *out, const S3Object *object)
{
  ObjectInfo *info = g_new0 (ObjectInfo, 1);
  *info = (ObjectInfo){ g_strdup (object->key), object->size_bytes, object->modified_ms };
  g_ptr_array_add (out, info);
}

static gboolean
list_flat (Ctx *ctx, S3Client *client, const char *prefix, const char *after, guint limit, GPtrArray *out,
           GError **error)
{
  g_autofree char *token = NULL;
  do
    {
      g_auto (S3Listing) page = { 0 };
      S3ListCall call = { .prefix = prefix, .after = after, .token = token, .limit = limit - out->len };
      if (!s3_list_page (ctx, client, &call, &page, error))
        return FALSE;
      for (guint i = 0; i < page.objects->len && out->len < limit; i++)
        {
          const S3Object *object = &g_array_index (page.objects, S3Object, i);
          if (is_key (object->key))
            add_object (out, object);
        }
      g_free (token);
      token = g_steal_pointer (&page.next_token);
    }
  while (token != NULL && out->len < limit);
  return TRUE;
}

/* An object, or a folder, whose key ends with '/'. */
static gint
compare_entries (gconstpointer a, gconstpointer b)
{
  return strcmp (((const S3Object *) a)->key, ((const S3Object *) b)->key);
}

static void
clear_entry (gpointer data)
{
  g_free (((S3Object *) data)->key);
}

/* All that lies in one folder, sorted. */
static GArray *
list_folder (Ctx *ctx, S3Client *client, const char *folder, GError **error)
{
  g_autoptr (GArray) entries = g_array_new (FALSE, TRUE, sizeof (S3Object));
  g_autofree char *token = NULL;
  g_array_set_clear_func (entries, clear_entry);
  do
    {
      g_auto (S3Listing) page = { 0 };
      S3ListCall call = { .prefix = folder, .delimiter = "/", .token = token, .limit = S3_XML_MAX_KEYS };
      if (!s3_list_page (ctx, client, &call, &page, error))
        return NULL;
      for (guint i = 0; i < page.objects->len; i++)
        {
          S3Object *object = &g_array_index (page.objects, S3Object, i);
          g_array_append_val (entries, *object);
          object->key = NULL; /* handed over */
        }
      for (guint i = 0; i < page.folders->len; i++)
        {
          S3Object entry = { .key = g_strdup (g_ptr_array_index (page.folders, i)) };
          g_array_append_val (entries, entry);
        }
      g_free (token);
      token = g_steal_pointer (&page.next_token);
    }
  while (token != NULL);
  g_array_sort (entries, compare_entries);
  return g_steal_pointer (&entries);
}

static gboolean
walk_folder (Ctx *ctx, S3Client *client, const char *folder, const char *after, guint limit, GPtrArray *out,
             GError **error)
{
  g_autoptr (GArray) entries = list_folder (ctx, client, folder, error);
  if (entries == NULL)
    return FALSE;
  for (guint i = 0; i < entries->len && out->len < limit; i++)
    {
      const S3Object *entry = &g_array_index (entries, S3Object, i);
      gboolean is_folder = g_str_has_suffix (entry->key, "/");
      gboolean inside = is_folder && after != NULL && g_str_has_prefix (after, entry->key);
      if (strcmp (entry->key, folder) == 0 || (after != NULL && !inside && strcmp (entry->key, after) <= 0))
        continue;
      if (is_folder && !walk_folder (ctx, client, entry->key, inside ? after : NULL, limit, out, error))
        return FALSE;
      if (!is_folder && is_key (entry->key))
        add_object (out, entry);
    }
  return TRUE;
}

static void
free_info (gpointer data)
{
  object_info_free (data);
}

GPtrArray *
s3_store_list (Ctx *ctx, ObjectStore *base, const char *prefix, const char *after, guint limit, GError **error)
{
  S3Store *self = (S3Store *) base;
  g_autoptr (GPtrArray) out = g_ptr_array_new_with_free_func (free_info);
  gboolean done = self->profile.byte_order ? list_flat (ctx, self->client, prefix, after, limit, out, error)
                                           : walk_folder (ctx, self->client, prefix, after, limit, out, error);
  return done ? g_steal_pointer (&out) : NULL;
}

GPtrArray *
s3_store_list_any (Ctx *ctx, ObjectStore *base, const char *prefix, char **cursor, GError **error)
{
  S3Store *self = (S3Store *) base;
  g_auto (S3Listing) page = { 0 };
  S3ListCall call = { .prefix = prefix, .token = *cursor, .limit = S3_XML_MAX_KEYS };
  if (!s3_list_page (ctx, self->client, &call, &page, error))
    return NULL;
  GPtrArray *out = g_ptr_array_new_with_free_func (free_info);
  for (guint i = 0; i < page.objects->len; i++)
    {
      const S3Object *object = &g_array_index (page.objects, S3Object, i);
      if (is_key (object->key))
        add_object (out, object);
    }
  g_free (*cursor);
  *cursor = g_steal_pointer (&page.next_token);
  return out;
}
