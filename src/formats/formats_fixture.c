#include "formats/formats_fixture.h"

#include <string.h>

GBytes *
fixture_safetensors (const char *header, guint64 data_bytes)
{
  g_autofree guint8 *zeros = g_malloc0 (data_bytes);
  guint64 size = GUINT64_TO_LE (strlen (header));
  GByteArray *bytes = g_byte_array_new ();
  g_byte_array_append (bytes, (const guint8 *) &size, sizeof size);
  g_byte_array_append (bytes, (const guint8 *) header, (guint) strlen (header));
  g_byte_array_append (bytes, zeros, (guint) data_bytes);
  return g_byte_array_free_to_bytes (bytes);
}

Reader *
fixture_reader (GBytes *bytes)
{
  Reader *reader = reader_new_bytes (bytes);
  g_bytes_unref (bytes);
  return reader;
}

GBytes *
fixture_text (const char *text)
{
  return g_bytes_new (text, strlen (text));
}

GBytes *
fixture_cut (GBytes *bytes, gsize size)
{
  GBytes *cut = g_bytes_new_from_bytes (bytes, 0, size);
  g_bytes_unref (bytes);
  return cut;
}

GBytes *
fixture_grow (GBytes *bytes, gsize extra)
{
  g_autofree guint8 *zeros = g_malloc0 (extra);
  GByteArray *grown = g_byte_array_new ();
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  g_byte_array_append (grown, data, (guint) size);
  g_byte_array_append (grown, zeros, (guint) extra);
  g_bytes_unref (bytes);
  return g_byte_array_free_to_bytes (grown);
}

void
gguf_builder_u8 (GgufBuilder *self, guint8 value)
{
  g_byte_array_append (self, &value, 1);
}

void
gguf_builder_u16 (GgufBuilder *self, guint16 value)
{
  value = GUINT16_TO_LE (value);
  g_byte_array_append (self, (const guint8 *) &value, sizeof value);
}

void
gguf_builder_u32 (GgufBuilder *self, guint32 value)
{
  value = GUINT32_TO_LE (value);
  g_byte_array_append (self, (const guint8 *) &value, sizeof value);
}

void
gguf_builder_u64 (GgufBuilder *self, guint64 value)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (self, (const guint8 *) &value, sizeof value);
}

void
gguf_builder_text (GgufBuilder *self, const char *text)
{
  gguf_builder_u64 (self, strlen (text));
  g_byte_array_append (self, (const guint8 *) text, (guint) strlen (text));
}

GgufBuilder *
gguf_builder_new (guint32 version, guint64 n_tensors, guint64 n_pairs)
{
  GgufBuilder *self = g_byte_array_new ();
  g_byte_array_append (self, (const guint8 *) "GGUF", 4);
  gguf_builder_u32 (self, version);
  gguf_builder_u64 (self, n_tensors);
  gguf_builder_u64 (self, n_pairs);
  return self;
}

static void
begin_pair (GgufBuilder *self, const char *key, GgufValueType type)
{
  gguf_builder_text (self, key);
  gguf_builder_u32 (self, type);
}

static void
begin_array (GgufBuilder *self, const char *key, GgufValueType type, guint64 n)
{
  begin_pair (self, key, GGUF_ARRAY);
  gguf_builder_u32 (self, type);
  gguf_builder_u64 (self, n);
}

void
gguf_builder_pair_string (GgufBuilder *self, const char *key, const char *value)
{
  begin_pair (self, key, GGUF_STRING);
  gguf_builder_text (self, value);
}

void
gguf_builder_pair_u32 (GgufBuilder *self, const char *key, guint32 value)
{
  begin_pair (self, key, GGUF_U32);
  gguf_builder_u32 (self, value);
}

void
gguf_builder_pair_u64 (GgufBuilder *self, const char *key, guint64 value)
{
  begin_pair (self, key, GGUF_U64);
  gguf_builder_u64 (self, value);
}

void
gguf_builder_pair_u16 (GgufBuilder *self, const char *key, guint16 value)
{
  begin_pair (self, key, GGUF_U16);
  gguf_builder_u16 (self, value);
}

void
gguf_builder_pair_i32 (GgufBuilder *self, const char *key, gint32 value)
{
  begin_pair (self, key, GGUF_I32);
  gguf_builder_u32 (self, (guint32) value);
}

void
gguf_builder_pair_u32s (GgufBuilder *self, const char *key, const guint32 *values, guint n)
{
  begin_array (self, key, GGUF_U32, n);
  for (guint i = 0; i < n; i++)
    gguf_builder_u32 (self, values[i]);
}

void
gguf_builder_pair_strings (GgufBuilder *self, const char *key, guint64 n, const char *each)
{
  begin_array (self, key, GGUF_STRING, n);
  for (guint64 i = 0; i < n; i++)
    gguf_builder_text (self, each);
}

void
gguf_builder_tensor (GgufBuilder *self, const char *name, guint64 dim0, guint64 dim1, guint32 type, guint64 offset)
{
  guint n_dims = dim0 == 0 ? 0 : dim1 == 0 ? 1 : 2;
  gguf_builder_text (self, name);
  gguf_builder_u32 (self, n_dims);
  if (n_dims > 0)
    gguf_builder_u64 (self, dim0);
  if (n_dims > 1)
    gguf_builder_u64 (self, dim1);
  gguf_builder_u32 (self, type);
  gguf_builder_u64 (self, offset);
}

GBytes *
gguf_builder_finish (GgufBuilder *self, guint64 alignment, gsize data_bytes)
{
  while (self->len % alignment != 0)
    gguf_builder_u8 (self, 0);
  g_autofree guint8 *zeros = g_malloc0 (data_bytes);
  g_byte_array_append (self, zeros, (guint) data_bytes);
  return g_byte_array_free_to_bytes (self);
}

void
fixture_assert_error (GError **error, const char *part)
{
  g_assert_nonnull (*error);
  g_assert_true ((*error)->domain == AM_ERROR);
  if (strstr ((*error)->message, part) == NULL)
    g_error ("the message is \"%s\", without \"%s\"", (*error)->message, part);
  g_clear_error (error);
}
