/* Many texts that are much alike, in little memory: each is packed by itself against the first few, so that any of them can be
 * read alone. Used by the caches of kube/. Belongs to whoever holds its owner's lock. */
#pragma once

#include <glib.h>

typedef struct TextPack TextPack;

TextPack *text_pack_new (void);
void text_pack_free (TextPack *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TextPack, text_pack_free)

/* The text as it is to be kept, valid until the next call; what it was made of is told by `out_is_packed`: the first texts,
 * and those that do not shrink, are kept as they are. */
gconstpointer text_pack_put (TextPack *self, gconstpointer text, gsize size, gsize *out_size,
                             gboolean *out_is_packed);
/* A packed text of `text_size` bytes again, valid until the next call. */
gconstpointer text_pack_get (TextPack *self, gconstpointer packed, gsize packed_size, gsize text_size);
