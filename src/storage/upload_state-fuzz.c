/* Any bytes as the saved state of an upload: refused, or its sizes are within bounds and it is the same after being
 * written and read again. An odd first byte has the sum put right first. */
#include "storage/upload_state.h"

#include <string.h>
#include <xxhash.h>

#include "storage/chunk_frame.h"
#include "storage/chunk_plan.h"
#include "storage/wire.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

#define MAX_LISTS_WRITTEN 3

static void
check_bounds (const UploadState *state)
{
  g_assert_cmpuint (state->entries->len, <=, UPLOAD_LIST_ENTRIES);
  for (guint i = 0; i < state->entries->len; i++)
    {
      const RecipeEntry *entry = &g_array_index (state->entries, RecipeEntry, i);
      g_assert_true (entry->decoded_size > 0 && entry->decoded_size <= CHUNK_MAX_BYTES);
    }
  g_assert_cmpuint (strlen (state->repository), <=, UPLOAD_MAX_REPOSITORY_BYTES);
  g_assert_cmpuint (state->boundary_sha.length, ==, state->boundary_bytes);
  g_assert_true ((state->tail == UPLOAD_TAIL_NONE) == (state->tail_bytes == 0));
  g_assert_cmpuint (state->tail_bytes, <=,
                    state->tail == UPLOAD_TAIL_FRAME ? CHUNK_MAX_BYTES : CHUNK_PLAN_HEADER_LIMIT_BYTES);
}

static void
check_same (const UploadState *a, const UploadState *b)
{
  g_assert_true (a->sequence == b->sequence && a->holder == b->holder && a->created_ms == b->created_ms);
  g_assert_true (a->tail == b->tail && a->tail_bytes == b->tail_bytes);
  g_assert_cmpmem (a->tail_digest, 32, b->tail_digest, 32);
  g_assert_cmpstr (a->repository, ==, b->repository);
  g_assert_cmpmem (a->entries->data, a->entries->len * sizeof (RecipeEntry), b->entries->data,
                   b->entries->len * sizeof (RecipeEntry));
  g_assert_cmpmem (a->lists->data, a->lists->len * 8, b->lists->data, b->lists->len * 8);
  Digest one, two;
  sha256_peek (&a->boundary_sha, &one);
  sha256_peek (&b->boundary_sha, &two);
  g_assert_true (digest_equal (&one, &two));
}

/* Written with entries before those that it holds, as a session has them in memory. */
static void
check_writing (UploadState *state)
{
  g_autoptr (GArray) own = g_array_copy (state->entries);
  g_auto (UploadState) again;
  g_autoptr (GError) error = NULL;
  upload_state_init (&again);
  g_array_set_size (state->entries, 0);
  for (guint i = 0; i < state->lists->len * UPLOAD_LIST_ENTRIES; i++)
    {
      RecipeEntry entry = { .decoded_size = 1, .encoded_size = 9 };
      g_array_append_val (state->entries, entry);
    }
  g_array_append_vals (state->entries, own->data, own->len);
  g_autoptr (GByteArray) written = upload_state_write (state);
  g_autoptr (GBytes) bytes = g_bytes_new (written->data, written->len);
  g_assert_true (upload_state_read (bytes, &again, &error));
  g_array_remove_range (state->entries, 0, state->lists->len * UPLOAD_LIST_ENTRIES);
  check_same (state, &again);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  if (size < 1)
    return 0;
  guint8 *copy = g_memdup2 (data + 1, size - 1);
  if ((data[0] & 1) != 0 && size - 1 >= 8)
    wire_put_u64 (copy + size - 9, XXH3_64bits (copy, size - 9));
  g_autoptr (GBytes) bytes = g_bytes_new_take (copy, size - 1);
  g_autoptr (GError) error = NULL;
  g_auto (UploadState) state;
  upload_state_init (&state);
  if (!upload_state_read (bytes, &state, &error))
    {
      g_assert_true (am_error_has_reason (error, "BLOB_UPLOAD_UNKNOWN"));
      return 0;
    }
  check_bounds (&state);
  if (state.lists->len <= MAX_LISTS_WRITTEN)
    check_writing (&state);
  return 0;
}
