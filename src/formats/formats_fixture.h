/* Small model files made in memory, good and bad, for the tests of formats/ and domain/. Test code only. */
#pragma once

#include "base/error.h"
#include "base/reader.h"
#include "formats/gguf.h"

/* Length, header text, then `data_bytes` zeros. */
GBytes *fixture_safetensors (const char *header, guint64 data_bytes);
/* A reader that owns the bytes. */
Reader *fixture_reader (GBytes *bytes);
GBytes *fixture_text (const char *text);
/* The first `size` bytes; takes `bytes` over. */
GBytes *fixture_cut (GBytes *bytes, gsize size);
/* Followed by `extra` zeros; takes `bytes` over. */
GBytes *fixture_grow (GBytes *bytes, gsize extra);

/* A GGUF file, piece by piece and without any check. */
typedef GByteArray GgufBuilder;
GgufBuilder *gguf_builder_new (guint32 version, guint64 n_tensors, guint64 n_pairs);
void gguf_builder_u8 (GgufBuilder *self, guint8 value);
void gguf_builder_u16 (GgufBuilder *self, guint16 value);
void gguf_builder_u32 (GgufBuilder *self, guint32 value);
void gguf_builder_u64 (GgufBuilder *self, guint64 value);
void gguf_builder_text (GgufBuilder *self, const char *text); /* with its length */
/* Whole pairs. */
void gguf_builder_pair_string (GgufBuilder *self, const char *key, const char *value);
void gguf_builder_pair_u32 (GgufBuilder *self, const char *key, guint32 value);
void gguf_builder_pair_u64 (GgufBuilder *self, const char *key, guint64 value);
void gguf_builder_pair_u16 (GgufBuilder *self, const char *key, guint16 value);
void gguf_builder_pair_i32 (GgufBuilder *self, const char *key, gint32 value);
void gguf_builder_pair_u32s (GgufBuilder *self, const char *key, const guint32 *values, guint n);
void gguf_builder_pair_strings (GgufBuilder *self, const char *key, guint64 n, const char *each);
/* A tensor's row; dimensions end with 0 or at four. */
void gguf_builder_tensor (GgufBuilder *self, const char *name, guint64 dim0, guint64 dim1, guint32 type,
                          guint64 offset);
/* Pads to `alignment`, then `data_bytes` zeros; frees the builder. */
GBytes *gguf_builder_finish (GgufBuilder *self, guint64 alignment, gsize data_bytes);

/* Asserts an AM_ERROR whose message contains `part`, and clears it. */
void fixture_assert_error (GError **error, const char *part);
