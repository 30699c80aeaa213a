#include "storage/object_store_s3.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "storage/object_store_s3_private.h"
#include "storage/s3_listing.h"
#include "storage/s3_multipart.h"
#include "storage/s3_reply.h"
#include "storage/store_marker.h"

#define N_AT_ONCE 16u /* each waits for an answer; connections are kept */

static gboolean
s3_stat (Ctx *ctx, ObjectStore *base, const char *key, ObjectInfo *out_info, GError **error)
{
  S3Store *self = (S3Store *) base;
  g_auto (HttpReply) reply = { 0 };
  S3Call call = { .method = "HEAD", .key = key };
  g_autoptr (GError) problem = NULL;
  gint64 modified_s;
  guint64 size_bytes;
  if (!s3_client_call (ctx, self->client, &call, &reply, &problem))
    {
      if (am_error_is (problem, AM_ERROR_NOT_FOUND))
        return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "there is no object %s", key);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  const char *length = http_reply_header (&reply, "content-length");
  if (length == NULL || !text_parse_u64 (length, &size_bytes)
      || !s3_http_date_parse (http_reply_header (&reply, "last-modified"), &modified_s))
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "object %s: the object store does not say its size and age",
                    key);
  out_info->size_bytes = size_bytes;
  out_info->modified_ms = modified_s * 1000;
  return TRUE;
}

static gboolean
s3_remove (Ctx *ctx, ObjectStore *base, const char *key, GError **error)
{
  S3Store *self = (S3Store *) base;
  S3Call call = { .method = "DELETE", .key = key };
  g_autoptr (GError) problem = NULL;
  if (s3_client_call (ctx, self->client, &call, NULL, &problem) || am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

typedef struct {
  ObjectStore *store;
  const char *const *keys;
} Removal;

static gboolean
remove_one (Ctx *ctx, gpointer data, guint index, GError **error)
{
  const Removal *self = data;
  return s3_remove (ctx, self->store, self->keys[index], error);
}

static gboolean
remove_each (Ctx *ctx, ObjectStore *base, const char *const *keys, gsize n_keys, GError **error)
{
  Removal removal = { base, keys };
  return object_store_each (ctx, base, (guint) n_keys, remove_one, &removal, error);
}

/* One that the store refuses for the moment makes a batch fail; alone it is tried again. */
static gboolean
s3_remove_many (Ctx *ctx, ObjectStore *base, const char *const *keys, gsize n_keys, GError **error)
{
  S3Store *self = (S3Store *) base;
  g_autoptr (GError) problem = NULL;
  if (self->profile.batch_delete && s3_remove_batch (ctx, self->client, keys, n_keys, &problem))
    return TRUE;
  if (problem == NULL || am_error_is (problem, AM_ERROR_UNAVAILABLE))
    return remove_each (ctx, base, keys, n_keys, error);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

/* An acknowledged write lasts. */
static gboolean
s3_sync (Ctx *ctx, ObjectStore *base, const char *const *keys, gsize n_keys, GError **error)
{
  return TRUE;
}

static void
s3_free (ObjectStore *base)
{
  S3Store *self = (S3Store *) base;
  s3_client_free (self->client);
  for (gsize i = 0; i < S3_N_GATES; i++)
    g_mutex_clear (&self->gates[i]);
  g_free (self);
}

ObjectStore *
s3_store_new (S3Client *client, const S3Profile *profile)
{
  static const ObjectStoreClass klass = {
    .open = s3_store_open,
    .stat = s3_stat,
    .create = s3_store_create,
    .create_at = s3_store_create_at,
    .remove = s3_remove,
    .list = s3_store_list,
    .sync = s3_sync,
    .remove_many = s3_remove_many,
    .open_head = s3_store_open_head,
    .list_any = s3_store_list_any,
    .n_at_once = N_AT_ONCE,
    .parts = &s3_store_parts,
    .free = s3_free,
  };
  S3Store *self = g_new0 (S3Store, 1);
  self->base.klass = &klass;
  self->client = client;
  self->profile = *profile;
  for (gsize i = 0; i < S3_N_GATES; i++)
    g_mutex_init (&self->gates[i]);
  return &self->base;
}

/* The marker; NULL without an error: there is none. */
static GBytes *
read_marker (Ctx *ctx, S3Client *client, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) problem = NULL;
  S3Call call = { .method = "GET", .key = STORE_MARKER };
  if (s3_client_call (ctx, client, &call, &reply, &problem))
    return g_steal_pointer (&reply.body);
  if (!am_error_is (problem, AM_ERROR_NOT_FOUND))
    g_propagate_error (error, g_steal_pointer (&problem));
  return NULL;
}

/* Whether the place is a store. With `create` it may become one. */
static gboolean
check_marker (Ctx *ctx, S3Client *client, const char *place, gboolean create, gboolean *out_found, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) text = read_marker (ctx, client, &problem);
  *out_found = text != NULL;
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (text != NULL)
    return store_marker_check (text, "the marker " STORE_MARKER, place, error);
  return create || am_fail (error, AM_ERROR_NOT_FOUND, NULL, "%s is not a model store", place);
}

/* Several may do so at once: all write the same. */
static gboolean
write_marker (Ctx *ctx, S3Client *client, GError **error)
{
  S3Call call = {
    .method = "PUT", .key = STORE_MARKER, .body = STORE_MARKER_TEXT, .body_size = strlen (STORE_MARKER_TEXT)
  };
  return s3_client_call (ctx, client, &call, NULL, error);
}

/* What processes that died left behind takes space, and nothing else. */
static void
sweep (Ctx *ctx, S3Client *client)
{
  g_autoptr (GError) problem = NULL;
  guint n_aborted = 0;
  if (!s3_multipart_sweep (ctx, client, "", g_get_real_time () / 1000 - S3_UPLOAD_TTL_MS, &n_aborted, &problem))
    am_ignore (&problem, "the next start tries again");
  if (n_aborted > 0)
    am_log_info (ctx, "uploads in parts that nobody ended are dropped", "number", AM_U64 (n_aborted), NULL);
}

ObjectStore *
object_store_s3_new (Ctx *ctx, const char *url, gboolean create, GError **error)
{
  g_auto (S3Config) config = { 0 };
  S3Profile profile;
  gboolean found;
  if (!s3_config_parse (url, &config, error))
    return NULL;
  g_autoptr (S3Client) client = s3_client_new (&config, error);
  g_autofree char *place = g_strconcat (S3_SCHEME, config.bucket, "/", config.prefix, NULL);
  if (client == NULL || !check_marker (ctx, client, place, create, &found, error)
      || !s3_probe (ctx, client, &profile, error))
    return NULL;
  if (!found && !write_marker (ctx, client, error))
    return NULL;
  if (profile.writable)
    sweep (ctx, client);
  return s3_store_new (g_steal_pointer (&client), &profile);
}
