/* Blobs that arrive as chunk frames, references and raw bytes in any mixture, and by two writers at once. */
#include "storage/blob_ingest.h"

#include <string.h>
#include <unistd.h>

#include "storage/storage_fixture.h"

#define REPOSITORY "team/model"
#define MiB ((gsize) 1 << 20)

/* Appends the chunk [start, end) of `bytes` as a frame, or as a reference to it. */
static void
append_frame (GByteArray *out, GBytes *bytes, gsize start, gsize end, gboolean as_ref)
{
  const guint8 *data = (const guint8 *) g_bytes_get_data (bytes, NULL) + start;
  ChunkDigest digest = fixture_chunk_digest (data, end - start);
  guint8 header[CHUNK_HEADER_SIZE];
  if (as_ref)
    {
      chunk_header_write (&(ChunkHeader){ CHUNK_ENCODING_REF, (guint32) (end - start), 0, digest }, header);
      g_byte_array_append (out, header, sizeof header);
      return;
    }
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  chunk_encode (encoder, 2, data, end - start, &digest, out);
}

static gboolean
send_frames (UploadSession *session, const GByteArray *frames, gsize piece, GError **error)
{
  for (gsize done = 0; done < frames->len; done += piece)
    if (!upload_session_frames (NULL, session, frames->data + done, MIN (piece, frames->len - done), error))
      return FALSE;
  return TRUE;
}

static void
send_all (UploadSession *session, const GByteArray *frames)
{
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (send_frames (session, frames, 100000, &error), error);
  fixture_assert_ok (upload_session_frames_end (session, &error), error);
}

static void
send_raw (UploadSession *session, GBytes *bytes, gsize start, gsize end)
{
  g_autoptr (GError) error = NULL;
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  fixture_assert_ok (upload_session_write (NULL, session, data + start, end - start, &error), error);
}

static void
finish (const StorageFixture *self, UploadSession *session, GBytes *bytes, DigestAlgorithm algorithm)
{
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_digest (bytes, algorithm);
  fixture_assert_ok (upload_session_finish (NULL, session, &digest, &error), error);
  fixture_assert_blob (self, &digest, bytes);
  fixture_assert_ok (blob_store_verify (NULL, self->blobs, &digest, NULL, NULL, &error), error);
  g_assert_cmpuint (fixture_count (self->fs, "_ai_models/uploads/"), ==, 0);
}

/* A blob all of frames, in pieces of every size; then once more all of references: nothing is stored twice. */
static void
test_frames (StorageFixture *self, gconstpointer data)
{
  static const gsize pieces[] = { 997, 65536, 3 * MiB, 100 * MiB };
  static const gsize borders[] = { 0, 1, 100, 300000, 300000 + 2 * MiB, 3 * MiB };
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_BF16, 1, 3 * MiB);
  guint n_stored = 0;
  for (guint algorithm = 0; algorithm < 2; algorithm++)
    for (gsize i = 0; i < G_N_ELEMENTS (pieces); i++)
      for (guint as_ref = 0; as_ref < 2; as_ref++)
        {
          g_autoptr (GByteArray) frames = g_byte_array_new ();
          g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
          g_autoptr (GError) error = NULL;
          for (gsize b = 0; b + 1 < G_N_ELEMENTS (borders); b++)
            append_frame (frames, bytes, borders[b], borders[b + 1], as_ref);
          fixture_assert_ok (send_frames (session, frames, pieces[i], &error), error);
          fixture_assert_ok (upload_session_frames_end (session, &error), error);
          g_assert_cmpuint (upload_session_offset (session), ==, 3 * MiB);
          finish (self, session, bytes, (DigestAlgorithm) algorithm);
          n_stored = n_stored > 0 ? n_stored : fixture_count (self->fs, "_ai_models/chunks/");
          g_assert_cmpuint (fixture_count (self->fs, "_ai_models/chunks/"), ==, n_stored);
        }
  g_assert_cmpuint (n_stored, ==, G_N_ELEMENTS (borders) - 1);
}

typedef enum { RAW, FRAME, REF, SAVE, REOPEN } Step;

static UploadSession *
reopen (const StorageFixture *self, UploadSession *session)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *id = g_strdup (upload_session_id (session));
  upload_session_free (session);
  session = upload_session_open (NULL, self->blobs, REPOSITORY, id, &error);
  g_assert_no_error (error);
  return session;
}

/* Raw bytes, frames and references by turns, saved and opened again between them. */
static void
check_steps (StorageFixture *self, GBytes *bytes, const Step *steps, guint n_steps)
{
  UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
  g_autoptr (GError) error = NULL;
  gsize offset = 0, size = g_bytes_get_size (bytes), piece = size / 4 + 1;
  for (guint i = 0; i < n_steps; i++)
    {
      gsize end = MIN (offset + piece, size);
      g_autoptr (GByteArray) frames = g_byte_array_new ();
      if (steps[i] >= SAVE)
        {
          fixture_assert_ok (upload_session_save (NULL, session, &error), error);
          if (steps[i] == REOPEN)
            session = reopen (self, session);
          g_assert_cmpuint (upload_session_offset (session), ==, offset);
          continue;
        }
      if (steps[i] == RAW)
        send_raw (session, bytes, offset, end);
      else
        {
          append_frame (frames, bytes, offset, end, steps[i] == REF);
          send_all (session, frames);
        }
      offset = end;
      g_assert_cmpuint (upload_session_offset (session), ==, offset);
    }
  g_assert_cmpuint (offset, ==, size);
  finish (self, session, bytes, DIGEST_SHA256);
  upload_session_free (session);
}

static void
test_mixed (StorageFixture *self, gconstpointer data)
{
  static const Step rows[][8] = {
    { RAW, FRAME, RAW, FRAME, SAVE, SAVE, SAVE, SAVE },       { FRAME, RAW, REF, RAW, REOPEN, SAVE, REOPEN, SAVE },
    { RAW, REOPEN, FRAME, REOPEN, RAW, REOPEN, REF, REOPEN }, { FRAME, REOPEN, RAW, RAW, SAVE, REF, REOPEN, SAVE },
    { REF, REF, REF, REF, REOPEN, SAVE, SAVE, SAVE },         { REF, SAVE, RAW, SAVE, RAW, SAVE, RAW, SAVE },
  };
  static const gsize sizes[] = { 1000, MiB, MiB + 1, 5 * MiB, 30 * MiB };
  for (gsize s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
      {
        g_autoptr (GBytes) bytes = fixture_bytes (s == 4 ? BYTES_ZERO : BYTES_BF16, 2, sizes[s]);
        g_autoptr (UploadSession) all = upload_session_new (self->blobs, REPOSITORY);
        g_autoptr (GByteArray) frames = g_byte_array_new ();
        gsize piece = sizes[s] / 4 + 1;
        for (gsize start = 0; start < sizes[s]; start += piece)
          append_frame (frames, bytes, start, MIN (start + piece, sizes[s]), FALSE);
        send_all (all, frames); /* so that there is something to refer to */
        g_test_message ("size %zu row %zu", sizes[s], i);
        check_steps (self, bytes, rows[i], G_N_ELEMENTS (rows[i]));
      }
}

/* However a small blob came, it is kept whole. */
static void
test_small_by_frames (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 1, 1000, MiB, MiB + 1 };
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GBytes) bytes = fixture_bytes (BYTES_TEXT, 3, sizes[i]);
      g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
      g_autoptr (GByteArray) frames = g_byte_array_new ();
      Digest digest = fixture_digest (bytes, DIGEST_SHA256);
      BlobInfo info;
      append_frame (frames, bytes, 0, sizes[i], FALSE);
      send_all (session, frames);
      finish (self, session, bytes, DIGEST_SHA256);
      g_assert_true (blob_store_stat (NULL, self->blobs, &digest, &info, NULL));
      g_assert_cmpuint (info.n_chunks, ==, sizes[i] > MiB ? 1 : 0);
    }
}

/* Refused frames, each after a good one: what was taken before stays. */
static void
expect_refused (StorageFixture *self, const GByteArray *bad, AmErrorCode code, const char *reason)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_BF16, 4, 2 * MiB);
  g_autoptr (GByteArray) frames = g_byte_array_new (), rest = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  UploadSession *session = upload_session_new (self->blobs, REPOSITORY);
  append_frame (frames, bytes, 0, MiB, FALSE);
  append_frame (rest, bytes, MiB, 2 * MiB, FALSE);
  send_all (session, frames);
  gboolean refused = !send_frames (session, bad, 1000, &error) || !upload_session_frames_end (session, &error);
  g_assert_true (refused);
  fixture_assert_error (&error, code, reason);
  fixture_assert_ok (upload_session_save (NULL, session, &error), error);
  session = reopen (self, session);
  g_assert_cmpuint (upload_session_offset (session), ==, MiB);
  send_all (session, rest);
  finish (self, session, bytes, DIGEST_SHA256);
  upload_session_free (session);
}

static void
test_refused (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) other = fixture_bytes (BYTES_F32, 5, 100000);
  g_autoptr (GByteArray) frame = g_byte_array_new (), bad = g_byte_array_new ();
  ChunkHeader header;
  append_frame (frame, other, 0, 100000, FALSE);
  /* Another's digest in a sound header. */
  g_byte_array_append (bad, frame->data, frame->len);
  g_assert_true (chunk_header_read (bad->data, &header, NULL));
  header.digest.bytes[7] ^= 1;
  chunk_header_write (&header, bad->data);
  expect_refused (self, bad, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID");
  /* A flip in the last byte. */
  g_byte_array_set_size (bad, 0);
  g_byte_array_append (bad, frame->data, frame->len);
  bad->data[bad->len - 1] ^= 1;
  expect_refused (self, bad, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID");
  /* Cut short, at a header's end and inside. */
  const guint cuts[] = { 1, CHUNK_HEADER_SIZE - 1, CHUNK_HEADER_SIZE, CHUNK_HEADER_SIZE + 10, frame->len - 1 };
  for (gsize i = 0; i < G_N_ELEMENTS (cuts); i++)
    {
      g_byte_array_set_size (bad, 0);
      g_byte_array_append (bad, frame->data, cuts[i]);
      expect_refused (self, bad, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID");
    }
  /* A reference to nothing. */
  g_byte_array_set_size (bad, 0);
  append_frame (bad, other, 10, 500, TRUE);
  expect_refused (self, bad, AM_ERROR_FAILED_PRECONDITION, "CHUNK_UNKNOWN");
  g_assert_cmpuint (fixture_count (self->fs, "_ai_models/chunks/"), ==, 2); /* of the good blob alone */
}

static void
test_refused_references (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) other = fixture_bytes (BYTES_F32, 6, 2 * MiB);
  g_autoptr (GByteArray) frame = g_byte_array_new (), ref = g_byte_array_new ();
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
  ChunkHeader header;
  append_frame (frame, other, 0, 2 * MiB, FALSE);
  append_frame (ref, other, 0, 2 * MiB, TRUE);
  send_all (session, frame);
  finish (self, session, other, DIGEST_SHA256);
  /* Another size than the chunk has. */
  g_assert_true (chunk_header_read (ref->data, &header, NULL));
  for (gint by = -1; by <= 1; by += 2)
    {
      header.decoded_size = (guint32) (2 * (gint) MiB + by);
      chunk_header_write (&header, ref->data);
      expect_refused (self, ref, AM_ERROR_INVALID_ARGUMENT, "CHUNK_INVALID");
    }
  header.decoded_size = 2 * MiB;
  chunk_header_write (&header, ref->data);
  /* The chunk is damaged, in its header and behind; or holds another's bytes. */
  g_autofree char *key = chunk_key (header.digest.bytes);
  const gsize flips[] = { 3, CHUNK_HEADER_SIZE, frame->len - 1 };
  for (gsize i = 0; i < G_N_ELEMENTS (flips); i++)
    {
      fixture_flip (self, key, flips[i], 1);
      expect_refused (self, ref, AM_ERROR_FAILED_PRECONDITION, "CHUNK_UNKNOWN");
      fixture_flip (self, key, flips[i], 1);
    }
  g_autoptr (GBytes) forged = fixture_bytes (BYTES_F32, 7, 2 * MiB);
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  g_autofree char *path = fixture_path (self, key);
  g_byte_array_set_size (frame, 0);
  chunk_encode (encoder, 4, g_bytes_get_data (forged, NULL), 2 * MiB, &header.digest, frame);
  g_assert_true (g_file_set_contents (path, (const char *) frame->data, (gssize) frame->len, NULL));
  expect_refused (self, ref, AM_ERROR_FAILED_PRECONDITION, "CHUNK_UNKNOWN");
}

/* A damaged chunk is mended by whoever sends it whole. */
static void
test_mends (StorageFixture *self, gconstpointer data)
{
  g_autoptr (GBytes) bytes = fixture_bytes (BYTES_BF16, 8, 3 * MiB);
  Digest digest = fixture_upload (self, bytes);
  g_autoptr (GError) error = NULL;
  g_autoptr (Recipe) recipe = blob_store_recipe (NULL, self->blobs, &digest, &error);
  g_autofree char *key = chunk_key (g_array_index (recipe->entries, RecipeEntry, 0).digest);
  fixture_flip (self, key, 1000, 1);
  g_assert_false (blob_store_verify (NULL, self->blobs, &digest, NULL, NULL, &error));
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, "ChunkCorrupt");
  fixture_upload (self, bytes);
  fixture_assert_ok (blob_store_verify (NULL, self->blobs, &digest, NULL, NULL, &error), error);
}

typedef struct {
  const StorageFixture *self;
  GBytes *bytes;
  gsize piece;
} Writer;

static gpointer
write_blob (gpointer data)
{
  Writer *writer = data;
  g_autoptr (UploadSession) session = upload_session_new (writer->self->blobs, REPOSITORY);
  g_autoptr (GError) error = NULL;
  Digest digest = fixture_digest (writer->bytes, DIGEST_SHA256);
  gsize size = g_bytes_get_size (writer->bytes);
  for (gsize at = 0; at < size; at += writer->piece)
    send_raw (session, writer->bytes, at, MIN (at + writer->piece, size));
  fixture_assert_ok (upload_session_finish (NULL, session, &digest, &error), error);
  return NULL;
}

/* Several write one blob at once, and one that shares most of its chunks. */
static void
test_writers_at_once (StorageFixture *self, gconstpointer data)
{
  static const gsize sizes[] = { 2 * MiB, 3 * MiB, 1000 };
  static const gsize last[] = { 2 * MiB, 3 * MiB, 1002 };
  g_autoptr (GBytes) one = fixture_safetensors (10, "BF16", 2, sizes, 3, 1000);
  g_autoptr (GBytes) other = fixture_safetensors (10, "BF16", 2, last, 3, 1000);
  Writer writers[] = { { self, one, 70000 }, { self, other, MiB }, { self, one, 3 * MiB }, { self, one, 4096 } };
  GThread *threads[G_N_ELEMENTS (writers)];
  for (gsize i = 0; i < G_N_ELEMENTS (writers); i++)
    threads[i] = g_thread_new ("writer", write_blob, &writers[i]);
  for (gsize i = 0; i < G_N_ELEMENTS (writers); i++)
    g_thread_join (threads[i]);
  Digest one_digest = fixture_digest (one, DIGEST_SHA256), other_digest = fixture_digest (other, DIGEST_SHA256);
  fixture_assert_blob (self, &one_digest, one);
  fixture_assert_blob (self, &other_digest, other);
  /* Two headers, two large tensors that both have, two small ones. */
  g_assert_cmpuint (fixture_count (self->fs, "_ai_models/chunks/"), ==, 6);
  g_assert_cmpuint (fixture_count (self->fs, "docker/"), ==, 2);
  g_assert_cmpuint (fixture_count (self->fs, "_ai_models/uploads/"), ==, 0);
}

/* One is in the middle when another finishes the same blob. */
static void
test_overtaken_writer (StorageFixture *self, gconstpointer data)
{
  static const gsize stops[] = { 10, MiB, MiB + 1, 5 * MiB };
  for (gsize i = 0; i < G_N_ELEMENTS (stops); i++)
    {
      g_autoptr (GBytes) bytes = fixture_bytes (BYTES_RANDOM, 20 + (guint) i, 5 * MiB);
      g_autoptr (UploadSession) session = upload_session_new (self->blobs, REPOSITORY);
      send_raw (session, bytes, 0, stops[i]);
      fixture_upload (self, bytes);
      send_raw (session, bytes, stops[i], 5 * MiB);
      finish (self, session, bytes, DIGEST_SHA256);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  STORAGE_TEST ("/blob-ingest/frames", test_frames);
  STORAGE_TEST_BOTH ("/blob-ingest/mixed", test_mixed);
  STORAGE_TEST ("/blob-ingest/small-by-frames", test_small_by_frames);
  STORAGE_TEST ("/blob-ingest/refused", test_refused);
  STORAGE_TEST_BOTH ("/blob-ingest/refused-references", test_refused_references);
  STORAGE_TEST ("/blob-ingest/mends", test_mends);
  STORAGE_TEST_BOTH ("/blob-ingest/writers-at-once", test_writers_at_once);
  STORAGE_TEST_BOTH ("/blob-ingest/overtaken-writer", test_overtaken_writer);
  return g_test_run ();
}
