#include "formats/safetensors.h"

#include <string.h>

#include "formats/format_error.h"
#include "formats/json_scan.h"
#include "formats/sniff.h"
#include "formats/foreign_name.h"

static const SafetensorsDtypeInfo dtypes[SAFETENSORS_N_DTYPES] = {
  [SAFETENSORS_F4] = { "F4", 4, NULL, TRUE },
  [SAFETENSORS_F6_E2M3] = { "F6_E2M3", 6, NULL, TRUE },
  [SAFETENSORS_F6_E3M2] = { "F6_E3M2", 6, NULL, TRUE },
  [SAFETENSORS_BOOL] = { "BOOL", 8, "bool", FALSE },
  [SAFETENSORS_U8] = { "U8", 8, "uint8", FALSE },
  [SAFETENSORS_I8] = { "I8", 8, "int8", FALSE },
  [SAFETENSORS_F8_E4M3] = { "F8_E4M3", 8, "float8_e4m3", TRUE },
  [SAFETENSORS_F8_E5M2] = { "F8_E5M2", 8, "float8_e5m2", TRUE },
  [SAFETENSORS_F8_E8M0] = { "F8_E8M0", 8, NULL, TRUE },
  [SAFETENSORS_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 8, NULL, TRUE },
  [SAFETENSORS_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 8, NULL, TRUE },
  [SAFETENSORS_I16] = { "I16", 16, "int16", FALSE },
  [SAFETENSORS_U16] = { "U16", 16, "uint16", FALSE },
  [SAFETENSORS_F16] = { "F16", 16, "float16", TRUE },
  [SAFETENSORS_BF16] = { "BF16", 16, "bfloat16", TRUE },
  [SAFETENSORS_I32] = { "I32", 32, "int32", FALSE },
  [SAFETENSORS_U32] = { "U32", 32, "uint32", FALSE },
  [SAFETENSORS_F32] = { "F32", 32, "float32", TRUE },
  [SAFETENSORS_I64] = { "I64", 64, "int64", FALSE },
  [SAFETENSORS_U64] = { "U64", 64, "uint64", FALSE },
  [SAFETENSORS_F64] = { "F64", 64, "float64", TRUE },
  [SAFETENSORS_C64] = { "C64", 64, "complex64", TRUE },
};

const SafetensorsDtypeInfo *
safetensors_dtype_info (SafetensorsDtype dtype)
{
  g_assert (dtype < SAFETENSORS_N_DTYPES);
  return &dtypes[dtype];
}

void
safetensors_header_free (SafetensorsHeader *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->tensors, g_array_unref);
  g_clear_pointer (&self->by_name, g_ptr_array_unref);
  g_clear_pointer (&self->metadata, g_array_unref);
  g_clear_pointer (&self->dims, g_array_unref);
  g_clear_pointer (&self->strings, g_string_chunk_free);
  g_free (self);
}

static SafetensorsHeader *
header_new (void)
{
  SafetensorsHeader *self = g_new0 (SafetensorsHeader, 1);
  self->tensors = g_array_new (FALSE, FALSE, sizeof (SafetensorsTensor));
  self->by_name = g_ptr_array_new ();
  self->metadata = g_array_new (FALSE, FALSE, sizeof (SafetensorsMetadata));
  self->dims = g_array_sized_new (FALSE, FALSE, sizeof (guint64), 64); /* never NULL */
  self->strings = g_string_chunk_new (4096);
  return self;
}

static gboolean
fail_tensor (const SafetensorsTensor *tensor, const char *what, GError **error)
{
  g_autofree char *name = foreign_name_show (tensor->name, tensor->name_size);
  return format_fail (error, "tensor %s: %s", name, what);
}

static gboolean
parse_dtype (JsonScan *scan, SafetensorsTensor *tensor, GError **error)
{
  const char *text;
  gsize size;
  if (!json_scan_string (scan, &text, &size, error))
    return FALSE;
  for (guint i = 0; i < SAFETENSORS_N_DTYPES; i++)
    if (json_scan_is (text, size, dtypes[i].name))
      {
        tensor->dtype = (SafetensorsDtype) i;
        return TRUE;
      }
  g_autofree char *dtype = foreign_name_show (text, size);
  g_autofree char *what = g_strdup_printf ("unknown dtype %s", dtype);
  return fail_tensor (tensor, what, error);
}

static gboolean
parse_shape (SafetensorsHeader *self, JsonScan *scan, SafetensorsTensor *tensor, GError **error)
{
  gboolean more;
  guint64 dim;
  if (!json_scan_open (scan, '[', error))
    return FALSE;
  while (json_scan_next (scan, ']', &more, error) && more)
    {
      if (!json_scan_u64 (scan, &dim, error))
        return FALSE;
      g_array_append_val (self->dims, dim);
      tensor->n_dims++;
    }
  return !more;
}

static gboolean
parse_offsets (JsonScan *scan, SafetensorsTensor *tensor, GError **error)
{
  guint64 offsets[2];
  guint n = 0;
  gboolean more;
  if (!json_scan_open (scan, '[', error))
    return FALSE;
  while (json_scan_next (scan, ']', &more, error) && more)
    {
      if (n == 2)
        return fail_tensor (tensor, "data_offsets must be two numbers", error);
      if (!json_scan_u64 (scan, &offsets[n++], error))
        return FALSE;
    }
  if (more)
    return FALSE;
  if (n != 2 || offsets[0] > offsets[1])
    return fail_tensor (tensor, "data_offsets must be two numbers, the first not above the second", error);
  tensor->begin_bytes = offsets[0];
  tensor->end_bytes = offsets[1];
  return TRUE;
}

/* Elements and bytes, multiplied with care in the order the reference does. */
static gboolean
check_tensor_size (const SafetensorsHeader *self, SafetensorsTensor *tensor, gsize first_dim, GError **error)
{
  guint64 n_elements = 1, n_bits;
  for (guint32 i = 0; i < tensor->n_dims; i++)
    if (__builtin_mul_overflow (n_elements, g_array_index (self->dims, guint64, first_dim + i), &n_elements))
      return fail_tensor (tensor, "the product of its shape overflows", error);
  if (__builtin_mul_overflow (n_elements, dtypes[tensor->dtype].bits, &n_bits))
    return fail_tensor (tensor, "its size overflows", error);
  if (n_bits % 8 != 0)
    return fail_tensor (tensor, "its elements do not fill whole bytes", error);
  if (n_bits / 8 != tensor->end_bytes - tensor->begin_bytes)
    {
      g_autofree char *what = g_strdup_printf ("shape and dtype need %" G_GUINT64_FORMAT
                                               " bytes, data_offsets give %" G_GUINT64_FORMAT,
                                               n_bits / 8, tensor->end_bytes - tensor->begin_bytes);
      return fail_tensor (tensor, what, error);
    }
  tensor->n_elements = n_elements;
  return TRUE;
}

enum { MEMBER_DTYPE = 1, MEMBER_SHAPE = 2, MEMBER_OFFSETS = 4, MEMBERS_ALL = 7 };

static gboolean
parse_member (SafetensorsHeader *self, JsonScan *scan, SafetensorsTensor *tensor, guint *seen, GError **error)
{
  static const struct {
    const char *name;
    guint bit;
  } members[] = {
    { "dtype", MEMBER_DTYPE },
    { "shape", MEMBER_SHAPE },
    { "data_offsets", MEMBER_OFFSETS },
  };
  const char *key;
  gsize key_size;
  guint bit = 0;
  if (!json_scan_key (scan, &key, &key_size, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (members); i++)
    if (json_scan_is (key, key_size, members[i].name))
      bit = members[i].bit;
  if (bit == 0)
    return fail_tensor (tensor, "it has a member other than dtype, shape and data_offsets", error);
  if (*seen & bit)
    return fail_tensor (tensor, "it has the same member twice", error);
  *seen |= bit;
  if (bit == MEMBER_DTYPE)
    return parse_dtype (scan, tensor, error);
  return bit == MEMBER_SHAPE ? parse_shape (self, scan, tensor, error) : parse_offsets (scan, tensor, error);
}

static gboolean
parse_tensor (SafetensorsHeader *self, JsonScan *scan, const char *name, gsize name_size, GError **error)
{
  SafetensorsTensor tensor = {
    .name = g_string_chunk_insert_len (self->strings, name, (gssize) name_size),
    .name_size = name_size,
  };
  gsize first_dim = self->dims->len;
  guint seen = 0;
  gboolean more;
  if (self->tensors->len == SAFETENSORS_MAX_TENSORS)
    return format_fail_limit (error, "more than %d tensors", SAFETENSORS_MAX_TENSORS);
  if (!json_scan_open (scan, '{', error))
    return FALSE;
  while (json_scan_next (scan, '}', &more, error) && more)
    if (!parse_member (self, scan, &tensor, &seen, error))
      return FALSE;
  if (more)
    return FALSE;
  if (seen != MEMBERS_ALL)
    return fail_tensor (&tensor, "dtype, shape or data_offsets is missing", error);
  if (!check_tensor_size (self, &tensor, first_dim, error))
    return FALSE;
  g_array_append_val (self->tensors, tensor);
  return TRUE;
}

static int
compare_metadata (gconstpointer a, gconstpointer b)
{
  return strcmp ((*(const SafetensorsMetadata *const *) a)->key, (*(const SafetensorsMetadata *const *) b)->key);
}

static gboolean
check_metadata_keys (const SafetensorsHeader *self, GError **error)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_sized_new (self->metadata->len);
  for (guint i = 0; i < self->metadata->len; i++)
    g_ptr_array_add (sorted, &g_array_index (self->metadata, SafetensorsMetadata, i));
  g_ptr_array_sort (sorted, compare_metadata);
  for (guint i = 1; i < sorted->len; i++)
    if (compare_metadata (&sorted->pdata[i - 1], &sorted->pdata[i]) == 0)
      return format_fail (error, "__metadata__ has a key twice");
  return TRUE;
}

static gboolean
parse_metadata (SafetensorsHeader *self, JsonScan *scan, GError **error)
{
  const char *text;
  gsize size;
  gboolean more;
  if (!json_scan_open (scan, '{', error))
    return FALSE;
  while (json_scan_next (scan, '}', &more, error) && more)
    {
      SafetensorsMetadata pair;
      if (!json_scan_key (scan, &text, &size, error))
        return FALSE;
      pair.key = g_string_chunk_insert_len (self->strings, text, (gssize) size);
      if (json_scan_peek (scan) != '"')
        return format_fail (error, "__metadata__ may hold strings only");
      if (!json_scan_string (scan, &text, &size, error))
        return FALSE;
      pair.value = g_string_chunk_insert_len (self->strings, text, (gssize) size);
      g_array_append_val (self->metadata, pair);
    }
  return !more && check_metadata_keys (self, error);
}

static gboolean
parse_entries (SafetensorsHeader *self, JsonScan *scan, GError **error)
{
  gboolean more, has_metadata = FALSE;
  const char *key;
  gsize key_size;
  if (!json_scan_open (scan, '{', error))
    return FALSE;
  while (json_scan_next (scan, '}', &more, error) && more)
    {
      if (!json_scan_key (scan, &key, &key_size, error))
        return FALSE;
      gboolean is_metadata = json_scan_is (key, key_size, "__metadata__");
      if (is_metadata && has_metadata)
        return format_fail (error, "__metadata__ is there twice");
      if (!(is_metadata ? parse_metadata (self, scan, error) : parse_tensor (self, scan, key, key_size, error)))
        return FALSE;
      has_metadata |= is_metadata;
    }
  return !more && json_scan_end (scan, error);
}

static int
compare_offsets (gconstpointer pa, gconstpointer pb)
{
  const SafetensorsTensor *a = pa, *b = pb;
  if (a->begin_bytes != b->begin_bytes)
    return a->begin_bytes < b->begin_bytes ? -1 : 1;
  return a->end_bytes < b->end_bytes ? -1 : a->end_bytes > b->end_bytes;
}

static int
compare_by_name (gconstpointer pa, gconstpointer pb)
{
  const SafetensorsTensor *a = *(const SafetensorsTensor *const *) pa;
  const SafetensorsTensor *b = *(const SafetensorsTensor *const *) pb;
  return foreign_name_compare (a->name, a->name_size, b->name, b->name_size);
}

/* Sorted by offset, every tensor begins where the one before ended: no hole, overlap or alias. */
static gboolean
check_coverage (SafetensorsHeader *self, GError **error)
{
  guint64 end = 0;
  for (guint i = 0; i < self->tensors->len; i++)
    {
      const SafetensorsTensor *tensor = &g_array_index (self->tensors, SafetensorsTensor, i);
      if (tensor->begin_bytes != end)
        return fail_tensor (
          tensor, tensor->begin_bytes > end ? "there is a hole before it" : "it overlaps another tensor", error);
      end = tensor->end_bytes;
    }
  self->data_bytes = end;
  return TRUE;
}

/* Sorting, not hashing: a stranger chooses the names, and could choose them to collide. */
static gboolean
check_names (SafetensorsHeader *self, GError **error)
{
  for (guint i = 0; i < self->tensors->len; i++)
    g_ptr_array_add (self->by_name, &g_array_index (self->tensors, SafetensorsTensor, i));
  g_ptr_array_sort (self->by_name, compare_by_name);
  for (guint i = 1; i < self->by_name->len; i++)
    if (compare_by_name (&self->by_name->pdata[i - 1], &self->by_name->pdata[i]) == 0)
      return fail_tensor (self->by_name->pdata[i], "it is there twice", error);
  return TRUE;
}

SafetensorsHeader *
safetensors_parse (const char *json, gsize size, GError **error)
{
  g_autoptr (SafetensorsHeader) self = header_new ();
  g_auto (JsonScan) scan = { 0 };
  if (!g_utf8_validate_len (json, size, NULL))
    {
      format_fail (error, "the header is not UTF-8 text");
      return NULL;
    }
  json_scan_init (&scan, json, size);
  self->leading_space = json_scan_peek (&scan) == '{' && scan.pos > 0;
  if (!parse_entries (self, &scan, error))
    {
      g_prefix_error (error, "bad safetensors header: ");
      return NULL;
    }
  gsize first_dim = 0;
  for (guint i = 0; i < self->tensors->len; i++)
    {
      SafetensorsTensor *tensor = &g_array_index (self->tensors, SafetensorsTensor, i);
      tensor->dims = &g_array_index (self->dims, guint64, first_dim);
      first_dim += tensor->n_dims;
    }
  g_array_sort (self->tensors, compare_offsets);
  self->header_bytes = 8 + size;
  if (!check_coverage (self, error) || !check_names (self, error))
    {
      g_prefix_error (error, "bad safetensors header: ");
      return NULL;
    }
  return g_steal_pointer (&self);
}

/* The header's length, once it is known to be sane and inside the file. */
static gboolean
read_header_size (Ctx *ctx, Reader *reader, gsize *out_size, GError **error)
{
  guint8 head[SNIFF_BYTES];
  gsize head_size = (gsize) MIN (reader->size_bytes, sizeof head);
  guint64 header_bytes;
  if (!reader_read_at (ctx, reader, 0, head, head_size, error)
      || !sniff_expect (SNIFF_SAFETENSORS, head, head_size, error))
    return FALSE;
  if (head_size < 8)
    return format_fail (error, "too small for a safetensors file: %" G_GSIZE_FORMAT " bytes", head_size);
  memcpy (&header_bytes, head, sizeof header_bytes);
  header_bytes = GUINT64_FROM_LE (header_bytes);
  if (header_bytes > SAFETENSORS_MAX_HEADER_BYTES)
    return format_fail (error, "header too large: it says %" G_GUINT64_FORMAT " bytes, at most %d are allowed",
                        header_bytes, SAFETENSORS_MAX_HEADER_BYTES);
  if (header_bytes > reader->size_bytes - 8)
    return format_fail (error,
                        "truncated header: it says %" G_GUINT64_FORMAT " bytes, the file has %" G_GUINT64_FORMAT
                        " behind its length",
                        header_bytes, reader->size_bytes - 8);
  *out_size = (gsize) header_bytes;
  return TRUE;
}

static gboolean
check_file_size (const SafetensorsHeader *self, guint64 size_bytes, GError **error)
{
  guint64 expected;
  if (__builtin_add_overflow (self->header_bytes, self->data_bytes, &expected))
    return format_fail (error, "the size of all tensors overflows");
  if (size_bytes < expected)
    return format_fail (error,
                        "truncated: the header says %" G_GUINT64_FORMAT " bytes, the file has %" G_GUINT64_FORMAT,
                        expected, size_bytes);
  if (size_bytes > expected)
    return format_fail (error,
                        "%" G_GUINT64_FORMAT
                        " surplus bytes behind the last tensor: the header says %" G_GUINT64_FORMAT
                        ", the file has %" G_GUINT64_FORMAT,
                        size_bytes - expected, expected, size_bytes);
  return TRUE;
}

SafetensorsHeader *
safetensors_read (Ctx *ctx, Reader *reader, GError **error)
{
  gsize size;
  if (!read_header_size (ctx, reader, &size, error))
    return NULL;
  g_autofree char *json = g_malloc (size + 1);
  if (!reader_read_at (ctx, reader, 8, json, size, error))
    return NULL;
  g_autoptr (SafetensorsHeader) self = safetensors_parse (json, size, error);
  if (self == NULL || !check_file_size (self, reader->size_bytes, error))
    return NULL;
  return g_steal_pointer (&self);
}

const SafetensorsTensor *
safetensors_find (const SafetensorsHeader *self, const char *name, gsize name_size)
{
  guint low = 0, high = self->by_name->len;
  while (low < high)
    {
      guint middle = low + (high - low) / 2;
      const SafetensorsTensor *tensor = self->by_name->pdata[middle];
      int order = foreign_name_compare (tensor->name, tensor->name_size, name, name_size);
      if (order == 0)
        return tensor;
      if (order < 0)
        low = middle + 1;
      else
        high = middle;
    }
  return NULL;
}

const char *
safetensors_metadata (const SafetensorsHeader *self, const char *key)
{
  for (guint i = 0; i < self->metadata->len; i++)
    {
      const SafetensorsMetadata *pair = &g_array_index (self->metadata, SafetensorsMetadata, i);
      if (strcmp (pair->key, key) == 0)
        return pair->value;
    }
  return NULL;
}
