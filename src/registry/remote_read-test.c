/* Reading blobs, manifests and tags from registries that lie, break or stall. */
#include <string.h>

#include "oci/manifest.h"
#include "registry/registry_fixture.h"
#include "registry/scripted_registry.h"

#define BLOB_BYTES 50000u
#define BLOBS "/v2/team/m/blobs/*"

typedef struct {
  ScriptedRegistry home, other;
  Repository *repository;
  GBytes *blob;
  Digest digest;
  GByteArray *got;
  GError *error;
} Fixture;

static void
fixture_start (Fixture *self, const ScriptRule *rules, guint n_rules, gint64 no_progress_ms)
{
  static const ScriptRule never[] = { { NULL, "*", .status = 200, .text = "{}" } };
  scripted_registry_start (&self->other, never, G_N_ELEMENTS (never), NULL);
  scripted_registry_start (&self->home, rules, n_rules, &self->other);
  self->repository = scripted_registry_client (&self->home, no_progress_ms);
  self->got = g_byte_array_new ();
}

static void
fixture_clear (Fixture *self)
{
  repository_free (self->repository);
  scripted_registry_stop (&self->home);
  scripted_registry_stop (&self->other);
  g_byte_array_unref (self->got);
  g_clear_error (&self->error);
  g_clear_pointer (&self->blob, g_bytes_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Fixture, fixture_clear)

static gboolean
read_blob (Fixture *self)
{
  fixture_digest (self->blob, &self->digest);
  return repository_read_blob (NULL, self->repository, &self->digest, 0, g_bytes_get_size (self->blob),
                               fixture_append, self->got, &self->error);
}

static void
assert_got_blob (Fixture *self)
{
  g_assert_no_error (self->error);
  g_assert_cmpmem (self->got->data, self->got->len, g_bytes_get_data (self->blob, NULL),
                   g_bytes_get_size (self->blob));
}

/* Each answer is a lie that is seen before a byte of it is taken. */
static void
test_lies (void)
{
  g_autoptr (GBytes) blob = fixture_noise (BLOB_BYTES, 1);
  g_autoptr (GBytes) shorter = g_bytes_new_from_bytes (blob, 0, 100);
  const struct {
    guint status;
    const char *headers;
    GBytes *blob;
  } lies[] = {
    { 206, "Content-Range: bytes 1-49999/50000", blob },
    { 206, "Content-Range: bytes 0-49998/50000", blob },
    { 206, "Content-Range: bytes 0-50000/50001", blob },
    { 206, "Content-Range: bytes */50000", blob },
    { 206, "Content-Range: lines 0-49999/50000", blob },
    { 206, "Content-Range: bytes 49999-0/50000", blob },
    { 206, "Content-Range: ", blob },
    { 200, NULL, shorter },
    { 200, "Content-Encoding: gzip", blob },
    { 206, "Content-Encoding: br", blob },
  };
  for (guint i = 0; i < G_N_ELEMENTS (lies); i++)
    {
      const ScriptRule rules[] = { { "GET", BLOBS, .status = lies[i].status, .headers = lies[i].headers,
                                     .blob = lies[i].blob } };
      g_auto (Fixture) self = { .blob = g_bytes_ref (blob) };
      fixture_start (&self, rules, 1, 0);
      g_test_message ("%u %s", lies[i].status, lies[i].headers);
      g_assert_false (read_blob (&self));
      g_assert_true (am_error_has_reason (self.error, "BlobCorrupt"));
      char text[DIGEST_STRING_SIZE];
      g_assert_nonnull (strstr (self.error->message, digest_format (&self.digest, text)));
      g_assert_nonnull (strstr (self.error->message, self.repository->display));
      g_assert_cmpuint (self.got->len, ==, 0);
      g_assert_cmpuint (scripted_registry_count (&self.home, "*"), ==, 1);
    }
}

/* A body that never ends is cut off where the blob ends. */
static void
test_endless (void)
{
  const ScriptRule rules[] = { { "GET", BLOBS, .status = 200, .blob = fixture_noise (BLOB_BYTES, 1),
                                 .is_endless = TRUE } };
  g_auto (Fixture) self = { .blob = rules[0].blob };
  fixture_start (&self, rules, 1, 0);
  read_blob (&self);
  assert_got_blob (&self);
}

/* The same where exactly the asked range was promised: that is a lie. */
static void
test_endless_range (void)
{
  const ScriptRule rules[] = { { "GET", BLOBS, .status = 206, .blob = fixture_noise (BLOB_BYTES, 1),
                                 .is_endless = TRUE } };
  g_auto (Fixture) self = { .blob = rules[0].blob };
  fixture_start (&self, rules, 1, 0);
  g_assert_false (read_blob (&self));
  g_assert_true (am_error_has_reason (self.error, "BlobCorrupt"));
  g_assert_cmpuint (self.got->len, <=, BLOB_BYTES);
}

/* After a break it goes on where it stopped, whether the registry knows ranges or not. */
static void
test_breaks (void)
{
  static const guint statuses[] = { 206, 200 };
  g_autoptr (GBytes) blob = fixture_noise (BLOB_BYTES, 1);
  for (guint i = 0; i < G_N_ELEMENTS (statuses); i++)
    {
      const ScriptRule rules[] = {
        { "GET", BLOBS, .times = 1, .status = statuses[i], .blob = blob, .cut_after = 30000 },
        { "GET", BLOBS, .times = 1, .status = 500 },
        { "GET", BLOBS, .times = 1, .status = statuses[i], .blob = blob, .cut_after = 49000 },
        { "GET", BLOBS, .status = statuses[i], .blob = blob },
      };
      g_auto (Fixture) self = { .blob = g_bytes_ref (blob) };
      fixture_start (&self, rules, G_N_ELEMENTS (rules), 0);
      read_blob (&self);
      assert_got_blob (&self);
      g_assert_cmpuint (scripted_registry_count (&self.home, "*range=bytes=30000-49999*"), ==, 2);
    }
}

static void
test_stalls (void)
{
  g_autoptr (GBytes) blob = fixture_noise (BLOB_BYTES, 1);
  const ScriptRule rules[] = {
    { "GET", BLOBS, .times = 1, .status = 206, .blob = blob, .stall_after = 20000 },
    { "GET", BLOBS, .status = 206, .blob = blob },
  };
  g_auto (Fixture) self = { .blob = g_bytes_ref (blob) };
  fixture_start (&self, rules, G_N_ELEMENTS (rules), 300);
  read_blob (&self);
  assert_got_blob (&self);
  g_assert_cmpuint (scripted_registry_count (&self.home, "*range=bytes=20000-49999*"), ==, 1);
}

/* Without progress the attempts end, and the error says what happened. */
static void
test_gives_up (void)
{
  const ScriptRule rules[] = { { "GET", BLOBS, .status = 206, .blob = fixture_noise (BLOB_BYTES, 1),
                                 .is_silent = TRUE } };
  g_auto (Fixture) self = { .blob = rules[0].blob };
  fixture_start (&self, rules, 1, 100);
  g_assert_false (read_blob (&self));
  g_assert_error (self.error, AM_ERROR, AM_ERROR_UNAVAILABLE);
  g_assert_nonnull (strstr (self.error->message, "no progress in 6 attempts"));
  g_assert_nonnull (strstr (self.error->message, "no byte moved"));
}

static void
test_absent (void)
{
  g_auto (Fixture) self = { .blob = fixture_noise (10, 1) };
  fixture_start (&self, NULL, 0, 0);
  g_assert_false (read_blob (&self));
  g_assert_true (am_error_has_reason (self.error, "BLOB_UNKNOWN"));
  g_assert_nonnull (strstr (self.error->message, self.repository->display));
  g_assert_cmpuint (scripted_registry_count (&self.home, "*"), ==, 1);
}

/* A store behind the registry that takes no HEAD: the size is found out all the same. */
static void
test_size_behind_redirect (void)
{
  g_autoptr (GBytes) blob = fixture_noise (BLOB_BYTES, 1);
  const ScriptRule rules[] = {
    { "HEAD", BLOBS, .status = 307, .headers = "Location: @HERE@/data" },
    { "GET", BLOBS, .status = 307, .headers = "Location: @HERE@/data" },
    { "GET", "/data", .status = 206, .blob = blob },
  };
  g_auto (Fixture) self = { .blob = g_bytes_ref (blob) };
  guint64 size = 0;
  fixture_start (&self, rules, G_N_ELEMENTS (rules), 0);
  fixture_digest (self.blob, &self.digest);
  repository_blob_exists (NULL, self.repository, &self.digest, &size, &self.error);
  g_assert_no_error (self.error);
  g_assert_cmpuint (size, ==, BLOB_BYTES);
}

#define MANIFEST                                                                                            \
  "{\"schemaVersion\":2,\"mediaType\":\"" OCI_MANIFEST "\",\"config\":{\"mediaType\":\"a/b\",\"digest\":\"" \
  "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\",\"size\":0},\"layers\":[]}"
#define ANOTHER "sha256:0000000000000000000000000000000000000000000000000000000000000000"

/* What comes is checked against what was asked for and against what the registry says it is. */
static void
test_manifests (void)
{
  static const struct {
    guint status;
    const char *headers, *text, *reference, *reason;
    AmErrorCode code;
  } rows[] = {
    { 200, NULL, MANIFEST, "v1", NULL, 0 },
    { 200, NULL, MANIFEST, ANOTHER, "DIGEST_INVALID", AM_ERROR_DATA_LOSS },
    { 200, "Docker-Content-Digest: " ANOTHER, MANIFEST, "v1", "DIGEST_INVALID", AM_ERROR_DATA_LOSS },
    { 200, "Docker-Content-Digest: rubbish", MANIFEST, "v1", NULL, 0 },
    { 200, "Content-Type: text/html", "<html>log in</html>", "v1", NULL, AM_ERROR_INVALID_ARGUMENT },
    { 200, NULL, "", "v1", NULL, AM_ERROR_INVALID_ARGUMENT },
    { 404, NULL, "", "v1", "MANIFEST_UNKNOWN", AM_ERROR_NOT_FOUND },
    { 403, NULL, "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"no\"}]}", "v1", "DENIED",
      AM_ERROR_PERMISSION_DENIED },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = { { "GET", "*/manifests/*", .status = rows[i].status, .headers = rows[i].headers,
                                     .text = rows[i].text } };
      g_auto (Fixture) self = { 0 };
      g_autofree char *type = NULL;
      fixture_start (&self, rules, 1, 0);
      g_autoptr (GBytes) bytes = repository_get_manifest (NULL, self.repository, rows[i].reference, &type, NULL,
                                                          &self.error);
      g_test_message ("row %u: %s", i, self.error != NULL ? self.error->message : "fine");
      if (rows[i].code == 0)
        {
          g_assert_no_error (self.error);
          g_assert_cmpstr (type, ==, OCI_MANIFEST);
          continue;
        }
      g_assert_null (bytes);
      g_assert_error (self.error, AM_ERROR, (gint) rows[i].code);
      g_assert_true (rows[i].reason == NULL || am_error_has_reason (self.error, rows[i].reason));
      g_assert_nonnull (strstr (self.error->message, self.repository->display));
    }
}

static void
test_huge_manifest (void)
{
  const ScriptRule rules[] = { { "GET", "*", .status = 200, .text = MANIFEST, .is_endless = TRUE } };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, rules, 1, 0);
  g_assert_null (repository_get_manifest (NULL, self.repository, "v1", NULL, NULL, &self.error));
  g_assert_error (self.error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
  g_assert_nonnull (strstr (self.error->message, "larger than 4194304 bytes"));
}

static void
test_put_manifest (void)
{
  static const ScriptRule rules[] = {
    { "PUT", "*", .times = 2, .status = 503 },
    { "PUT", "*", .times = 1, .status = 429, .headers = "Retry-After: 0" },
    { "PUT", "*", .times = 1, .status = 201 },
    { "PUT", "*", .status = 201, .headers = "Docker-Content-Digest: " ANOTHER },
  };
  g_autoptr (GBytes) bytes = g_bytes_new_static (MANIFEST, strlen (MANIFEST));
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, rules, G_N_ELEMENTS (rules), 0);
  repository_put_manifest (NULL, self.repository, "v1", OCI_MANIFEST, bytes, NULL, &self.error);
  g_assert_no_error (self.error);
  g_assert_cmpuint (scripted_registry_count (&self.home, "PUT *"), ==, 4);
  g_assert_false (repository_put_manifest (NULL, self.repository, "v1", OCI_MANIFEST, bytes, NULL, &self.error));
  g_assert_true (am_error_has_reason (self.error, "DIGEST_INVALID"));
  g_assert_nonnull (strstr (self.error->message, self.repository->display));
}

static void
test_tag_pages (void)
{
  static const ScriptRule rules[] = {
    { "GET", "*last=d", .status = 200, .text = "{\"tags\":[\"e\",\"a\"]}",
      .headers = "Link: <?last=d>; rel=\"next\"" },
    { "GET", "*last=b", .status = 200, .text = "{\"tags\":[\"c\",\"d\",7,\"../x\"]}",
      .headers = "Link: <@HERE@/v2/team/m/tags/list?last=d>;rel=next" },
    { "GET", "*", .status = 200, .text = "{\"tags\":[\"a\",\"b\"]}",
      .headers = "Link: </v2/team/m/tags/list?n=1000&last=b>; rel=\"next\"" },
  };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, rules, G_N_ELEMENTS (rules), 0);
  g_autoptr (GPtrArray) tags = repository_list_tags (NULL, self.repository, &self.error);
  g_assert_no_error (self.error);
  g_ptr_array_add (tags, NULL);
  g_autofree char *joined = g_strjoinv (" ", (char **) tags->pdata);
  g_assert_cmpstr (joined, ==, "a b c d e");
}

/* A page may hold nothing and lead on. */
static void
test_empty_tag_page (void)
{
  static const ScriptRule rules[] = {
    { "GET", "*last=b", .status = 200, .text = "{\"tags\":[\"c\"]}" },
    { "GET", "*last=a", .status = 200, .text = "{\"tags\":null}", .headers = "Link: <?last=b>; rel=\"next\"" },
    { "GET", "*", .status = 200, .text = "{\"tags\":[]}", .headers = "Link: <?last=a>; rel=\"next\"" },
  };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, rules, G_N_ELEMENTS (rules), 0);
  g_autoptr (GPtrArray) tags = repository_list_tags (NULL, self.repository, &self.error);
  g_assert_no_error (self.error);
  g_assert_cmpuint (tags->len, ==, 1);
  g_assert_cmpstr (tags->pdata[0], ==, "c");
}

/* Half a list is no list: what leads elsewhere or never ends is an error. */
static void
test_bad_tag_pages (void)
{
  static const struct {
    const char *text, *headers, *said;
  } rows[] = {
    { "{\"tags\":[\"a\"]}", "Link: <@OTHER@/v2/team/m/tags/list?last=a>; rel=\"next\"", "another host" },
    { "{\"tags\":[\"a\"]}", "Link: <ftp://x/y>; rel=\"next\"", "another host" },
    { "{\"tags\":[\"a\"", NULL, "list of tags" },
    { "", NULL, "list of tags" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = { { "GET", "*", .status = 200, .text = rows[i].text, .headers = rows[i].headers } };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, rules, 1, 0);
      g_assert_null (repository_list_tags (NULL, self.repository, &self.error));
      g_assert_nonnull (self.error);
      g_assert_nonnull (strstr (self.error->message, rows[i].said));
      g_assert_nonnull (strstr (self.error->message, self.repository->display));
      g_assert_cmpuint (scripted_registry_count (&self.other, "*"), ==, 0);
    }
}

static void
test_remove (void)
{
  static const struct {
    guint status;
    const char *reason;
  } rows[] = { { 202, NULL }, { 405, "UNSUPPORTED" }, { 400, "UNSUPPORTED" }, { 404, "MANIFEST_UNKNOWN" } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = { { "DELETE", "*/manifests/v1", .status = rows[i].status } };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, rules, 1, 0);
      g_assert_cmpint (repository_remove_manifest (NULL, self.repository, "v1", &self.error), ==,
                       rows[i].reason == NULL);
      g_assert_true (rows[i].reason == NULL || am_error_has_reason (self.error, rows[i].reason));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/remote-read/lies", test_lies);
  g_test_add_func ("/remote-read/endless", test_endless);
  g_test_add_func ("/remote-read/endless-range", test_endless_range);
  g_test_add_func ("/remote-read/breaks", test_breaks);
  g_test_add_func ("/remote-read/stalls", test_stalls);
  g_test_add_func ("/remote-read/gives-up", test_gives_up);
  g_test_add_func ("/remote-read/absent", test_absent);
  g_test_add_func ("/remote-read/size-behind-redirect", test_size_behind_redirect);
  g_test_add_func ("/remote-read/manifests", test_manifests);
  g_test_add_func ("/remote-read/huge-manifest", test_huge_manifest);
  g_test_add_func ("/remote-read/put-manifest", test_put_manifest);
  g_test_add_func ("/remote-read/tag-pages", test_tag_pages);
  g_test_add_func ("/remote-read/empty-tag-page", test_empty_tag_page);
  g_test_add_func ("/remote-read/bad-tag-pages", test_bad_tag_pages);
  g_test_add_func ("/remote-read/remove", test_remove);
  return g_test_run ();
}
