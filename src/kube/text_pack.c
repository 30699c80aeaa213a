#include "kube/text_pack.h"

#include <zstd.h>

#define LEVEL 1
#define EXAMPLE_BYTES 6144 /* three or four objects: more do not help */

struct TextPack {
  GByteArray *examples;  /* the first texts, as long as they are not enough */
  GByteArray *buffer;    /* of the last call */
  ZSTD_CDict *pack_like; /* made of them once they are */
  ZSTD_DDict *unpack_like;
  ZSTD_CCtx *packer;
  ZSTD_DCtx *unpacker;
};

TextPack *
text_pack_new (void)
{
  TextPack *self = g_new0 (TextPack, 1);
  self->examples = g_byte_array_new ();
  self->buffer = g_byte_array_new ();
  return self;
}

void
text_pack_free (TextPack *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->examples);
  g_byte_array_unref (self->buffer);
  ZSTD_freeCDict (self->pack_like);
  ZSTD_freeDDict (self->unpack_like);
  ZSTD_freeCCtx (self->packer);
  ZSTD_freeDCtx (self->unpacker);
  g_free (self);
}

static void
begin_packing (TextPack *self)
{
  self->pack_like = ZSTD_createCDict (self->examples->data, self->examples->len, LEVEL);
  self->unpack_like = ZSTD_createDDict (self->examples->data, self->examples->len);
  self->packer = ZSTD_createCCtx ();
  self->unpacker = ZSTD_createDCtx ();
  if (self->pack_like == NULL || self->unpack_like == NULL || self->packer == NULL || self->unpacker == NULL)
    g_error ("no memory for packing"); /* as GLib does */
  ZSTD_CCtx_setParameter (self->packer, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_refCDict (self->packer, self->pack_like);
  ZSTD_DCtx_refDDict (self->unpacker, self->unpack_like);
  g_byte_array_set_size (self->examples, 0);
}

gconstpointer
text_pack_put (TextPack *self, gconstpointer text, gsize size, gsize *out_size, gboolean *out_is_packed)
{
  *out_is_packed = FALSE;
  *out_size = size;
  if (self->packer == NULL && self->examples->len < EXAMPLE_BYTES)
    {
      g_byte_array_append (self->examples, text, (guint) MIN (size, EXAMPLE_BYTES));
      return text;
    }
  if (self->packer == NULL)
    begin_packing (self);
  g_byte_array_set_size (self->buffer, (guint) size);
  gsize packed = ZSTD_compress2 (self->packer, self->buffer->data, size, text, size);
  if (ZSTD_isError (packed)) /* it does not fit: it would not have shrunk */
    return text;
  *out_is_packed = TRUE;
  *out_size = packed;
  return self->buffer->data;
}

gconstpointer
text_pack_get (TextPack *self, gconstpointer packed, gsize packed_size, gsize text_size)
{
  g_byte_array_set_size (self->buffer, (guint) text_size);
  gsize size = ZSTD_decompressDCtx (self->unpacker, self->buffer->data, text_size, packed, packed_size);
  g_assert (size == text_size); /* we packed it */
  return self->buffer->data;
}
