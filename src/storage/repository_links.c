#include "storage/repository_links.h"

#include <string.h>

#include "storage/upload_session.h"

#define LINK_LIMIT_BYTES 256
#define DESCRIPTOR_LIMIT_BYTES (4u << 20)
#define PAGE 1000u
/* A link this old is renewed for whoever may name it; collection goes by twice as much. */
#define LINK_YOUNG_MS (UPLOAD_SESSION_TTL_MS / 2)

static char *
link_key (const char *repository, const char *kind, const Digest *digest)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  return g_strdup_printf (REPOSITORIES_PREFIX "%s/%s/%s/%s/link", repository, kind,
                          digest_algorithm_name (digest->algorithm), digest_hex (digest, hex));
}

static gboolean
put_link (Ctx *ctx, ObjectStore *objects, const char *key, const Digest *digest, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  digest_format (digest, text);
  return object_store_put (ctx, objects, key, text, strlen (text), OBJECT_COMMIT_DEFAULT, error);
}

#define LAYERS "_layers"
#define REVISIONS "_manifests/revisions"

gboolean
layer_link_put (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, GError **error)
{
  g_autofree char *key = link_key (repository, LAYERS, digest);
  return put_link (ctx, objects, key, digest, error);
}

gboolean
layer_link_exists (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, gboolean *out_exists,
                   GError **error)
{
  g_autofree char *key = link_key (repository, LAYERS, digest);
  return object_store_exists (ctx, objects, key, out_exists, error);
}

gboolean
layer_link_claim (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, gboolean *out_exists,
                  GError **error)
{
  g_autofree char *key = link_key (repository, LAYERS, digest);
  g_autoptr (GError) problem = NULL;
  ObjectInfo info;
  gboolean found = object_store_stat (ctx, objects, key, &info, &problem);
  if (found && g_get_real_time () / 1000 - info.modified_ms >= LINK_YOUNG_MS
      && !put_link (ctx, objects, key, digest, &problem)
      && (am_error_is (problem, AM_ERROR_PERMISSION_DENIED) || am_error_is (problem, AM_ERROR_RESOURCE_EXHAUSTED)))
    am_ignore (&problem, "who cannot renew a link cannot put a manifest either");
  if (problem != NULL && !am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  *out_exists = found;
  return TRUE;
}

gboolean
layer_link_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, GError **error)
{
  g_autofree char *key = link_key (repository, LAYERS, digest);
  return object_store_remove (ctx, objects, key, error);
}

gboolean
manifest_link_put (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, GError **error)
{
  g_autofree char *key = link_key (repository, REVISIONS, digest);
  return put_link (ctx, objects, key, digest, error);
}

gboolean
manifest_link_exists (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                      gboolean *out_exists, GError **error)
{
  g_autofree char *key = link_key (repository, REVISIONS, digest);
  return object_store_exists (ctx, objects, key, out_exists, error);
}

gboolean
manifest_link_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest, GError **error)
{
  g_autofree char *key = link_key (repository, REVISIONS, digest);
  return object_store_remove (ctx, objects, key, error);
}

/* Calls `take` for every key below `prefix`; it may set `*skip_to` to jump ahead. */
typedef gboolean (*TakeKey) (const char *rest, gpointer data, char **skip_to, GError **error);

typedef struct {
  const char *prefix;
  const char *after; /* of the rest behind the prefix; NULL: from the first */
  guint page;        /* keys asked for at once */
} KeyWalk;

static gboolean
walk_keys (Ctx *ctx, ObjectStore *objects, const KeyWalk *walk, TakeKey take, gpointer data, GError **error)
{
  const char *prefix = walk->prefix;
  g_autofree char *after = walk->after == NULL ? NULL : g_strconcat (prefix, walk->after, NULL);
  for (;;)
    {
      g_autoptr (GPtrArray) page = object_store_list (ctx, objects, prefix, after, walk->page, error);
      if (page == NULL)
        return FALSE;
      if (page->len == 0)
        return TRUE;
      g_autofree char *skip_to = NULL;
      for (guint i = 0; i < page->len && skip_to == NULL; i++)
        {
          const ObjectInfo *info = g_ptr_array_index (page, i);
          if (!take (info->key + strlen (prefix), data, &skip_to, error))
            return FALSE;
          g_free (after);
          after = g_strdup (info->key);
        }
      if (skip_to != NULL)
        {
          g_free (after);
          after = g_strconcat (prefix, skip_to, NULL);
        }
    }
}

static gboolean
take_manifest (const char *rest, gpointer data, char **skip_to, GError **error)
{
  /* "sha256/<hex>/link" */
  g_auto (GStrv) parts = g_strsplit (rest, "/", 4);
  Digest digest;
  g_autoptr (GError) problem = NULL;
  g_autofree char *text = g_strv_length (parts) == 3 ? g_strdup_printf ("%s:%s", parts[0], parts[1]) : NULL;
  if (digest_parse (text, &digest, &problem))
    g_ptr_array_add (data, g_memdup2 (&digest, sizeof digest));
  else
    am_ignore (&problem, "a foreign object among the manifest links");
  return TRUE;
}

GPtrArray *
manifest_link_list (Ctx *ctx, ObjectStore *objects, const char *repository, GError **error)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *prefix = g_strdup_printf (REPOSITORIES_PREFIX "%s/" REVISIONS "/", repository);
  KeyWalk walk = { prefix, NULL, PAGE };
  return walk_keys (ctx, objects, &walk, take_manifest, found, error) ? g_steal_pointer (&found) : NULL;
}

static char *
tag_key (const char *repository, const char *tag)
{
  return g_strdup_printf (REPOSITORIES_PREFIX "%s/_manifests/tags/%s/current/link", repository, tag);
}

gboolean
tag_put (Ctx *ctx, ObjectStore *objects, const char *repository, const char *tag, const Digest *digest,
         GError **error)
{
  g_autofree char *key = tag_key (repository, tag);
  return put_link (ctx, objects, key, digest, error);
}

gboolean
tag_get (Ctx *ctx, ObjectStore *objects, const char *repository, const char *tag, Digest *out_digest, GError **error)
{
  g_autofree char *key = tag_key (repository, tag);
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) link = object_store_get (ctx, objects, key, LINK_LIMIT_BYTES, &problem);
  if (link == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail (error, AM_ERROR_NOT_FOUND, "MANIFEST_UNKNOWN", "%s has no tag %s", repository, tag);
  if (link == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  g_autofree char *text = g_strndup (g_bytes_get_data (link, NULL), g_bytes_get_size (link));
  if (digest_parse (g_strstrip (text), out_digest, &problem))
    return TRUE;
  return am_fail (error, AM_ERROR_DATA_LOSS, "LinkCorrupt", "the link of tag %s of %s is damaged: %s", tag,
                  repository, problem->message);
}

gboolean
tag_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const char *tag, GError **error)
{
  g_autofree char *key = tag_key (repository, tag);
  return object_store_remove (ctx, objects, key, error);
}

static gint
compare_strings (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static gboolean
take_tag (const char *rest, gpointer data, char **skip_to, GError **error)
{
  GPtrArray *tags = data;
  const char *slash = strchr (rest, '/');
  if (slash == NULL || strcmp (slash, "/current/link") != 0)
    return TRUE;
  if (tags->len >= REPOSITORY_MAX_TAGS)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "more than %u tags", REPOSITORY_MAX_TAGS);
  g_ptr_array_add (tags, g_strndup (rest, (gsize) (slash - rest)));
  return TRUE;
}

GPtrArray *
tag_list (Ctx *ctx, ObjectStore *objects, const char *repository, GError **error)
{
  g_autoptr (GPtrArray) tags = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *prefix = g_strdup_printf (REPOSITORIES_PREFIX "%s/_manifests/tags/", repository);
  KeyWalk walk = { prefix, NULL, PAGE };
  if (!walk_keys (ctx, objects, &walk, take_tag, tags, error))
    return NULL;
  g_ptr_array_sort (tags, compare_strings);
  return g_steal_pointer (&tags);
}

gboolean
repository_exists (Ctx *ctx, ObjectStore *objects, const char *repository, gboolean *out_exists, GError **error)
{
  static const char *const kinds[] = { LAYERS, "_manifests" };
  *out_exists = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (kinds) && !*out_exists; i++)
    {
      g_autofree char *prefix = g_strdup_printf (REPOSITORIES_PREFIX "%s/%s/", repository, kinds[i]);
      g_autoptr (GPtrArray) page = object_store_list (ctx, objects, prefix, NULL, 1, error);
      if (page == NULL)
        return FALSE;
      *out_exists = page->len > 0;
    }
  return TRUE;
}

/* One key of a repository tells its name; the rest of its links is jumped over. */
static gboolean
take_repository (const char *rest, gpointer data, char **skip_to, GError **error)
{
  GHashTable *names = data;
  const char *mark = strstr (rest, "/_");
  if (mark == NULL)
    return TRUE;
  g_hash_table_add (names, g_strndup (rest, (gsize) (mark - rest)));
  *skip_to = g_strdup_printf ("%.*s/_" OBJECT_KEY_BEHIND_ALL, (int) (mark - rest), rest);
  return TRUE;
}

GPtrArray *
repository_list (Ctx *ctx, ObjectStore *objects, GError **error)
{
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  KeyWalk walk = { REPOSITORIES_PREFIX, NULL, 1 };
  if (!walk_keys (ctx, objects, &walk, take_repository, names, error))
    return NULL;
  GPtrArray *sorted = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer name;
  g_hash_table_iter_init (&iter, names);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_ptr_array_add (sorted, g_strdup (name));
  g_ptr_array_sort (sorted, compare_strings);
  return sorted;
}

static char *
referrers_prefix (const char *repository, const Digest *subject)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  return g_strdup_printf (REPOSITORIES_PREFIX "%s/_referrers/%s/%s/", repository,
                          digest_algorithm_name (subject->algorithm), digest_hex (subject, hex));
}

/* "sha256-<hex>": in the same order as the digests' texts. */
static char *
referrer_name (const Digest *referrer)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  return g_strdup_printf ("%s-%s", digest_algorithm_name (referrer->algorithm), digest_hex (referrer, hex));
}

static char *
referrer_key (const char *repository, const Digest *subject, const Digest *referrer)
{
  g_autofree char *prefix = referrers_prefix (repository, subject);
  g_autofree char *name = referrer_name (referrer);
  return g_strconcat (prefix, name, NULL);
}

gboolean
referrer_put (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *subject, const Digest *referrer,
              const char *descriptor, GError **error)
{
  g_autofree char *key = referrer_key (repository, subject, referrer);
  return object_store_put (ctx, objects, key, descriptor, strlen (descriptor), OBJECT_COMMIT_DEFAULT, error);
}

gboolean
referrer_remove (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *subject,
                 const Digest *referrer, GError **error)
{
  g_autofree char *key = referrer_key (repository, subject, referrer);
  return object_store_remove (ctx, objects, key, error);
}

typedef struct {
  Ctx *ctx;
  ObjectStore *objects;
  const char *prefix;
  TakeReferrer take;
  gpointer data;
} ReferrerWalk;

static gboolean
take_referrer (const char *rest, gpointer data, char **skip_to, GError **error)
{
  ReferrerWalk *self = data;
  Digest referrer;
  gboolean goes_on = TRUE;
  g_autoptr (GError) problem = NULL;
  g_autofree char *text = g_strdelimit (g_strdup (rest), "-", ':');
  if (!digest_parse (text, &referrer, &problem))
    {
      am_ignore (&problem, "a foreign object among the referrers");
      return TRUE;
    }
  g_autofree char *key = g_strconcat (self->prefix, rest, NULL);
  g_autoptr (GBytes) descriptor = object_store_get (self->ctx, self->objects, key, DESCRIPTOR_LIMIT_BYTES, &problem);
  if (descriptor == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      am_ignore (&problem, "the referrer was removed meanwhile");
      return TRUE;
    }
  if (descriptor == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (!self->take (&referrer, descriptor, self->data, &goes_on, error))
    return FALSE;
  if (!goes_on)
    *skip_to = g_strdup (OBJECT_KEY_BEHIND_ALL);
  return TRUE;
}

gboolean
referrer_walk (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *subject, const Digest *after,
               TakeReferrer take, gpointer data, GError **error)
{
  g_autofree char *prefix = referrers_prefix (repository, subject);
  g_autofree char *after_name = after == NULL ? NULL : referrer_name (after);
  ReferrerWalk referrers = { ctx, objects, prefix, take, data };
  KeyWalk walk = { prefix, after_name, PAGE };
  return walk_keys (ctx, objects, &walk, take_referrer, &referrers, error);
}
