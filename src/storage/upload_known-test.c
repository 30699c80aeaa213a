#include <string.h>

#include "storage/chunk_frame.h"
#include "storage/object_store_fault.h"
#include "storage/storage_fixture.h"
#include "storage/upload_state.h"

#define REPOSITORY "team/m"

static void
save_new (StorageFixture *self, UploadSession *session)
{
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (upload_session_save (NULL, session, &error), error);
}

static gboolean
ask (StorageFixture *self, const char *repository, const char *id, const guint8 *digests, gsize n, char **out_answers,
     GError **error)
{
  g_autoptr (GString) answers = g_string_new (NULL);
  if (!upload_session_known (NULL, self->blobs, repository, id, digests, n, answers, error))
    return FALSE;
  *out_answers = g_string_free (g_steal_pointer (&answers), FALSE);
  return TRUE;
}

/* Stores one small chunk through `session`, then refers to it until the session has `n` entries. */
static void
fill_with_references (UploadSession *session, guint n, guint8 digest[32])
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  g_autoptr (GBytes) content = fixture_bytes (BYTES_RANDOM, 1, 64);
  g_autoptr (GByteArray) frame = g_byte_array_new ();
  ChunkDigest chunk = fixture_chunk_digest (g_bytes_get_data (content, NULL), 64);
  guint8 reference[CHUNK_HEADER_SIZE];
  ChunkHeader header = { CHUNK_ENCODING_REF, 64, 0, chunk };
  chunk_encode (encoder, 0, g_bytes_get_data (content, NULL), 64, &chunk, frame);
  chunk_header_write (&header, reference);
  fixture_assert_ok (upload_session_frames (NULL, session, frame->data, frame->len, &error), error);
  for (guint i = 1; i < n; i++)
    fixture_assert_ok (upload_session_frames (NULL, session, reference, sizeof reference, &error), error);
  fixture_assert_ok (upload_session_frames_end (session, &error), error);
  memcpy (digest, chunk.bytes, 32);
}

static void
test_answers_and_pins (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
  g_autofree char *answers = NULL;
  guint8 digests[3 * 32] = { 0 };
  fill_with_references (session, 2, digests + 32);
  save_new (self, session);
  fixture_assert_ok (ask (self, REPOSITORY, upload_session_id (session), digests, 3, &answers, &error), error);
  g_assert_cmpstr (answers, ==, "010");
  g_autofree char *keys = fixture_list (self->fs, UPLOADS_PREFIX, 100);
  g_assert_nonnull (strstr (keys, "/pins-"));
}

static void
test_unknown_sessions (StorageFixture *self, gconstpointer data)
{
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
  const char *id = upload_session_id (session);
  g_autofree char *answers = NULL;
  guint8 digest[32] = { 0 };
  GError *error = NULL;
  g_assert_false (ask (self, REPOSITORY, id, digest, 1, &answers, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
  save_new (self, session);
  const char *const wrong[][2] = { { "team/other", id }, { REPOSITORY, "../../x" }, { REPOSITORY, "" } };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_false (ask (self, wrong[i][0], wrong[i][1], digest, 1, &answers, &error));
      fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
    }
  g_assert_false (ask (self, REPOSITORY, id, digest, UPLOAD_KNOWN_MAX + 1, &answers, &error));
  fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID");
  g_assert_cmpuint (fixture_count (self->fs, UPLOADS_PREFIX), ==, 1);
}

static guint64
cost_of_asking (StorageFixture *self, UploadSession *session)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *answers = NULL;
  guint8 digest[32] = { 0 };
  object_store_fault_set (self->objects, 0, FALSE);
  fixture_assert_ok (ask (self, REPOSITORY, upload_session_id (session), digest, 1, &answers, &error), error);
  return object_store_fault_count (self->objects);
}

/* A question costs the same however much the session holds. */
static void
test_cost (StorageFixture *self, gconstpointer data)
{
  guint8 digest[32];
  g_autoptr (UploadSession) small = upload_session_new (self->blobs, REPOSITORY);
  g_autoptr (UploadSession) large = upload_session_new (self->blobs, REPOSITORY);
  fill_with_references (small, 1, digest);
  fill_with_references (large, 2 * UPLOAD_LIST_ENTRIES + 1, digest);
  save_new (self, small);
  save_new (self, large);
  g_assert_cmpuint (cost_of_asking (self, large), ==, cost_of_asking (self, small));
}

typedef struct {
  UploadSession *session;
  gint is_over; /* atomic */
} Saving;

static gpointer
save_again_and_again (gpointer data)
{
  Saving *self = data;
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < 1500; i++)
    {
      fixture_assert_ok (upload_session_write (NULL, self->session, "x", 1, &error), error);
      fixture_assert_ok (upload_session_save (NULL, self->session, &error), error);
    }
  g_atomic_int_set (&self->is_over, TRUE);
  return NULL;
}

/* While one state takes another's place, a listing of the folder may see neither. */
static void
test_a_session_that_is_saved_meanwhile (StorageFixture *self, gconstpointer data)
{
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
  save_new (self, session);
  Saving saving = { .session = session };
  GThread *thread = g_thread_new ("saving", save_again_and_again, &saving);
  while (!g_atomic_int_get (&saving.is_over))
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *owner = upload_state_repository (NULL, self->fs, upload_session_id (session), &error);
      g_assert_no_error (error);
      g_assert_cmpstr (owner, ==, REPOSITORY);
    }
  g_thread_join (thread);
}

#define N_LATE 30u

/* A store that shows what was there before its session was saved once more: so often, and another number of listings
 * show nothing at all. */
typedef struct {
  ObjectStore base;
  ObjectStoreClass klass;
  ObjectStore *inner;
  UploadSession *session;
  guint n_late, n_empty;
} LateStore;

static GPtrArray *
list_late (Ctx *ctx, ObjectStore *store, const char *prefix, const char *after, guint limit, GError **error)
{
  LateStore *self = (LateStore *) store;
  g_autoptr (GPtrArray) found = object_store_list (ctx, self->inner, prefix, after, limit, error);
  if (self->n_empty > 0)
    {
      self->n_empty--;
      g_ptr_array_set_size (found, 0);
    }
  else if (self->n_late > 0)
    {
      self->n_late--;
      g_assert_true (upload_session_write (ctx, self->session, "x", 1, error));
      g_assert_true (upload_session_save (ctx, self->session, error));
    }
  return g_steal_pointer (&found);
}

static Reader *
open_late (Ctx *ctx, ObjectStore *store, const char *key, GError **error)
{
  return object_store_open (ctx, ((LateStore *) store)->inner, key, error);
}

/* However often the look comes too late, a session that goes on is there. */
static void
test_late_looks (StorageFixture *self, gconstpointer data)
{
  static const struct {
    guint n_late, n_empty;
  } rows[] = { { 0, 0 }, { 1, 0 }, { N_LATE, 0 }, { 0, 10 }, { N_LATE, 10 } };
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
  save_new (self, session);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      LateStore late = { .klass = { .list = list_late, .open = open_late }, .inner = self->fs, .session = session };
      late.base.klass = &late.klass;
      late.n_late = rows[i].n_late;
      late.n_empty = rows[i].n_empty;
      g_autofree char *owner = upload_state_repository (NULL, &late.base, upload_session_id (session), &error);
      fixture_assert_ok (owner != NULL, error);
      g_assert_cmpstr (owner, ==, REPOSITORY);
      g_assert_cmpuint (late.n_late + late.n_empty, ==, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST_BOTH ("/upload-known/answers-and-pins", test_answers_and_pins);
  STORAGE_TEST_BOTH ("/upload-known/unknown-sessions", test_unknown_sessions);
  STORAGE_TEST ("/upload-known/cost", test_cost);
  STORAGE_TEST ("/upload-known/a-session-that-is-saved-meanwhile", test_a_session_that_is_saved_meanwhile);
  STORAGE_TEST ("/upload-known/late-looks", test_late_looks);
  return g_test_run ();
}
