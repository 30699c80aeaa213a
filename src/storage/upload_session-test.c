/* Upload sessions of raw bytes: however they are interrupted, the same chunks and the same recipe come out. */
#include "storage/upload_session.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "storage/chunk_frame.h"
#include "storage/object_store_fault.h"
#include "storage/storage_fixture.h"

#define REPOSITORY "team/model"
#define MiB (1u << 20)

static UploadSession *
reopen (const StorageFixture *self, UploadSession *session)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *id = g_strdup (upload_session_id (session));
  guint64 offset = upload_session_offset (session);
  upload_session_free (session);
  UploadSession *again = upload_session_open (NULL, self->blobs, REPOSITORY, id, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (upload_session_offset (again), ==, offset);
  return again;
}

static void
save (UploadSession *session)
{
  g_autoptr (GError) error = NULL;
  guint64 offset = upload_session_offset (session);
  fixture_assert_ok (upload_session_save (NULL, session, &error), error);
  g_assert_cmpuint (upload_session_offset (session), ==, offset);
}

static void
write_range (UploadSession *session, GBytes *bytes, gsize start, gsize end, gsize piece)
{
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  g_autoptr (GError) error = NULL;
  for (gsize n; start < end; start += n)
    {
      n = MIN (piece, end - start);
      fixture_assert_ok (upload_session_write (NULL, session, data + start, n, &error), error);
      g_assert_cmpuint (upload_session_offset (session), ==, start + n);
    }
}

static void
finish (UploadSession *session, const Digest *digest)
{
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (upload_session_finish (NULL, session, digest, &error), error);
}

/* The stored recipe's text, taken away so that the next upload must write its own; NULL for a whole blob. */
static GBytes *
take_recipe (const StorageFixture *self, const Digest *digest)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Recipe) recipe = blob_store_recipe (NULL, self->blobs, digest, &error);
  g_assert_no_error (error);
  g_autofree char *key = recipe != NULL ? blob_recipe_key (digest) : blob_data_key (digest);
  fixture_assert_ok (object_store_remove (NULL, self->fs, key, &error), error);
  return recipe != NULL ? recipe_write (recipe) : NULL;
}

static void
assert_no_uploads (const StorageFixture *self)
{
  g_autofree char *keys = fixture_list (self->fs, "_ai_models/uploads/", 100);
  g_assert_cmpstr (keys, ==, "");
}

/* What an upload in one piece makes of the bytes. */
static GBytes *
reference (const StorageFixture *self, GBytes *bytes, Digest *out_digest)
{
  *out_digest = fixture_upload (self, bytes);
  fixture_assert_blob (self, out_digest, bytes);
  assert_no_uploads (self);
  return take_recipe (self, out_digest);
}

static void
assert_same (const StorageFixture *self, const Digest *digest, GBytes *wanted, GBytes *bytes)
{
  fixture_assert_blob (self, digest, bytes);
  g_autoptr (GBytes) recipe = take_recipe (self, digest);
  g_assert_cmpint (recipe != NULL, ==, wanted != NULL);
  if (wanted != NULL)
    g_assert_true (g_bytes_equal (recipe, wanted));
  assert_no_uploads (self);
}

static GBytes *
model_bytes (void)
{
  static const gsize sizes[] = { 3 * MiB, 9 * MiB + 2, 100000, 70000, 2, 4 * MiB + 4096, 500000 };
  return fixture_safetensors (1, "BF16", 2, sizes, G_N_ELEMENTS (sizes), 0);
}

static void
test_pieces (StorageFixture *self, gconstpointer data)
{
  static const gsize pieces[] = { 4099, 64 << 10, 300001, CHUNK_STRIPE_BYTES, MiB + 1, 64 * MiB };
  g_autoptr (GBytes) bytes = model_bytes ();
  Digest digest;
  g_autoptr (GBytes) wanted = reference (self, bytes, &digest);
  for (gsize i = 0; i < G_N_ELEMENTS (pieces); i++)
    {
      g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
      write_range (session, bytes, 0, g_bytes_get_size (bytes), pieces[i]);
      finish (session, &digest);
      assert_same (self, &digest, wanted, bytes);
    }
}

static void
test_sizes (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 0, 1, 7, 8, 9, 63, 65536, MiB - 1, MiB, MiB + 1, 8 * MiB, 8 * MiB + 1 };
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint round = 0; round < 3; round++)
      {
        g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, (guint) i, sizes[i]);
        Digest digest = fixture_digest (bytes, round == 2 ? DIGEST_SHA512 : DIGEST_SHA256);
        UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
        BlobInfo info;
        save (session);
        write_range (session, bytes, 0, sizes[i], sizes[i] > 100 ? 100000 : 1);
        if (round > 0)
          {
            save (session);
            session = reopen (self, session);
          }
        finish (session, &digest);
        upload_session_free (session);
        g_assert_true (blob_store_stat (NULL, self->blobs, &digest, &info, NULL));
        g_assert_cmpuint (info.size_bytes, ==, sizes[i]);
        g_assert_cmpuint (info.n_chunks, ==, sizes[i] <= MiB ? 0 : (sizes[i] + 8 * MiB - 1) / (8 * MiB));
        fixture_assert_blob (self, &digest, bytes);
        assert_no_uploads (self);
      }
}

/* Saved and gone on with at every kind of offset, by the same handle and by another. */
static void
interrupt_at (StorageFixture *self, GBytes *bytes, gsize offset, gboolean by_other, const Digest *digest,
              GBytes *wanted)
{
  gsize size = g_bytes_get_size (bytes);
  UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
  g_test_message ("at %" G_GSIZE_FORMAT, offset);
  write_range (session, bytes, 0, offset, MiB);
  save (session);
  save (session);
  if (by_other)
    session = reopen (self, session);
  write_range (session, bytes, offset, size, 777777);
  finish (session, digest);
  upload_session_free (session);
  assert_same (self, digest, wanted, bytes);
}

static void
test_interrupted (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = model_bytes ();
  gsize size = g_bytes_get_size (bytes);
  guint64 header = 8 + GUINT64_FROM_LE (*(const guint64 *) g_bytes_get_data (bytes, NULL));
  const gsize offsets[] = {
    0,
    1,
    7,
    8,
    header - 1,
    header,
    header + 1,
    MiB,
    MiB + 1,
    MiB + 2,
    header + CHUNK_STRIPE_BYTES,
    header + 3 * MiB - 1,
    header + 3 * MiB,
    header + 3 * MiB + 1,
    header + 3 * MiB + CHUNK_STRIPE_BYTES - 1,
    header + 11 * MiB,
    header + 12 * MiB + 2,
    size - 1,
    size,
  };
  Digest digest;
  g_autoptr (GBytes) wanted = reference (self, bytes, &digest);
  for (gsize i = 0; i < G_N_ELEMENTS (offsets); i++)
    interrupt_at (self, bytes, offsets[i], i % 2 == 0, &digest, wanted);
}

/* A header longer than a chunk, waited for across requests. */
static void
test_long_header (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 2 * MiB, 1000 };
  g_autoptr (GBytes) bytes = fixture_safetensors (2, "F32", 4, sizes, G_N_ELEMENTS (sizes), 9 * MiB + 3);
  Digest digest;
  g_autoptr (GBytes) wanted = reference (self, bytes, &digest);
  static const gsize offsets[] = { 10, MiB + 1, 8 * MiB, 9 * MiB, 9 * MiB + 100, 10 * MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (offsets); i++)
    interrupt_at (self, bytes, offsets[i], TRUE, &digest, wanted);
}

static void
test_interrupted_often (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = model_bytes ();
  gsize size = g_bytes_get_size (bytes);
  Digest digest;
  g_autoptr (GBytes) wanted = reference (self, bytes, &digest);
  for (guint round = 0; round < 3; round++)
    {
      UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
      for (gsize offset = 0; offset < size;)
        {
          gsize n = (gsize) g_test_rand_int_range (1, 3 * MiB);
          n = MIN (n, size - offset);
          write_range (session, bytes, offset, offset + n, (gsize) g_test_rand_int_range (1000, 2 * MiB));
          offset += n;
          save (session);
          if (g_test_rand_bit ())
            session = reopen (self, session);
        }
      finish (session, &digest);
      upload_session_free (session);
      assert_same (self, &digest, wanted, bytes);
    }
}

/* A process that dies without saving costs what came since the last save of its own accord. */
static void
test_killed (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_ZERO, 0, 150 * MiB + 5);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
  save (session);
  g_autofree char *id = g_strdup (upload_session_id (session));
  write_range (session, bytes, 0, 147 * MiB, 3 * MiB);
  upload_session_free (session);
  session = upload_session_open (NULL, self->blobs, REPOSITORY, id, &error);
  g_assert_no_error (error);
  guint64 offset = upload_session_offset (session);
  g_assert_cmpuint (offset, >=, 147 * MiB - 72 * MiB);
  g_assert_cmpuint (offset % (8 * MiB), ==, 0);
  write_range (session, bytes, offset, g_bytes_get_size (bytes), 16 * MiB);
  finish (session, &digest);
  upload_session_free (session);
  fixture_assert_blob (self, &digest, bytes);
  assert_no_uploads (self);
}

static void
test_wrong_digest (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 0, 100, 2 * MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint algorithm = 0; algorithm < 2; algorithm++)
      {
        g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 3, sizes[i]);
        g_autoptr (GError) error = NULL;
        Digest wrong = fixture_digest (bytes, (DigestAlgorithm) algorithm);
        wrong.bytes[31] ^= 1;
        g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
        write_range (session, bytes, 0, sizes[i], MiB);
        save (session);
        g_assert_false (upload_session_finish (NULL, session, &wrong, &error));
        fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID");
        assert_no_uploads (self);
        g_autofree char *blobs = fixture_list (self->fs, "docker/", 10);
        g_assert_cmpstr (blobs, ==, "");
      }
}

static void
test_unknown (StorageFixture *self, gconstpointer data)
{
  static const char *const bad[] = { "", "x", "../../../etc/passwd", "00000000-0000-4000-8000-00000000000A" };
  char uuid[37];
  g_autoptr (GError) error = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_null (upload_session_open (NULL, self->blobs, REPOSITORY, bad[i], &error));
      fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
    }
  text_uuid (uuid);
  g_assert_null (upload_session_open (NULL, self->blobs, REPOSITORY, uuid, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
  save (session);
  g_assert_null (upload_session_open (NULL, self->blobs, "other/model", upload_session_id (session), &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
  fixture_assert_ok (upload_session_cancel (NULL, session, &error), error);
  g_assert_null (upload_session_open (NULL, self->blobs, REPOSITORY, upload_session_id (session), &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
  assert_no_uploads (self);
}

/* Writes on while the store goes down at its n-th operation; FALSE when it took fewer. */
static gboolean
fail_while_writing (StorageFixture *self, UploadSession *session, GBytes *bytes, gsize more, guint nth)
{
  g_autoptr (GError) error = NULL;
  const guint8 *content = g_bytes_get_data (bytes, NULL);
  object_store_fault_set (self->objects, nth, TRUE);
  gboolean fine = upload_session_write (NULL, session, content + upload_session_offset (session), more, &error)
                  && upload_session_save (NULL, session, &error);
  if (!fine)
    fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, NULL);
  if (nth % 2 == 1)
    upload_session_save (NULL, session, NULL); /* fails or not: nothing is forgotten by it */
  object_store_fault_set (self->objects, 0, FALSE);
  return !fine;
}

/* After an error, saving keeps at least what an earlier save kept. */
static void
test_save_after_failure (StorageFixture *self, gconstpointer data)
{
  static const gsize tensors[] = { 8 * MiB };
  static const struct {
    gsize saved, more;
  } rows[] = {
    { 100, MiB },          /* inside the head */
    { 8 * MiB, 2 * MiB },  /* a head longer than a chunk, while chunks are cut from it */
    { 12 * MiB, 5 * MiB }, /* inside a chunk */
  };
  g_autoptr (GBytes) bytes = fixture_safetensors (4, "F32", 4, tensors, 1, 9 * MiB);
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      gboolean failed = TRUE;
      for (guint nth = 1; failed; nth += 1 + nth / 3)
        {
          UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
          write_range (session, bytes, 0, rows[i].saved, MiB);
          save (session);
          failed = fail_while_writing (self, session, bytes, rows[i].more, nth);
          g_test_message ("saved %zu nth %u failed %d offset %" G_GUINT64_FORMAT, rows[i].saved, nth, failed,
                          upload_session_offset (session));
          g_assert_cmpuint (upload_session_offset (session), >=, rows[i].saved);
          g_assert_true (upload_session_save (NULL, session, NULL));
          session = reopen (self, session);
          gsize offset = upload_session_offset (session);
          g_assert_cmpuint (offset, >=, rows[i].saved);
          write_range (session, bytes, offset, g_bytes_get_size (bytes), 4 * MiB);
          finish (session, &digest);
          upload_session_free (session);
          fixture_assert_blob (self, &digest, bytes);
          assert_no_uploads (self);
        }
    }
}

static void
expect_aborted (UploadSession *session)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (upload_session_save (NULL, session, &error));
  fixture_assert_error (&error, AM_ERROR_ABORTED, "BLOB_UPLOAD_INVALID");
}

/* Two holders of one session: the one that saves first goes on, the other notices and harms nothing. */
static void
test_second_holder (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 5, 5 * MiB);
  g_autoptr (GBytes) other = fixture_bytes (BYTES_RANDOM, 6, 5 * MiB);
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  for (guint lead = 1; lead <= 3; lead++)
    for (guint inside_head = 0; inside_head < 2; inside_head++)
      {
        gsize first = inside_head ? 1000 : 2 * MiB;
        g_autoptr (GError) error = NULL;
        UploadSession *winner = upload_session_new (self->blobs, REPOSITORY);
        write_range (winner, bytes, 0, first, MiB);
        save (winner);
        UploadSession *loser = upload_session_open (NULL, self->blobs, REPOSITORY, upload_session_id (winner),
                                                    &error);
        g_assert_no_error (error);
        for (guint i = 0; i < lead; i++)
          {
            write_range (winner, bytes, first, first + 1000, MiB);
            first += 1000;
            save (winner);
          }
        const guint8 *content = g_bytes_get_data (other, NULL);
        gboolean wrote = upload_session_write (NULL, loser, content + first - 1000 * lead, 1000, &error);
        if (!wrote)
          fixture_assert_error (&error, AM_ERROR_ABORTED, "BLOB_UPLOAD_INVALID");
        else
          expect_aborted (loser);
        upload_session_free (loser);
        winner = reopen (self, winner);
        write_range (winner, bytes, first, 5 * MiB, MiB);
        finish (winner, &digest);
        upload_session_free (winner);
        fixture_assert_blob (self, &digest, bytes);
        assert_no_uploads (self);
      }
}

/* Both hold bytes beyond the same state when the first one saves. */
static void
test_second_holder_loaded (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 7, 5 * MiB);
  g_autoptr (GBytes) other = fixture_bytes (BYTES_RANDOM, 8, 5 * MiB);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  for (guint lead = 1; lead <= 3; lead++)
    {
      UploadSession *winner = upload_session_new (self->blobs, REPOSITORY);
      save (winner);
      g_autoptr (UploadSession) loser = upload_session_open (NULL, self->blobs, REPOSITORY,
                                                             upload_session_id (winner), &error);
      g_assert_no_error (error);
      write_range (loser, other, 0, 3 * MiB, MiB);
      for (guint i = 0; i < lead; i++)
        {
          write_range (winner, bytes, i * MiB, (i + 1) * MiB, MiB);
          save (winner);
        }
      expect_aborted (loser);
      expect_aborted (loser);
      winner = reopen (self, winner);
      write_range (winner, bytes, lead * MiB, 5 * MiB, MiB);
      finish (winner, &digest);
      expect_aborted (loser); /* nor does the session come back after its end */
      upload_session_free (winner);
      fixture_assert_blob (self, &digest, bytes);
      assert_no_uploads (self);
    }
}

static void
test_damaged (StorageFixture *self, gconstpointer data)
{
  static const char *const kinds[] = { "state-", "tail-" };
  static const gsize saved[] = { 1000, 3 * MiB };
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 9, 5 * MiB);
  for (gsize k = 0; k < G_N_ELEMENTS (kinds); k++)
    for (gsize i = 0; i < G_N_ELEMENTS (saved); i++)
      for (guint gone = 0; gone < 2; gone++)
        {
          g_autoptr (GError) error = NULL;
          UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
          g_autofree char *prefix = g_strdup_printf ("_ai_models/uploads/%s/", upload_session_id (session));
          g_autofree char *after = g_strconcat (prefix, kinds[k], NULL);
          g_autofree char *id = g_strdup (upload_session_id (session));
          write_range (session, bytes, 0, saved[i], MiB);
          save (session);
          upload_session_free (session);
          g_autoptr (GPtrArray) page = object_store_list (NULL, self->fs, prefix, after, 1, &error);
          const char *key = ((ObjectInfo *) g_ptr_array_index (page, 0))->key;
          g_assert_true (g_str_has_prefix (key, after));
          if (gone)
            object_store_remove (NULL, self->fs, key, NULL);
          else
            fixture_flip (self, key, 100, 4);
          session = upload_session_open (NULL, self->blobs, REPOSITORY, id, &error);
          g_assert_cmpint (session != NULL, ==, k == 1);
          if (session != NULL)
            g_assert_false (upload_session_write (NULL, session, "x", 1, &error));
          upload_session_free (session);
          fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
          object_store_remove_prefix (NULL, self->fs, prefix, NULL);
        }
}

/* A chunk of a saved session that a power cut took: the blob does not come into being without it. */
static void
test_lost_chunk (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 10, 20 * MiB);
  for (guint algorithm = 0; algorithm < 2; algorithm++)
    for (guint gone = 0; gone < 2; gone++)
      {
        g_autoptr (GError) error = NULL;
        Digest digest = fixture_digest (bytes, (DigestAlgorithm) algorithm);
        UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
        BlobInfo info;
        write_range (session, bytes, 0, 19 * MiB, 19 * MiB);
        save (session);
        session = reopen (self, session);
        write_range (session, bytes, 19 * MiB, 20 * MiB, MiB);
        g_autoptr (GPtrArray) page = object_store_list (NULL, self->fs, "_ai_models/chunks/", NULL, 1, &error);
        g_autofree char *path = fixture_path (self, ((ObjectInfo *) g_ptr_array_index (page, 0))->key);
        g_assert_cmpint (gone ? unlink (path) : truncate (path, 0), ==, 0);
        g_assert_false (upload_session_finish (NULL, session, &digest, &error));
        fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UPLOAD_UNKNOWN");
        g_assert_false (blob_store_stat (NULL, self->blobs, &digest, &info, &error));
        fixture_assert_error (&error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN");
        fixture_assert_ok (upload_session_cancel (NULL, session, &error), error);
        upload_session_free (session);
      }
}

/* A far store is not looked at with every save. Somebody who goes on with a session that ended meanwhile notices in the
 * end: nothing keeps its chunks any more. */
static void
test_ended_meanwhile (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_ZERO, 0, 140 * MiB);
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  for (guint finishes = 0; finishes < 2; finishes++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
      save (session);
      g_autoptr (UploadSession) other = upload_session_open (NULL, self->blobs, REPOSITORY,
                                                             upload_session_id (session), &error);
      g_assert_no_error (error);
      write_range (other, bytes, 0, 140 * MiB, 4 * MiB);
      finish (other, &digest);
      /* Of its own accord it saves twice. */
      write_range (session, bytes, 0, 139 * MiB, 4 * MiB);
      g_assert_cmpuint (fixture_count (self->fs, "_ai_models/uploads/"), ==, 2);
      write_range (session, bytes, 139 * MiB, 140 * MiB, MiB);
      g_assert_false (finishes ? upload_session_finish (NULL, session, &digest, &error)
                               : upload_session_save (NULL, session, &error));
      fixture_assert_error (&error, AM_ERROR_ABORTED, "BLOB_UPLOAD_INVALID");
      fixture_assert_ok (object_store_remove_prefix (NULL, self->fs, "_ai_models/uploads/", &error), error);
    }
}

/* States that were succeeded go, though not at once, and what is saved stays little. */
static void
test_many_saves (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_TEXT, 1, 40 * MiB);
  Digest digest = fixture_digest (bytes, DIGEST_SHA256);
  UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
  guint most = 0;
  for (guint i = 0; i < 40; i++)
    {
      write_range (session, bytes, i * MiB, (i + 1) * MiB, MiB);
      save (session);
      if (i % 7 == 3)
        session = reopen (self, session);
      guint n = fixture_count (self->fs, "_ai_models/uploads/");
      most = MAX (most, n);
    }
  g_assert_cmpuint (most, <=, object_store_is_far (self->objects) ? 17 : 2);
  finish (session, &digest);
  upload_session_free (session);
  fixture_assert_blob (self, &digest, bytes);
  assert_no_uploads (self);
}

/* A disk that fails to read is told as such, wherever it happens: nothing is lost, and the same goes on afterwards. */
static void
test_bad_disk (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 10, 20 * MiB);
  const guint8 *content = g_bytes_get_data (bytes, NULL);
  object_store_fault_set_kind (self->objects, OBJECT_FAULT_IO);
  for (guint algorithm = 0; algorithm < 2; algorithm++)
    {
      Digest digest = fixture_digest (bytes, (DigestAlgorithm) algorithm);
      g_autofree char *id = NULL;
      gboolean done = FALSE;
      {
        g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
        write_range (session, bytes, 0, 19 * MiB, 19 * MiB);
        save (session);
        id = g_strdup (upload_session_id (session));
      }
      for (guint nth = 1; !done; nth++)
        {
          g_autoptr (GError) error = NULL;
          object_store_fault_set (self->objects, nth, FALSE);
          g_autoptr (UploadSession) session = upload_session_open (NULL, self->blobs, REPOSITORY, id, &error);
          done = session != NULL && upload_session_write (NULL, session, content + 19 * MiB, MiB, &error)
                 && upload_session_finish (NULL, session, &digest, &error);
          object_store_fault_set (self->objects, 0, FALSE);
          if (!done)
            fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "StorageFault");
          g_assert_cmpuint (nth, <, 1000);
        }
      fixture_assert_blob (self, &digest, bytes);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/upload-session/pieces", test_pieces);
  STORAGE_TEST ("/upload-session/sizes", test_sizes);
  STORAGE_TEST_BOTH ("/upload-session/interrupted", test_interrupted);
  STORAGE_TEST ("/upload-session/long-header", test_long_header);
  STORAGE_TEST ("/upload-session/interrupted-often", test_interrupted_often);
  STORAGE_TEST_BOTH ("/upload-session/killed", test_killed);
  STORAGE_TEST ("/upload-session/wrong-digest", test_wrong_digest);
  STORAGE_TEST ("/upload-session/unknown", test_unknown);
  STORAGE_TEST_BOTH ("/upload-session/save-after-failure", test_save_after_failure);
  STORAGE_TEST_BOTH ("/upload-session/second-holder", test_second_holder);
  STORAGE_TEST_BOTH ("/upload-session/second-holder-loaded", test_second_holder_loaded);
  STORAGE_TEST ("/upload-session/damaged", test_damaged);
  STORAGE_TEST ("/upload-session/lost-chunk", test_lost_chunk);
  g_test_add ("/upload-session/ended-meanwhile/far", StorageFixture, NULL, storage_fixture_set_up_far,
              test_ended_meanwhile, storage_fixture_tear_down);
  STORAGE_TEST_BOTH ("/upload-session/many-saves", test_many_saves);
  STORAGE_TEST ("/upload-session/bad-disk", test_bad_disk);
  return g_test_run ();
}
