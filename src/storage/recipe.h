/* A recipe: how a blob is put together from chunks (storage.md, "Recipe"). Immutable once read;
 * then thread-safe. Binary, little-endian: "AMRC", version 1, 3 zero bytes, u8 blob digest algorithm,
 * 64 bytes of blob digest, u64 blob size, u32 chunk count, then 40 bytes a chunk (BLAKE3, u32 decoded
 * size, u32 encoded size), then u64 XXH3-64 of all before. */
#pragma once

#include "base/digest.h"
#include "base/error.h"

#define RECIPE_ENTRY_SIZE 40
#define RECIPE_MAX_CHUNKS (1u << 21)
#define RECIPE_MAX_BYTES (RECIPE_MAX_CHUNKS * RECIPE_ENTRY_SIZE + 93) /* of one with the most chunks */

typedef struct {
  guint8 digest[32]; /* BLAKE3 of the decoded bytes */
  guint32 decoded_size;
  guint32 encoded_size; /* without the frame's header */
} RecipeEntry;

typedef struct {
  Digest blob_digest;
  guint64 blob_size;
  GArray *entries; /* RecipeEntry */
  guint64 *starts; /* decoded offset of each entry; entries->len + 1 values; made by recipe_index */
} Recipe;

/* Holds a reference to `entries`. */
Recipe *recipe_new (const Digest *blob_digest, guint64 blob_size, GArray *entries);
GBytes *recipe_write (const Recipe *self);
/* DATA_LOSS (reason RecipeCorrupt) when anything does not add up. `expected` may be NULL. */
Recipe *recipe_read (GBytes *bytes, const Digest *expected, GError **error);
/* Index of the entry that holds `offset_bytes` (< blob_size). */
guint recipe_find (const Recipe *self, guint64 offset_bytes);
guint64 recipe_encoded_bytes (const Recipe *self); /* payloads and frame headers */
void recipe_free (Recipe *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Recipe, recipe_free)
