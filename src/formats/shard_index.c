#include "formats/shard_index.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "formats/foreign_name.h"
#include "formats/format_error.h"
#include "formats/json_scan.h"
#include "formats/shard_name.h"

#define SHOWN_NAMES 5 /* of a list in a message */

void
shard_index_free (ShardIndex *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->files, g_ptr_array_unref);
  g_clear_pointer (&self->entries, g_array_unref);
  g_clear_pointer (&self->strings, g_string_chunk_free);
  g_free (self->n_entries);
  g_free (self);
}

gboolean
shard_index_is_name (const char *path, gboolean with_bin)
{
  if (!g_str_has_suffix (path, ".json"))
    return FALSE;
  return strstr (path, ".safetensors.index.") != NULL || (with_bin && strstr (path, ".bin.index.") != NULL);
}

gsize
shard_index_folder_size (const char *path)
{
  const char *slash = strrchr (path, '/');
  return slash != NULL ? (gsize) (slash + 1 - path) : 0;
}

/* An entry while it is read: the file still by name. */
typedef struct {
  const char *tensor;
  gsize tensor_size;
  const char *file;
} RawEntry;

typedef struct {
  ShardIndex *index;
  GArray *raw; /* of RawEntry */
  gboolean has_map, has_metadata;
} Parser;

static const char *
keep_file (Parser *parser, const char *file, gsize size)
{
  /* Neighbours mostly lie in the same file. */
  const char *last = parser->raw->len > 0 ? g_array_index (parser->raw, RawEntry, parser->raw->len - 1).file : "";
  return json_scan_is (file, size, last) ? last
                                         : g_string_chunk_insert_len (parser->index->strings, file, (gssize) size);
}

static gboolean
parse_entry (Parser *parser, JsonScan *scan, GError **error)
{
  RawEntry entry;
  const char *text;
  gsize size;
  if (!json_scan_key (scan, &text, &entry.tensor_size, error))
    return FALSE;
  if (parser->raw->len == SAFETENSORS_MAX_TENSORS)
    return format_fail_limit (error, "more than %d tensors", SAFETENSORS_MAX_TENSORS);
  entry.tensor = g_string_chunk_insert_len (parser->index->strings, text, (gssize) entry.tensor_size);
  if (!json_scan_string (scan, &text, &size, error))
    return FALSE;
  entry.file = keep_file (parser, text, size);
  if (strlen (entry.file) != size || !path_is_safe (entry.file))
    return format_fail (error, "weight_map names a file outside the model's folder");
  g_array_append_val (parser->raw, entry);
  return TRUE;
}

static gboolean
parse_map (Parser *parser, JsonScan *scan, GError **error)
{
  gboolean more;
  if (parser->has_map)
    return format_fail (error, "weight_map is there twice");
  parser->has_map = TRUE;
  if (!json_scan_open (scan, '{', error))
    return FALSE;
  while (json_scan_next (scan, '}', &more, error) && more)
    if (!parse_entry (parser, scan, error))
      return FALSE;
  return !more;
}

/* `total_size` may be absent, a float, a string or wrong: only a plain integer is taken. */
static gboolean
parse_metadata (Parser *parser, JsonScan *scan, GError **error)
{
  const char *key;
  gsize key_size;
  gboolean more;
  if (json_scan_peek (scan) != '{')
    return json_scan_skip (scan, error);
  if (!json_scan_open (scan, '{', error))
    return FALSE;
  while (json_scan_next (scan, '}', &more, error) && more)
    {
      if (!json_scan_key (scan, &key, &key_size, error))
        return FALSE;
      gboolean is_total = json_scan_is (key, key_size, "total_size");
      json_scan_peek (scan);
      gsize start = scan->pos;
      if (!json_scan_skip (scan, error))
        return FALSE;
      if (is_total)
        {
          g_autofree char *value = g_strndup (scan->text + start, scan->pos - start);
          parser->index->has_total_size = text_parse_u64 (value, &parser->index->total_size_bytes);
        }
    }
  return !more;
}

static gboolean
parse_document (Parser *parser, JsonScan *scan, GError **error)
{
  const char *key;
  gsize key_size;
  gboolean more, good;
  if (!json_scan_open (scan, '{', error))
    return FALSE;
  while (json_scan_next (scan, '}', &more, error) && more)
    {
      if (!json_scan_key (scan, &key, &key_size, error))
        return FALSE;
      if (json_scan_is (key, key_size, "weight_map"))
        good = parse_map (parser, scan, error);
      else if (json_scan_is (key, key_size, "metadata"))
        good = parse_metadata (parser, scan, error);
      else
        good = json_scan_skip (scan, error);
      if (!good)
        return FALSE;
    }
  if (more || !json_scan_end (scan, error))
    return FALSE;
  return parser->has_map || format_fail (error, "weight_map is missing");
}

static int
compare_raw_files (gconstpointer pa, gconstpointer pb)
{
  const RawEntry *a = pa, *b = pb;
  return a->file == b->file ? 0 : strcmp (a->file, b->file);
}

static int
compare_entries (gconstpointer pa, gconstpointer pb)
{
  const ShardEntry *a = pa, *b = pb;
  return foreign_name_compare (a->tensor, a->tensor_size, b->tensor, b->tensor_size);
}

/* Sorting, not hashing: a stranger chooses the names. */
static gboolean
build_entries (Parser *parser, GError **error)
{
  ShardIndex *self = parser->index;
  g_array_sort (parser->raw, compare_raw_files);
  for (guint i = 0; i < parser->raw->len; i++)
    {
      const RawEntry *raw = &g_array_index (parser->raw, RawEntry, i);
      if (i == 0 || compare_raw_files (&raw[-1], raw) != 0)
        g_ptr_array_add (self->files, (gpointer) raw->file);
      if (self->files->len > SHARD_INDEX_MAX_FILES)
        return format_fail_limit (error, "weight_map names more than %d files", SHARD_INDEX_MAX_FILES);
      ShardEntry entry = { raw->tensor, raw->tensor_size, self->files->len - 1 };
      g_array_append_val (self->entries, entry);
    }
  self->n_entries = g_new0 (guint, self->files->len + 1);
  g_array_sort (self->entries, compare_entries);
  for (guint i = 0; i < self->entries->len; i++)
    {
      const ShardEntry *entry = &g_array_index (self->entries, ShardEntry, i);
      self->n_entries[entry->file]++;
      if (i > 0 && compare_entries (&entry[-1], entry) == 0)
        return format_fail (error, "weight_map has a tensor twice");
    }
  return TRUE;
}

ShardIndex *
shard_index_parse (const char *text, gsize size, GError **error)
{
  g_autoptr (ShardIndex) self = g_new0 (ShardIndex, 1);
  self->files = g_ptr_array_new ();
  self->entries = g_array_new (FALSE, FALSE, sizeof (ShardEntry));
  self->strings = g_string_chunk_new (4096);
  g_autoptr (GArray) raw = g_array_new (FALSE, FALSE, sizeof (RawEntry));
  g_auto (JsonScan) scan = { 0 };
  Parser parser = { .index = self, .raw = raw };
  if (size >= 3 && memcmp (text, "\xef\xbb\xbf", 3) == 0)
    {
      text += 3;
      size -= 3;
    }
  if (!g_utf8_validate_len (text, size, NULL))
    {
      format_fail (error, "the shard index is not UTF-8 text");
      return NULL;
    }
  json_scan_init (&scan, text, size);
  if (!parse_document (&parser, &scan, error) || !build_entries (&parser, error))
    {
      g_prefix_error (error, "bad shard index: ");
      return NULL;
    }
  return g_steal_pointer (&self);
}

ShardIndex *
shard_index_read (Ctx *ctx, Reader *reader, GError **error)
{
  if (reader->size_bytes > SHARD_INDEX_MAX_BYTES)
    {
      format_fail_limit (error, "the shard index is larger than %d bytes", SHARD_INDEX_MAX_BYTES);
      return NULL;
    }
  gsize size = (gsize) reader->size_bytes;
  g_autofree char *text = g_malloc (size + 1);
  if (!reader_read_at (ctx, reader, 0, text, size, error))
    return NULL;
  return shard_index_parse (text, size, error);
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* Index of `name` in a list that ascends by strcmp; -1 when it is not there. */
static int
find_name (const GPtrArray *names, const char *name)
{
  if (names->len == 0)
    return -1;
  const gpointer *found = bsearch (&name, names->pdata, names->len, sizeof (gpointer), compare_names);
  return found != NULL ? (int) (found - names->pdata) : -1;
}

gboolean
shard_index_names (const ShardIndex *self, const char *file)
{
  return find_name (self->files, file) >= 0;
}

static void
append_name (GString *list, guint *n, const char *name)
{
  if (*n < SHOWN_NAMES)
    g_string_append_printf (list, "%s%s", *n > 0 ? ", " : "", name);
  else if (*n == SHOWN_NAMES)
    g_string_append (list, ", ...");
  (*n)++;
}

gboolean
shard_index_check_files (const ShardIndex *self, const GPtrArray *present, GError **error)
{
  g_autoptr (GString) missing = g_string_new (NULL), others = g_string_new (NULL);
  guint n_missing = 0, n_others = 0;
  for (guint i = 0; i < self->files->len; i++)
    if (find_name (present, self->files->pdata[i]) < 0)
      append_name (missing, &n_missing, self->files->pdata[i]);
  if (n_missing == 0)
    return TRUE;
  for (guint i = 0; i < present->len; i++)
    {
      ShardName shard;
      if (shard_name_parse (present->pdata[i], &shard) && !shard_index_names (self, present->pdata[i]))
        append_name (others, &n_others, present->pdata[i]);
    }
  if (n_missing == self->files->len && n_others > 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "StaleIndex",
                    "the shard index is stale: it names %u files (%s), the folder has %u others (%s)", n_missing,
                    missing->str, n_others, others->str);
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ShardMissing",
                  "%u of %u shards that the index names are missing: %s%s%s", n_missing, self->files->len,
                  missing->str, n_others > 0 ? "; the index does not name " : "", others->str);
}

static const ShardEntry *
find_entry (const ShardIndex *self, const SafetensorsTensor *tensor)
{
  ShardEntry wanted = { tensor->name, tensor->name_size, 0 };
  if (self->entries->len == 0)
    return NULL;
  return bsearch (&wanted, self->entries->data, self->entries->len, sizeof wanted, compare_entries);
}

static gboolean
fail_mismatch (const char *file, const char *tensor, gsize tensor_size, const char *what, GError **error)
{
  g_autofree char *name = foreign_name_show (tensor, tensor_size);
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ShardMismatch", "%s: tensor %s %s", file, name, what);
}

gboolean
shard_index_check_header (const ShardIndex *self, const char *file, const SafetensorsHeader *header, GError **error)
{
  int number = find_name (self->files, file);
  if (number < 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ShardMismatch", "%s is not named by the shard index", file);
  for (guint i = 0; i < header->by_name->len; i++)
    {
      const SafetensorsTensor *tensor = header->by_name->pdata[i];
      const ShardEntry *entry = find_entry (self, tensor);
      if (entry == NULL)
        return fail_mismatch (file, tensor->name, tensor->name_size, "is not in the shard index", error);
      if (entry->file != (guint) number)
        return fail_mismatch (file, tensor->name, tensor->name_size, "belongs to another shard by the index", error);
    }
  if (header->by_name->len == self->n_entries[number])
    return TRUE;
  for (guint i = 0; i < self->entries->len; i++)
    {
      const ShardEntry *entry = &g_array_index (self->entries, ShardEntry, i);
      if (entry->file == (guint) number && safetensors_find (header, entry->tensor, entry->tensor_size) == NULL)
        return fail_mismatch (file, entry->tensor, entry->tensor_size, "is in the index, but not in the file", error);
    }
  g_assert_not_reached (); /* names are unique on both sides */
}
