#include "formats/gguf.h"

#include <string.h>

#include "formats/format_error.h"
#include "formats/gguf_cursor.h"
#include "formats/sniff.h"
#include "formats/foreign_name.h"

#define MAGIC 0x46554747 /* "GGUF", little-endian */
#define DEFAULT_ALIGNMENT 32
#define MAX_KEY_BYTES 65535
#define MAX_NAME_BYTES 255 /* ggml: 63, but forks are built with more */
#define MAX_DIMS 4
#define MAX_KEPT_BYTES (32 * 1024 * 1024) /* all kept values of a file, their bookkeeping included */
#define KEPT_STRING_COST 64

typedef struct {
  GgufCursor cursor;
  GgufHeader *header;
  gsize n_kept_bytes;
} Parser;

static const struct {
  const char *name;
  gsize size;
} value_types[GGUF_N_VALUE_TYPES] = {
  [GGUF_U8] = { "u8", 1 },         [GGUF_I8] = { "i8", 1 },   [GGUF_U16] = { "u16", 2 }, [GGUF_I16] = { "i16", 2 },
  [GGUF_U32] = { "u32", 4 },       [GGUF_I32] = { "i32", 4 }, [GGUF_F32] = { "f32", 4 }, [GGUF_BOOL] = { "bool", 1 },
  [GGUF_STRING] = { "string", 8 }, /* at least: its length */
  [GGUF_ARRAY] = { "array", 0 },   [GGUF_U64] = { "u64", 8 }, [GGUF_I64] = { "i64", 8 }, [GGUF_F64] = { "f64", 8 },
};

static void
value_clear (gpointer data)
{
  GgufValue *value = data;
  g_clear_pointer (&value->strings, g_ptr_array_unref);
  g_clear_pointer (&value->integers, g_array_unref);
}

void
gguf_header_free (GgufHeader *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->values, g_array_unref);
  g_clear_pointer (&self->tensors, g_array_unref);
  g_clear_pointer (&self->strings, g_string_chunk_free);
  g_free (self);
}

static GgufHeader *
header_new (void)
{
  GgufHeader *self = g_new0 (GgufHeader, 1);
  self->values = g_array_new (FALSE, FALSE, sizeof (GgufValue));
  g_array_set_clear_func (self->values, value_clear);
  self->tensors = g_array_new (FALSE, FALSE, sizeof (GgufTensor));
  self->strings = g_string_chunk_new (4096);
  self->alignment = DEFAULT_ALIGNMENT;
  return self;
}

static gboolean
check_version (guint32 version, GError **error)
{
  if ((version & 0xffff) == 0 && version != 0)
    return format_fail (error, "this is a big-endian GGUF file; only little-endian ones are supported");
  if (version == 1)
    return format_fail (error, "GGUF version 1 is obsolete: convert the file to version 3");
  if (version != 2 && version != 3)
    return format_fail (error, "unsupported GGUF version %u: 2 and 3 are known", version);
  return TRUE;
}

static gboolean
check_count (guint64 count, guint64 limit, guint64 min_bytes, const Parser *parser, const char *what, GError **error)
{
  if (count > limit)
    return format_fail_limit (error, "%" G_GUINT64_FORMAT " %s, at most %" G_GUINT64_FORMAT " are allowed", count,
                              what, limit);
  if (count > (parser->cursor.file_bytes - MIN (parser->cursor.pos, parser->cursor.file_bytes)) / min_bytes)
    return format_fail (error, "truncated GGUF header: %" G_GUINT64_FORMAT " %s do not fit into the file", count,
                        what);
  return TRUE;
}

static gboolean
parse_string_size (Parser *parser, gsize limit, const char *what, gsize *out_size, GError **error)
{
  guint64 size;
  if (!gguf_cursor_u64 (&parser->cursor, &size, error))
    return FALSE;
  if (size > limit)
    return format_fail_limit (error, "%s of %" G_GUINT64_FORMAT " bytes, at most %" G_GSIZE_FORMAT " are allowed",
                              what, size, limit);
  if (!check_count (size, size, 1, parser, "bytes of a string", error))
    return FALSE;
  *out_size = (gsize) size;
  return TRUE;
}

/* FALSE when so much is kept already that these should not be. */
static gboolean
keep_bytes (Parser *parser, gsize size)
{
  if (size > MAX_KEPT_BYTES - parser->n_kept_bytes)
    return FALSE;
  parser->n_kept_bytes += size;
  return TRUE;
}

/* Keeps the string, or walks over it when it or all of them together are too long to be of use. */
static gboolean
parse_string (Parser *parser, GPtrArray *keep, gboolean *out_kept, GError **error)
{
  gsize size = 0;
  *out_kept = FALSE;
  if (!parse_string_size (parser, GGUF_MAX_STRING_BYTES, "a string", &size, error))
    return FALSE;
  if (keep == NULL || size > GGUF_KEPT_STRING_BYTES || !keep_bytes (parser, size + KEPT_STRING_COST))
    return gguf_cursor_skip (&parser->cursor, size, error);
  g_autofree char *text = g_malloc (size + 1);
  if (!gguf_cursor_copy (&parser->cursor, text, size, error))
    return FALSE;
  text[size] = '\0';
  *out_kept = TRUE;
  g_ptr_array_add (keep, g_steal_pointer (&text));
  return TRUE;
}

static gint64
clamp_unsigned (guint64 value)
{
  return value > G_MAXINT64 ? G_MAXINT64 : (gint64) value;
}

/* One element of an integer or float type; integers go to `*out_integer`. */
static void
decode_number (GgufValueType type, const guint8 *bytes, gint64 *out_integer, double *out_number)
{
  guint64 raw = 0;
  guint32 raw32;
  memcpy (&raw, bytes, value_types[type].size);
  raw = GUINT64_FROM_LE (raw);
  raw32 = (guint32) raw;
  *out_number = 0;
  *out_integer = 0;
  switch (type)
    {
    case GGUF_I8: *out_integer = (gint8) raw; break;
    case GGUF_I16: *out_integer = (gint16) raw; break;
    case GGUF_I32: *out_integer = (gint32) raw; break;
    case GGUF_I64: *out_integer = (gint64) raw; break;
    case GGUF_BOOL: *out_integer = raw != 0; break;
    case GGUF_F64: memcpy (out_number, &raw, sizeof *out_number); break;
      case GGUF_F32: {
        float number;
        memcpy (&number, &raw32, sizeof number);
        *out_number = (double) number;
        break;
      }
    default: *out_integer = clamp_unsigned (raw);
    }
}

static gboolean
is_float (GgufValueType type)
{
  return type == GGUF_F32 || type == GGUF_F64;
}

static gboolean
parse_number (Parser *parser, GgufValue *value, GError **error)
{
  gint64 integer;
  const guint8 *bytes = gguf_cursor_take (&parser->cursor, value_types[value->type].size, error);
  if (bytes == NULL)
    return FALSE;
  decode_number (value->type, bytes, &integer, &value->number);
  if (is_float (value->type))
    return TRUE;
  if (value->integers == NULL)
    value->integers = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_array_append_val (value->integers, integer);
  return TRUE;
}

static gboolean
parse_strings (Parser *parser, GgufValue *value, GError **error)
{
  gboolean keep = value->n <= GGUF_KEPT_ARRAY, kept;
  value->strings = keep ? g_ptr_array_new_with_free_func (g_free) : NULL;
  for (guint64 i = 0; i < value->n; i++)
    {
      if (!parse_string (parser, value->strings, &kept, error))
        return FALSE;
      if (!kept && value->strings != NULL)
        g_clear_pointer (&value->strings, g_ptr_array_unref); /* all of them or none */
    }
  return TRUE;
}

static gboolean
parse_array (Parser *parser, GgufValue *value, GError **error)
{
  guint32 type;
  if (!gguf_cursor_u32 (&parser->cursor, &type, error) || !gguf_cursor_u64 (&parser->cursor, &value->n, error))
    return FALSE;
  if (type >= GGUF_N_VALUE_TYPES)
    return format_fail (error, "key \"%s\": unknown element type %u", value->key, type);
  if (type == GGUF_ARRAY)
    return format_fail (error, "key \"%s\": an array of arrays", value->key);
  value->type = (GgufValueType) type;
  value->is_array = TRUE;
  gsize size = value_types[type].size;
  if (!check_count (value->n, GGUF_MAX_ARRAY, size, parser, "array elements", error))
    return FALSE;
  if (type == GGUF_STRING)
    return parse_strings (parser, value, error);
  if (is_float (value->type) || value->n > GGUF_KEPT_ARRAY || !keep_bytes (parser, value->n * sizeof (gint64)))
    return gguf_cursor_skip (&parser->cursor, value->n * size, error);
  for (guint64 i = 0; i < value->n; i++)
    if (!parse_number (parser, value, error))
      return FALSE;
  return TRUE;
}

static gboolean
parse_key (Parser *parser, const char **out_key, GError **error)
{
  gsize size = 0;
  if (!parse_string_size (parser, MAX_KEY_BYTES, "a key", &size, error))
    return FALSE;
  if (size == 0)
    return format_fail (error, "an empty key");
  g_autofree char *key = g_malloc (size + 1);
  if (!gguf_cursor_copy (&parser->cursor, key, size, error))
    return FALSE;
  key[size] = '\0';
  if (!g_utf8_validate_len (key, size, NULL))
    return format_fail (error, "a key that is not UTF-8 text");
  for (gsize i = 0; i < size; i++)
    if ((guchar) key[i] < 0x20 || key[i] == 0x7f)
      return format_fail (error, "a key with control characters");
  *out_key = g_string_chunk_insert_len (parser->header->strings, key, (gssize) size);
  return TRUE;
}

static gboolean
parse_value (Parser *parser, GgufValue *value, GError **error)
{
  guint32 type;
  gboolean kept;
  if (!gguf_cursor_u32 (&parser->cursor, &type, error))
    return FALSE;
  if (type >= GGUF_N_VALUE_TYPES)
    return format_fail (error, "key \"%s\": unknown value type %u", value->key, type);
  value->type = (GgufValueType) type;
  value->n = 1;
  if (type == GGUF_ARRAY)
    return parse_array (parser, value, error);
  if (type != GGUF_STRING)
    return parse_number (parser, value, error);
  value->strings = g_ptr_array_new_with_free_func (g_free);
  return parse_string (parser, value->strings, &kept, error);
}

static gboolean
parse_pairs (Parser *parser, guint64 n_pairs, GError **error)
{
  for (guint64 i = 0; i < n_pairs; i++)
    {
      GgufValue blank = { 0 };
      if (!parse_key (parser, &blank.key, error))
        return FALSE;
      g_array_append_val (parser->header->values, blank);
      GgufValue *value = &g_array_index (parser->header->values, GgufValue, parser->header->values->len - 1);
      if (!parse_value (parser, value, error))
        return FALSE;
    }
  return TRUE;
}

static int
compare_values (gconstpointer a, gconstpointer b)
{
  return strcmp (((const GgufValue *) a)->key, ((const GgufValue *) b)->key);
}

static gboolean
check_keys (GgufHeader *self, GError **error)
{
  g_array_sort (self->values, compare_values);
  for (guint i = 1; i < self->values->len; i++)
    {
      const GgufValue *value = &g_array_index (self->values, GgufValue, i);
      if (strcmp (value[-1].key, value->key) == 0)
        return format_fail (error, "key \"%s\" is there twice", value->key);
    }
  return TRUE;
}

static gboolean
find_alignment (GgufHeader *self, GError **error)
{
  const GgufValue *value = gguf_find (self, "general.alignment");
  if (value == NULL)
    return TRUE;
  if (value->is_array || value->type != GGUF_U32)
    return format_fail (error, "general.alignment must be a u32");
  guint64 alignment = (guint64) g_array_index (value->integers, gint64, 0);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > GGUF_MAX_ALIGNMENT)
    return format_fail (error, "general.alignment is %" G_GUINT64_FORMAT ": it must be a power of two, at most %d",
                        alignment, GGUF_MAX_ALIGNMENT);
  self->alignment = alignment;
  return TRUE;
}

/* `out_end` of the padding behind `bytes`; FALSE on overflow. */
static gboolean
align_up (guint64 bytes, guint64 alignment, guint64 *out_end)
{
  if (__builtin_add_overflow (bytes, alignment - 1, out_end))
    return FALSE;
  *out_end &= ~(alignment - 1);
  return TRUE;
}

static gboolean
fail_tensor (const GgufTensor *tensor, const char *what, GError **error)
{
  g_autofree char *name = foreign_name_show (tensor->name, tensor->name_size);
  return format_fail (error, "tensor %s: %s", name, what);
}

/* Elements and bytes; nothing is divided by what the file says. */
static gboolean
measure_tensor (GgufTensor *tensor, GError **error)
{
  const GgufTensorType *type = gguf_tensor_type (tensor->type);
  gint64 n_elements = 1;
  for (guint32 i = 0; i < tensor->n_dims; i++)
    if (tensor->dims[i] > G_MAXINT64 || __builtin_mul_overflow (n_elements, (gint64) tensor->dims[i], &n_elements))
      return fail_tensor (tensor, "the product of its dimensions overflows", error);
  tensor->n_elements = (guint64) n_elements;
  if (type->name == NULL)
    return TRUE;
  guint64 row = tensor->n_dims > 0 ? tensor->dims[0] : 1;
  if (row % type->block != 0)
    return fail_tensor (tensor, "its first dimension is not a multiple of its type's block", error);
  if (__builtin_mul_overflow (tensor->n_elements / type->block, type->block_bytes, &tensor->size_bytes))
    return fail_tensor (tensor, "its size overflows", error);
  return TRUE;
}

static gboolean
parse_tensor_name (Parser *parser, GgufTensor *tensor, GError **error)
{
  char name[MAX_NAME_BYTES];
  if (!parse_string_size (parser, MAX_NAME_BYTES, "a tensor name", &tensor->name_size, error)
      || !gguf_cursor_copy (&parser->cursor, name, tensor->name_size, error))
    return FALSE;
  tensor->name = g_string_chunk_insert_len (parser->header->strings, name, (gssize) tensor->name_size);
  return TRUE;
}

static gboolean
parse_tensor (Parser *parser, GError **error)
{
  GgufCursor *cursor = &parser->cursor;
  GgufTensor tensor = { 0 };
  if (!parse_tensor_name (parser, &tensor, error) || !gguf_cursor_u32 (cursor, &tensor.n_dims, error))
    return FALSE;
  if (tensor.n_dims > MAX_DIMS)
    return fail_tensor (&tensor, "it has more than 4 dimensions", error);
  for (guint32 i = 0; i < tensor.n_dims; i++)
    if (!gguf_cursor_u64 (cursor, &tensor.dims[i], error))
      return FALSE;
  if (!gguf_cursor_u32 (cursor, &tensor.type, error) || !gguf_cursor_u64 (cursor, &tensor.offset_bytes, error))
    return FALSE;
  if (tensor.offset_bytes % parser->header->alignment != 0)
    return fail_tensor (&tensor, "its offset is not aligned", error);
  if (!measure_tensor (&tensor, error))
    return FALSE;
  parser->header->n_unknown_types += gguf_tensor_type (tensor.type)->name == NULL;
  g_array_append_val (parser->header->tensors, tensor);
  return TRUE;
}

static int
compare_names (gconstpointer pa, gconstpointer pb)
{
  const GgufTensor *a = *(const GgufTensor *const *) pa, *b = *(const GgufTensor *const *) pb;
  return foreign_name_compare (a->name, a->name_size, b->name, b->name_size);
}

static gboolean
check_names (GgufHeader *self, GError **error)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_sized_new (self->tensors->len);
  for (guint i = 0; i < self->tensors->len; i++)
    g_ptr_array_add (sorted, &g_array_index (self->tensors, GgufTensor, i));
  g_ptr_array_sort (sorted, compare_names);
  for (guint i = 1; i < sorted->len; i++)
    if (compare_names (&sorted->pdata[i - 1], &sorted->pdata[i]) == 0)
      return fail_tensor (sorted->pdata[i], "it is there twice", error);
  return TRUE;
}

static int
compare_offsets (gconstpointer pa, gconstpointer pb)
{
  const GgufTensor *a = pa, *b = pb;
  if (a->offset_bytes != b->offset_bytes)
    return a->offset_bytes < b->offset_bytes ? -1 : 1;
  return a->size_bytes < b->size_bytes ? -1 : a->size_bytes > b->size_bytes;
}

/* No two tensors share a byte, and all ends are within 64 bits. */
static gboolean
check_offsets (GgufHeader *self, GError **error)
{
  guint64 end = 0;
  g_array_sort (self->tensors, compare_offsets);
  for (guint i = 0; i < self->tensors->len; i++)
    {
      const GgufTensor *tensor = &g_array_index (self->tensors, GgufTensor, i);
      if (tensor->offset_bytes < end)
        return fail_tensor (tensor, "it overlaps another tensor", error);
      if (__builtin_add_overflow (tensor->offset_bytes, tensor->size_bytes, &end))
        return fail_tensor (tensor, "its end overflows", error);
    }
  if (__builtin_add_overflow (self->header_bytes, end, &self->end_bytes))
    return format_fail (error, "the end of the tensor data overflows");
  return TRUE;
}

static gboolean
parse_counts (Parser *parser, guint64 *out_tensors, guint64 *out_pairs, GError **error)
{
  GgufCursor *cursor = &parser->cursor;
  guint32 magic;
  if (!gguf_cursor_u32 (cursor, &magic, error))
    return FALSE;
  if (magic != MAGIC)
    return format_fail (error, "this is not a GGUF file: the magic is missing");
  if (!gguf_cursor_u32 (cursor, &parser->header->version, error) || !check_version (parser->header->version, error)
      || !gguf_cursor_u64 (cursor, out_tensors, error) || !gguf_cursor_u64 (cursor, out_pairs, error))
    return FALSE;
  /* The least a tensor takes: name length, dimension count, type, offset; a pair: key length, one byte of
   * key, type, one byte of value. */
  return check_count (*out_tensors, GGUF_MAX_TENSORS, 24, parser, "tensors", error)
         && check_count (*out_pairs, GGUF_MAX_PAIRS, 14, parser, "metadata pairs", error);
}

static gboolean
parse_header (Parser *parser, GError **error)
{
  GgufHeader *self = parser->header;
  guint64 n_tensors, n_pairs;
  if (!parse_counts (parser, &n_tensors, &n_pairs, error) || !parse_pairs (parser, n_pairs, error)
      || !check_keys (self, error) || !find_alignment (self, error))
    return FALSE;
  for (guint64 i = 0; i < n_tensors; i++)
    if (!parse_tensor (parser, error))
      return FALSE;
  if (!align_up (parser->cursor.pos, self->alignment, &self->header_bytes))
    return format_fail (error, "the end of the GGUF header overflows");
  return check_names (self, error) && check_offsets (self, error);
}

/* The last tensor may lack its padding (ollama#8456); more than padding behind it is refused. */
static gboolean
check_file_size (const GgufHeader *self, guint64 header_end, guint64 size_bytes, GError **error)
{
  guint64 end = self->tensors->len > 0 ? self->end_bytes : header_end;
  if (size_bytes < end)
    return format_fail (
      error, "truncated: the GGUF header says %" G_GUINT64_FORMAT " bytes, the file has %" G_GUINT64_FORMAT, end,
      size_bytes);
  if (self->n_unknown_types == 0 && size_bytes - end >= self->alignment)
    return format_fail (error,
                        "%" G_GUINT64_FORMAT
                        " surplus bytes behind the last tensor: the GGUF header says %" G_GUINT64_FORMAT
                        ", the file has %" G_GUINT64_FORMAT,
                        size_bytes - end, end, size_bytes);
  return TRUE;
}

static gboolean
check_head (Ctx *ctx, Reader *reader, GError **error)
{
  guint8 head[SNIFF_BYTES];
  gsize size = (gsize) MIN (reader->size_bytes, sizeof head);
  return reader_read_at (ctx, reader, 0, head, size, error) && sniff_expect (SNIFF_GGUF, head, size, error);
}

GgufHeader *
gguf_read (Ctx *ctx, Reader *reader, GError **error)
{
  if (!check_head (ctx, reader, error))
    return NULL;
  g_autoptr (GgufHeader) self = header_new ();
  Parser parser = { .header = self };
  gguf_cursor_init_reader (&parser.cursor, ctx, reader);
  gboolean good = parse_header (&parser, error)
                  && check_file_size (self, parser.cursor.pos, reader->size_bytes, error);
  gguf_cursor_clear (&parser.cursor);
  return good ? g_steal_pointer (&self) : NULL;
}

GgufHeader *
gguf_parse_prefix (const guint8 *prefix, gsize size, gsize *out_needed_bytes, GError **error)
{
  g_autoptr (GgufHeader) self = header_new ();
  Parser parser = { .header = self };
  gguf_cursor_init_prefix (&parser.cursor, prefix, size);
  *out_needed_bytes = 0;
  if (!parse_header (&parser, error))
    {
      *out_needed_bytes = (gsize) parser.cursor.needed_bytes;
      return NULL;
    }
  if (parser.cursor.pos > size)
    { /* the header ends with an array that was only walked over */
      *out_needed_bytes = (gsize) parser.cursor.pos;
      return NULL;
    }
  return g_steal_pointer (&self);
}

const GgufValue *
gguf_find (const GgufHeader *self, const char *key)
{
  guint low = 0, high = self->values->len;
  while (low < high)
    {
      guint middle = low + (high - low) / 2;
      const GgufValue *value = &g_array_index (self->values, GgufValue, middle);
      int order = strcmp (value->key, key);
      if (order == 0)
        return value;
      if (order < 0)
        low = middle + 1;
      else
        high = middle;
    }
  return NULL;
}

const GgufValue *
gguf_find_arch (const GgufHeader *self, const char *suffix)
{
  const char *architecture = gguf_string (self, "general.architecture");
  if (architecture == NULL)
    return NULL;
  g_autofree char *key = g_strconcat (architecture, ".", suffix, NULL);
  return gguf_find (self, key);
}

const char *
gguf_string (const GgufHeader *self, const char *key)
{
  const GgufValue *value = gguf_find (self, key);
  if (value == NULL || value->is_array || value->strings == NULL || value->strings->len == 0)
    return NULL;
  return value->strings->pdata[0];
}

gboolean
gguf_value_u64 (const GgufValue *value, guint64 *out_value)
{
  if (value == NULL || value->integers == NULL || value->integers->len == 0 || value->type == GGUF_BOOL)
    return FALSE;
  gint64 largest = g_array_index (value->integers, gint64, 0);
  for (guint i = 1; i < value->integers->len; i++)
    largest = MAX (largest, g_array_index (value->integers, gint64, i));
  if (largest < 0)
    return FALSE;
  *out_value = (guint64) largest;
  return TRUE;
}

static gboolean
split_number (const GgufHeader *self, const char *key, guint64 *out_value, GError **error)
{
  const GgufValue *value = gguf_find (self, key);
  *out_value = 0;
  if (value != NULL && (value->is_array || !gguf_value_u64 (value, out_value)))
    return format_fail (error, "%s must be a non-negative integer", key);
  return TRUE;
}

gboolean
gguf_split (const GgufHeader *self, GgufSplit *out_split, GError **error)
{
  GgufSplit split;
  if (!split_number (self, "split.no", &split.no, error) || !split_number (self, "split.count", &split.count, error)
      || !split_number (self, "split.tensors.count", &split.n_tensors_in_all, error))
    return FALSE;
  if (split.count > 1 && split.no >= split.count)
    return format_fail (error, "split.no is %" G_GUINT64_FORMAT ", but split.count is %" G_GUINT64_FORMAT, split.no,
                        split.count);
  *out_split = split;
  return TRUE;
}
