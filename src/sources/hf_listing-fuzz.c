/* The hub's answers: what is accepted has safe names, hashes of the right form and sizes that can be added up. The
 * input is also read as a Link header, and the files are searched for a variant. */
#include "sources/hf_variant.h"

#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_files (const GArray *files)
{
  g_assert_cmpuint (files->len, <=, HF_MAX_FILES);
  for (guint i = 0; i < files->len; i++)
    {
      const HfFile *file = &g_array_index (files, HfFile, i);
      g_assert_true (path_is_safe (file->path));
      g_assert_true (file->size_bytes == G_MAXUINT64 || file->size_bytes <= G_MAXINT64);
      g_assert_true (file->sha256 == NULL || (strlen (file->sha256) == 64 && file->blob_id == NULL));
      g_assert_true (file->blob_id == NULL || strlen (file->blob_id) == 40);
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) json = g_bytes_new_static (data, size);
  g_autofree char *header = g_strndup ((const char *) data, size);
  g_autoptr (GArray) files = hf_files_new ();
  g_autoptr (HfInfo) info = hf_info_parse (json, size % 2 == 1, NULL);
  g_autofree char *next = hf_link_next (header);
  hf_tree_parse (json, files, NULL);
  check_files (files);
  const char *meant = hf_variant_find (files, "q4_k_m", NULL);
  g_assert_true (meant == NULL || g_str_has_suffix (meant, "f") || g_str_has_suffix (meant, "F"));
  if (info != NULL)
    check_files (info->files);
  g_assert_true (next == NULL || (strchr (next, '>') == NULL && strstr (header, next) != NULL));
  return 0;
}
