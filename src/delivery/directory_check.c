#include "delivery/directory_check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define BLOCK_BYTES (1u << 20)
#define MAX_FOLDER_DEPTH 64

typedef struct {
  const char *directory;
  GHashTable *layers; /* path -> ModelpackLayer, borrowed */
  guint n_found;
} Check;

static gboolean
is_expected_file (Check *self, const char *path, const struct stat *info)
{
  const ModelpackLayer *layer = g_hash_table_lookup (self->layers, path);
  return layer != NULL && S_ISREG (info->st_mode) && (guint64) info->st_size == layer->descriptor->size_bytes;
}

/* `*out_agrees`: everything below `folder` (relative, "" at the top) is a file of the artifact of the right size. */
static gboolean
names_and_sizes_agree (Check *self, const char *folder, int depth, gboolean *out_agrees, GError **error)
{
  struct stat info;
  g_autofree char *full = g_build_filename (self->directory, folder, NULL);
  g_autoptr (GPtrArray) names = file_list_dir (full, error);
  if (names == NULL)
    return FALSE;
  *out_agrees = depth <= MAX_FOLDER_DEPTH;
  for (guint i = 0; i < names->len && *out_agrees; i++)
    {
      const char *name = names->pdata[i];
      g_autofree char *path = *folder == '\0' ? g_strdup (name) : g_strdup_printf ("%s/%s", folder, name);
      g_autofree char *place = g_build_filename (self->directory, path, NULL);
      if (lstat (place, &info) < 0)
        return am_fail_errno (error, errno, "cannot look at %s", place);
      if (S_ISREG (info.st_mode) && file_name_is_nfs_remnant (name) && !g_hash_table_contains (self->layers, path))
        continue;
      if (!S_ISDIR (info.st_mode))
        *out_agrees = is_expected_file (self, path, &info);
      else if (!names_and_sizes_agree (self, path, depth + 1, out_agrees, error))
        return FALSE;
      self->n_found += !S_ISDIR (info.st_mode);
    }
  return TRUE;
}

static gboolean
digest_agrees (Ctx *ctx, const char *directory, const ModelpackLayer *layer, const TransferEvents *events,
               gboolean *out_agrees, GError **error)
{
  g_autofree char *path = g_build_filename (directory, layer->path, NULL);
  g_autoptr (Reader) reader = reader_new_file (path, error);
  if (reader == NULL)
    return FALSE;
  g_autoptr (Hasher) hasher = hasher_new (layer->descriptor->digest.algorithm);
  g_autofree guint8 *block = g_malloc (BLOCK_BYTES);
  Digest actual;
  for (guint64 offset = 0; offset < reader->size_bytes;)
    {
      gsize n = (gsize) MIN ((guint64) BLOCK_BYTES, reader->size_bytes - offset);
      if (!ctx_check (ctx, error) || !reader_read_at (ctx, reader, offset, block, n, error))
        return FALSE;
      hasher_update (hasher, block, n);
      transfer_bytes (events, n, 0);
      offset += n;
    }
  hasher_finish (hasher, &actual);
  *out_agrees = digest_equal (&actual, &layer->descriptor->digest);
  return TRUE;
}

gboolean
directory_holds_artifact (Ctx *ctx, const char *directory, const Artifact *artifact, const TransferEvents *events,
                          gboolean *out_holds, GError **error)
{
  g_autoptr (GHashTable) layers = g_hash_table_new (g_str_hash, g_str_equal);
  GArray *all = artifact->model->layers;
  *out_holds = FALSE;
  for (guint i = 0; i < all->len; i++)
    {
      ModelpackLayer *layer = &g_array_index (all, ModelpackLayer, i);
      if (layer->codec != MODELPACK_RAW)
        return TRUE;
      g_hash_table_insert (layers, layer->path, layer);
    }
  Check check = { directory, layers, 0 };
  gboolean agrees = FALSE;
  if (!names_and_sizes_agree (&check, "", 0, &agrees, error))
    return FALSE;
  if (!agrees || check.n_found != all->len)
    return TRUE;
  transfer_plan (events, artifact->total_bytes, all->len);
  for (guint i = 0; i < all->len && agrees; i++)
    if (!digest_agrees (ctx, directory, &g_array_index (all, ModelpackLayer, i), events, &agrees, error))
      return FALSE;
  *out_holds = agrees;
  return TRUE;
}
