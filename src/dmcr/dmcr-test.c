#include "dmcr/dmcr_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "oci/media_types.h"
#include "storage/chunk_frame.h"

static char *
start_upload (DmcrFixture *self, const char *repository)
{
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *path = g_strdup_printf ("/v2/%s/blobs/uploads/", repository);
  g_assert_cmpuint (dmcr_fixture_call (self, "POST", path, NULL, "", 0, &reply), ==, 202);
  g_assert_cmpstr (http_reply_header (&reply, "x-ai-models-chunks"), ==, "1");
  return g_strdup (http_reply_header (&reply, "location"));
}

static char *
with_digest (const char *location, gconstpointer data, gsize size, DigestAlgorithm algorithm)
{
  Digest digest;
  char text[DIGEST_STRING_SIZE];
  digest_of (algorithm, data, size, &digest);
  return g_strdup_printf ("%s?digest=%s", location, digest_format (&digest, text));
}

/* Bytes that look like nothing, more than one chunk of them. */
static GByteArray *
sample (gsize size)
{
  GByteArray *bytes = g_byte_array_sized_new ((guint) size);
  guint64 state = 88172645463325252ull;
  while (bytes->len < size)
    {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      g_byte_array_append (bytes, (const guint8 *) &state, sizeof state);
    }
  g_byte_array_set_size (bytes, (guint) size);
  return bytes;
}

static void
expect_blob (DmcrFixture *self, const char *repository, const guint8 *data, gsize size)
{
  g_auto (HttpReply) reply = { 0 };
  Digest digest;
  char text[DIGEST_STRING_SIZE];
  digest_of (DIGEST_SHA256, data, size, &digest);
  g_autofree char *path = g_strdup_printf ("/v2/%s/blobs/%s", repository, digest_format (&digest, text));
  g_autoptr (GError) error = NULL;
  g_autofree char *url = g_strconcat (self->base, path, NULL);
  HttpCall http = { .method = "GET", .url = url, .reply_limit_bytes = 64u << 20 };
  g_assert_true (http_client_call (self->ctx, self->client, &http, &reply, &error));
  g_assert_cmpmem (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), data, size);
}

/* PATCH in pieces across the small-blob limit and a chunk boundary, refused out of order, resumed. */
static void
test_chunked_upload (DmcrFixture *self, gconstpointer data)
{
  static const gsize cuts[] = { 0, 1, 700000, 1500000, 9000000, 9000001, 20000000 };
  g_autoptr (GByteArray) bytes = sample (20000000);
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *location = start_upload (self, "team/a");
  for (gsize i = 0; i + 1 < G_N_ELEMENTS (cuts); i++)
    {
      g_autofree char *range = g_strdup_printf ("Content-Range: %" G_GSIZE_FORMAT "-%" G_GSIZE_FORMAT, cuts[i],
                                                cuts[i + 1] - 1);
      g_autofree char *offset = g_strdup_printf ("%" G_GSIZE_FORMAT, cuts[i]);
      g_assert_cmpuint (dmcr_fixture_call (self, "PATCH", location, "Content-Range: 5000-5003", "late", 4, &reply),
                        ==, 416);
      g_assert_cmpstr (http_reply_header (&reply, "x-ai-models-upload-offset"), ==, offset);
      g_assert_cmpuint (dmcr_fixture_call (self, "PATCH", location, "Content-Range: 4-3", "late", 4, &reply), ==,
                        400);
      g_assert_cmpuint (
        dmcr_fixture_call (self, "PATCH", location, range, bytes->data + cuts[i], cuts[i + 1] - cuts[i], &reply), ==,
        202);
      g_assert_cmpuint (dmcr_fixture_call (self, "GET", location, NULL, NULL, 0, &reply), ==, 204);
      g_autofree char *expected = g_strdup_printf ("0-%" G_GSIZE_FORMAT, cuts[i + 1] - 1);
      g_assert_cmpstr (http_reply_header (&reply, "range"), ==, expected);
    }
  g_autofree char *end = with_digest (location, bytes->data, bytes->len, DIGEST_SHA256);
  g_assert_cmpuint (dmcr_fixture_call (self, "PUT", end, NULL, "", 0, &reply), ==, 201);
  expect_blob (self, "team/a", bytes->data, bytes->len);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", location, NULL, NULL, 0, &reply), ==, 404);
}

static void
test_wrong_digest (DmcrFixture *self, gconstpointer data)
{
  g_autoptr (GByteArray) bytes = sample (3000000);
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *location = start_upload (self, "team/a");
  g_autofree char *wrong = with_digest (location, bytes->data, bytes->len - 1, DIGEST_SHA256);
  g_assert_cmpuint (dmcr_fixture_call (self, "PUT", wrong, NULL, bytes->data, bytes->len, &reply), ==, 400);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", location, NULL, NULL, 0, &reply), ==, 404);
  const char *blob = strstr (wrong, "sha256:");
  g_autofree char *path = g_strdup_printf ("/v2/team/a/blobs/%s", blob);
  g_assert_cmpuint (dmcr_fixture_call (self, "HEAD", path, NULL, NULL, 0, &reply), ==, 404);
}

static void
test_other_algorithm (DmcrFixture *self, gconstpointer data)
{
  g_autoptr (GByteArray) bytes = sample (3000000);
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *location = start_upload (self, "team/a");
  g_autofree char *end = with_digest (location, bytes->data, bytes->len, DIGEST_SHA512);
  g_assert_cmpuint (dmcr_fixture_call (self, "PUT", end, NULL, bytes->data, bytes->len, &reply), ==, 201);
  g_autofree char *path = g_strdup_printf ("/v2/team/a/blobs/%s", strstr (end, "sha512:"));
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, "Range: bytes=2999990-", NULL, 0, &reply), ==, 206);
  g_assert_cmpmem (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), bytes->data + 2999990, 10);
}

/* Frames in, a reference to a known chunk, a reference to an unknown one, and frames out. */
static void
test_chunk_wire (DmcrFixture *self, gconstpointer data)
{
  g_autoptr (GByteArray) bytes = sample (2000000);
  g_autoptr (ChunkEncoder) encoder = chunk_encoder_new ();
  g_autoptr (GByteArray) frames = g_byte_array_new ();
  g_auto (HttpReply) reply = { 0 };
  ChunkDigest digest;
  blake3_of (bytes->data, bytes->len, digest.bytes);
  chunk_encode (encoder, 0, bytes->data, bytes->len, &digest, frames);
  g_autofree char *location = start_upload (self, "team/a");
  g_autofree char *known = g_strconcat (location, "/known", NULL);
  const char *type = "Content-Type: " WIRE_CHUNKS;
  g_assert_cmpuint (dmcr_fixture_call (self, "POST", known, NULL, digest.bytes, 32, &reply), ==, 200);
  g_assert_cmpmem (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), "0", 1);
  g_assert_cmpuint (dmcr_fixture_call (self, "PATCH", location, type, frames->data, frames->len, &reply), ==, 202);
  g_assert_cmpuint (dmcr_fixture_call (self, "POST", known, NULL, digest.bytes, 32, &reply), ==, 200);
  g_assert_cmpmem (g_bytes_get_data (reply.body, NULL), g_bytes_get_size (reply.body), "1", 1);
  guint8 reference[CHUNK_HEADER_SIZE];
  ChunkHeader header = { CHUNK_ENCODING_REF, bytes->len, 0, digest };
  chunk_header_write (&header, reference);
  g_assert_cmpuint (dmcr_fixture_call (self, "PATCH", location, type, reference, sizeof reference, &reply), ==, 202);
  g_assert_cmpstr (http_reply_header (&reply, "x-ai-models-upload-offset"), ==, "4000000");
  header.digest.bytes[0] ^= 1;
  chunk_header_write (&header, reference);
  g_assert_cmpuint (dmcr_fixture_call (self, "PATCH", location, type, reference, sizeof reference, &reply), ==, 409);
  g_assert_cmpuint (dmcr_fixture_call (self, "PATCH", location, type, frames->data, frames->len - 1, &reply), ==,
                    400);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", location, NULL, NULL, 0, &reply), ==, 204);
  g_assert_cmpstr (http_reply_header (&reply, "x-ai-models-upload-offset"), ==, "4000000");
  g_autoptr (GByteArray) twice = g_byte_array_new ();
  g_byte_array_append (twice, bytes->data, bytes->len);
  g_byte_array_append (twice, bytes->data, bytes->len);
  g_autofree char *end = with_digest (location, twice->data, twice->len, DIGEST_SHA256);
  g_assert_cmpuint (dmcr_fixture_call (self, "PUT", end, NULL, "", 0, &reply), ==, 201);
  expect_blob (self, "team/a", twice->data, twice->len);
  g_autofree char *path = g_strdup_printf ("/v2/team/a/blobs/%s", strstr (end, "sha256:"));
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, "Accept: " WIRE_CHUNKS, NULL, 0, &reply), ==, 200);
  g_assert_cmpstr (http_reply_header (&reply, "x-ai-models-decoded-range"), ==, "0-3999999");
  g_assert_cmpuint (g_bytes_get_size (reply.body), ==, 2 * frames->len);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, "Accept: " WIRE_RECIPE, NULL, 0, &reply), ==, 200);
  g_assert_cmpstr (http_reply_header (&reply, "content-type"), ==, WIRE_RECIPE);
}

static void
test_mount_and_membership (DmcrFixture *self, gconstpointer data)
{
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *location = start_upload (self, "team/a");
  g_autofree char *end = with_digest (location, "hello", 5, DIGEST_SHA256);
  const char *digest = strstr (end, "sha256:");
  g_assert_cmpuint (dmcr_fixture_call (self, "PUT", end, NULL, "hello", 5, &reply), ==, 201);
  g_autofree char *elsewhere = g_strdup_printf ("/v2/team/b/blobs/%s", digest);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", elsewhere, NULL, NULL, 0, &reply), ==, 404);
  g_autofree char *wrong = g_strdup_printf ("/v2/team/b/blobs/uploads/?mount=%s&from=team/c", digest);
  g_assert_cmpuint (dmcr_fixture_call (self, "POST", wrong, NULL, "", 0, &reply), ==, 202);
  g_autofree char *mount = g_strdup_printf ("/v2/team/b/blobs/uploads/?mount=%s&from=team/a", digest);
  g_assert_cmpuint (dmcr_fixture_call (self, "POST", mount, NULL, "", 0, &reply), ==, 201);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", elsewhere, NULL, NULL, 0, &reply), ==, 200);
  g_assert_cmpuint (dmcr_fixture_call (self, "DELETE", elsewhere, NULL, NULL, 0, &reply), ==, 202);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", elsewhere, NULL, NULL, 0, &reply), ==, 404);
  expect_blob (self, "team/a", (const guint8 *) "hello", 5);
}

/* Who is told by HEAD that a blob is there may name it in a manifest: its link is made young again. */
static void
test_head_renews_link (DmcrFixture *self, gconstpointer data)
{
  g_auto (HttpReply) reply = { 0 };
  g_autofree char *location = start_upload (self, "team/a");
  g_autofree char *end = with_digest (location, "hello", 5, DIGEST_SHA256);
  const char *digest = strstr (end, "sha256:");
  g_autofree char *blob = g_strdup_printf ("/v2/team/a/blobs/%s", digest);
  g_autofree char *link = g_strdup_printf ("%s/docker/registry/v2/repositories/team/a/_layers/sha256/%s/link",
                                           self->root, digest + strlen ("sha256:"));
  struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = time (NULL) - 13 * 3600 } };
  struct stat info;
  g_assert_cmpuint (dmcr_fixture_call (self, "PUT", end, NULL, "hello", 5, &reply), ==, 201);
  g_assert_cmpint (utimensat (AT_FDCWD, link, times, 0), ==, 0);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", blob, NULL, NULL, 0, &reply), ==, 200);
  g_assert_cmpint (stat (link, &info), ==, 0);
  g_assert_cmpint (info.st_mtim.tv_sec, ==, times[1].tv_sec);
  g_assert_cmpuint (dmcr_fixture_call (self, "HEAD", blob, NULL, NULL, 0, &reply), ==, 200);
  g_assert_cmpint (stat (link, &info), ==, 0);
  g_assert_cmpint (info.st_mtim.tv_sec, >=, times[1].tv_sec + 12 * 3600);
}

static void
test_bad_requests (DmcrFixture *self, gconstpointer data)
{
  static const struct {
    const char *method, *path;
    guint status;
  } rows[] = {
    { "GET", "/v2/Team/manifests/v1", 400 },
    { "GET", "/v2/team/manifests/..", 400 },
    { "GET", "/v2/team/manifests/..", 400 },
    { "GET", "/v2/team/blobs/sha256:abc", 400 },
    { "GET", "/v2/team/blobs/uploads/not-a-uuid", 404 },
    { "GET", "/v2/team/blobs/uploads/123e4567-e89b-42d3-a456-426614174000", 404 },
    { "GET", "/v2/team/tags/list", 404 },
    { "GET", "/v2/team/referrers/sha256:abc", 400 },
    { "POST", "/v2/team/blobs/uploads/?digest=sha256:abc", 400 },
    { "POST", "/v2/team/blobs/uploads/?digest-algorithm=md5", 400 },
    { "DELETE", "/v2/team/manifests/v1", 404 },
    { "GET", "/v3/", 404 },
    { "POST", "/v2/team/blobs/uploads/123e4567-e89b-42d3-a456-426614174000/known", 400 },
    { "PATCH", "/v2/team/blobs/uploads/123e4567-e89b-42d3-a456-426614174000", 404 },
    { "PUT", "/v2/team/blobs/uploads/123e4567-e89b-42d3-a456-426614174000", 400 },
    { "DELETE", "/v2/team/blobs/uploads/123e4567-e89b-42d3-a456-426614174000", 404 },
  };
  g_auto (HttpReply) reply = { 0 };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("%s %s", rows[i].method, rows[i].path);
      g_assert_cmpuint (dmcr_fixture_call (self, rows[i].method, rows[i].path, NULL, NULL, 0, &reply), ==,
                        rows[i].status);
    }
}

#define ADD(name, func) DMCR_TEST (name, func)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/dmcr/chunked-upload", test_chunked_upload);
  ADD ("/dmcr/wrong-digest", test_wrong_digest);
  ADD ("/dmcr/other-algorithm", test_other_algorithm);
  ADD ("/dmcr/chunk-wire", test_chunk_wire);
  ADD ("/dmcr/mount-and-membership", test_mount_and_membership);
  ADD ("/dmcr/head-renews-link", test_head_renews_link);
  ADD ("/dmcr/bad-requests", test_bad_requests);
  return g_test_run ();
}
