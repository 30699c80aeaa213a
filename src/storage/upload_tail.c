#include <string.h>

#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"
#include "storage/upload_state.h"

static gboolean
tail_header (gpointer data, const ChunkHeader *header, GError **error)
{
  return TRUE;
}

static gboolean
tail_stripe (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded, gsize decoded_size,
             GError **error)
{
  g_byte_array_append (data, decoded, (guint) decoded_size);
  return TRUE;
}

static gboolean
tail_end (gpointer data, GError **error)
{
  return TRUE;
}

GByteArray *
upload_tail_read (Ctx *ctx, ObjectStore *objects, const char *id, const UploadState *state, GError **error)
{
  static const ChunkParserEvents events = { tail_header, tail_stripe, tail_end };
  g_autofree char *key = upload_tail_key (id, state);
  g_autoptr (GByteArray) decoded = g_byte_array_new ();
  g_autoptr (GBytes) stored = object_store_get (ctx, objects, key, CHUNK_PLAN_HEADER_LIMIT_BYTES, error);
  if (stored == NULL)
    return NULL;
  gsize size;
  const guint8 *bytes = g_bytes_get_data (stored, &size);
  g_autoptr (ChunkParser) parser = chunk_parser_new (&events, decoded);
  if (state->tail == UPLOAD_TAIL_RAW)
    g_byte_array_append (decoded, bytes, (guint) size);
  else if (!chunk_parser_feed (parser, bytes, size, error))
    return NULL;
  guint8 actual[CHUNK_DIGEST_SIZE];
  blake3_of (decoded->data, decoded->len, actual);
  if (decoded->len != state->tail_bytes || memcmp (actual, state->tail_digest, sizeof actual) != 0)
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "object %s is damaged", key);
  return g_steal_pointer (&decoded);
}
