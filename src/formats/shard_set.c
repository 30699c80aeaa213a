#include "formats/shard_set.h"

#include <string.h>

#include "base/error.h"
#include "formats/foreign_name.h"
#include "formats/shard_name.h"

#define fail_mismatch(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ShardMismatch", __VA_ARGS__)
#define fail_missing(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ShardMissing", __VA_ARGS__)

/* The set's name as people read it: "model-*-of-00003.gguf". */
static char *
show_set (const char *path)
{
  ShardName shard;
  if (!shard_name_parse (path, &shard))
    return g_strdup (path);
  return g_strdup_printf ("%.*s-*-of-%05u%s", (int) shard.stem_size, path, shard.count, shard.rest);
}

gboolean
shard_set_check_names (const GPtrArray *paths, GError **error)
{
  ShardName shard;
  if (paths->len == 0 || !shard_name_parse (paths->pdata[0], &shard))
    return TRUE;
  g_autofree guint8 *seen = g_malloc0 (shard.count + 1); /* at most 999999: it has six digits */
  g_autofree char *set = show_set (paths->pdata[0]);
  for (guint i = 0; i < paths->len; i++)
    {
      ShardName one;
      gboolean same = shard_name_same_set (paths->pdata[0], paths->pdata[i])
                      && shard_name_parse (paths->pdata[i], &one);
      g_assert (same);
      if (seen[one.no]++)
        return fail_mismatch (error, "%s: part %u is there twice", set, one.no);
    }
  g_autoptr (GString) missing = g_string_new (NULL);
  guint n_missing = 0;
  for (guint no = 1; no <= shard.count; no++)
    if (!seen[no] && n_missing++ < 5)
      g_string_append_printf (missing, "%s%u", n_missing > 1 ? ", " : "", no);
  if (n_missing == 0)
    return TRUE;
  return fail_missing (error, "%s: %u of %u parts are missing: %s%s", set, n_missing, shard.count, missing->str,
                       n_missing > 5 ? ", ..." : "");
}

typedef struct {
  const char *name;
  gsize name_size;
  guint part;
} NamedTensor;

static int
compare_tensors (gconstpointer pa, gconstpointer pb)
{
  const NamedTensor *a = pa, *b = pb;
  return foreign_name_compare (a->name, a->name_size, b->name, b->name_size);
}

static gboolean
check_unique (GArray *tensors, const ShardPart *parts, GError **error)
{
  g_array_sort (tensors, compare_tensors);
  for (guint i = 1; i < tensors->len; i++)
    {
      const NamedTensor *tensor = &g_array_index (tensors, NamedTensor, i);
      if (compare_tensors (&tensor[-1], tensor) != 0)
        continue;
      g_autofree char *name = foreign_name_show (tensor->name, tensor->name_size);
      return fail_mismatch (error, "tensor %s is both in %s and in %s", name, parts[tensor[-1].part].path,
                            parts[tensor->part].path);
    }
  return TRUE;
}

gboolean
shard_set_check_safetensors (const ShardPart *parts, guint n_parts, GError **error)
{
  g_autoptr (GArray) tensors = g_array_new (FALSE, FALSE, sizeof (NamedTensor));
  for (guint i = 0; i < n_parts; i++)
    for (guint j = 0; j < parts[i].safetensors->by_name->len; j++)
      {
        const SafetensorsTensor *tensor = parts[i].safetensors->by_name->pdata[j];
        NamedTensor named = { tensor->name, tensor->name_size, i };
        g_array_append_val (tensors, named);
      }
  return check_unique (tensors, parts, error);
}

static gboolean
check_gguf_tensors (const ShardPart *parts, guint n_parts, guint64 n_promised, GError **error)
{
  g_autoptr (GArray) tensors = g_array_new (FALSE, FALSE, sizeof (NamedTensor));
  for (guint i = 0; i < n_parts; i++)
    for (guint j = 0; j < parts[i].gguf->tensors->len; j++)
      {
        const GgufTensor *tensor = &g_array_index (parts[i].gguf->tensors, GgufTensor, j);
        NamedTensor named = { tensor->name, tensor->name_size, i };
        g_array_append_val (tensors, named);
      }
  if (n_promised != 0 && n_promised != tensors->len)
    return fail_mismatch (error, "%s: split.tensors.count is %" G_GUINT64_FORMAT ", the parts hold %u tensors",
                          parts[0].path, n_promised, tensors->len);
  return check_unique (tensors, parts, error);
}

/* The part's own numbers against the set's. `*n_promised` grows to the set's number of tensors. */
static gboolean
check_part (const ShardPart *part, guint n_parts, guint64 *n_promised, GError **error)
{
  GgufSplit split;
  ShardName shard;
  if (!gguf_split (part->gguf, &split, error))
    {
      g_prefix_error (error, "%s: ", part->path);
      return FALSE;
    }
  if (split.count < 2 && n_parts > 1)
    return fail_mismatch (error, "%s: it is no part of a split model, though its name says so", part->path);
  if (split.count < 2)
    return TRUE;
  if (n_parts == 1)
    return fail_missing (error,
                         "%s: it is part %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                         " of a split model, and the others are missing",
                         part->path, split.no + 1, split.count);
  if (split.count != n_parts)
    return fail_mismatch (error, "%s: split.count is %" G_GUINT64_FORMAT ", but there are %u parts", part->path,
                          split.count, n_parts);
  if (!shard_name_parse (part->path, &shard) || shard.no != split.no + 1)
    return fail_mismatch (error, "%s: split.no is %" G_GUINT64_FORMAT ", which its name contradicts", part->path,
                          split.no);
  if (split.no == 0 && gguf_string (part->gguf, "general.architecture") == NULL)
    return fail_mismatch (error, "%s: the first part of a split model lacks its metadata", part->path);
  *n_promised = MAX (*n_promised, split.n_tensors_in_all);
  return TRUE;
}

gboolean
shard_set_check_gguf (const ShardPart *parts, guint n_parts, GError **error)
{
  guint64 n_promised = 0;
  for (guint i = 0; i < n_parts; i++)
    if (!check_part (&parts[i], n_parts, &n_promised, error))
      return FALSE;
  return check_gguf_tensors (parts, n_parts, n_promised, error);
}
