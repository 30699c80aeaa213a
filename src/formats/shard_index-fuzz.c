/* Any bytes as a shard index: refused with a reason, or a sorted map from distinct tensors to safe files. The
 * same bytes as a file name: parsed the same way as part of a path. */
#include "formats/shard_index.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/foreign_name.h"
#include "formats/shard_name.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_index (const ShardIndex *index)
{
  guint n_entries = 0;
  for (guint i = 0; i < index->files->len; i++)
    {
      g_assert_true (path_is_safe (index->files->pdata[i]));
      g_assert_true (shard_index_names (index, index->files->pdata[i]));
      g_assert_cmpuint (index->n_entries[i], >, 0);
      n_entries += index->n_entries[i];
    }
  g_assert_cmpuint (n_entries, ==, index->entries->len);
  for (guint i = 1; i < index->entries->len; i++)
    {
      const ShardEntry *entry = &g_array_index (index->entries, ShardEntry, i);
      g_assert_cmpint (
        foreign_name_compare (entry[-1].tensor, entry[-1].tensor_size, entry->tensor, entry->tensor_size), <, 0);
    }
  g_assert_true (shard_index_check_files (index, index->files, NULL));
}

static void
check_name (const guint8 *data, gsize size)
{
  ShardName shard, within;
  g_autofree char *name = g_strndup ((const char *) data, size);
  if (!shard_name_parse (name, &shard))
    return;
  g_assert_true (shard.no >= 1 && shard.no <= shard.count && shard.count <= 999999);
  g_assert_true (shard.stem_size < strlen (name) && *shard.rest == '.');
  g_assert_true (shard_name_same_set (name, name));
  g_autofree char *path = g_strconcat ("folder/", name, NULL);
  g_assert_true (shard_name_parse (path, &within));
  g_assert_cmpuint (within.no, ==, shard.no);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ShardIndex) index = shard_index_parse ((const char *) data, size, &error);
  if (index != NULL)
    check_index (index);
  else
    g_assert_nonnull (am_error_reason (error));
  check_name (data, size);
  return 0;
}
