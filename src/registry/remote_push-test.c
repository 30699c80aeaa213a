/* Pushing to registries of all manners: where uploads go, what is done when parts of it are refused, and lies. */
#include <string.h>

#include "registry/registry_fixture.h"
#include "registry/scripted_registry.h"

#define MIB (1024u * 1024u)
#define UPLOADS "/v2/team/m/blobs/uploads/"
#define ANOTHER "sha256:0000000000000000000000000000000000000000000000000000000000000000"

typedef struct {
  ScriptedRegistry home, other;
  Repository *repository;
  GBytes *blob;
  Digest digest;
  FixtureProgress progress;
  GError *error;
} Fixture;

static void
fixture_start (Fixture *self, gsize size, const ScriptRule *rules, guint n_rules)
{
  static const ScriptRule takes[] = { { "PUT", "*", .status = 201 } };
  scripted_registry_start (&self->other, takes, G_N_ELEMENTS (takes), NULL);
  scripted_registry_start (&self->home, rules, n_rules, &self->other);
  self->repository = scripted_registry_client (&self->home, 0);
  self->blob = fixture_noise (size + 8, 1);
  GBytes *exact = g_bytes_new_from_bytes (self->blob, 0, size);
  g_bytes_unref (self->blob);
  self->blob = exact;
  fixture_digest (self->blob, &self->digest);
}

static void
fixture_clear (Fixture *self)
{
  repository_free (self->repository);
  scripted_registry_stop (&self->home);
  scripted_registry_stop (&self->other);
  g_clear_error (&self->error);
  g_bytes_unref (self->blob);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Fixture, fixture_clear)

static gboolean
push (Fixture *self, gboolean tell_digest)
{
  g_autoptr (Reader) content = reader_new_bytes (self->blob);
  Digest digest;
  if (!repository_push_blob (NULL, self->repository, content, tell_digest ? &self->digest : NULL, NULL,
                             fixture_progress, &self->progress, &digest, &self->error))
    return FALSE;
  g_assert_true (digest_equal (&digest, &self->digest));
  g_assert_cmpuint (self->progress.logical, ==, g_bytes_get_size (self->blob));
  return TRUE;
}

static void
assert_received (Fixture *self, guint64 from)
{
  gsize size = 0;
  const guint8 *bytes = g_bytes_get_data (self->blob, &size);
  g_assert_no_error (self->error);
  g_assert_cmpmem (self->home.received->data, self->home.received->len, bytes + from, size - from);
}

/* Relative or absolute, with its own query or elsewhere; elsewhere gets no credentials. */
static void
test_locations (void)
{
  static const struct {
    const char *location, *put;
    gboolean elsewhere;
  } rows[] = {
    { "Location: " UPLOADS "1", "PUT " UPLOADS "1?digest=sha256:* auth=" SCRIPT_BASIC " size=5000", FALSE },
    { "Location: 1", "PUT " UPLOADS "1?digest=sha256:* auth=" SCRIPT_BASIC " size=5000", FALSE },
    { "Location: @HERE@/x/1?state=a%2Fb&y=", "PUT /x/1?state=a/b&y=&digest=sha256:* auth=" SCRIPT_BASIC " size=5000",
      FALSE },
    { "Location: @OTHER@/up?sig=s", "PUT /up?sig=s&digest=sha256:* size=5000", TRUE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = {
        { NULL, "*", .unless = SCRIPT_BASIC, .status = 401, .headers = "WWW-Authenticate: Basic realm=\"r\"" },
        { "POST", "*", .status = 202, .headers = rows[i].location },
        { "PUT", "*", .status = 201 },
      };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, 5000, rules, G_N_ELEMENTS (rules));
      push (&self, TRUE);
      g_assert_no_error (self.error);
      g_assert_cmpuint (scripted_registry_count (rows[i].elsewhere ? &self.other : &self.home, rows[i].put), ==, 1);
      g_assert_cmpuint (scripted_registry_count (&self.other, "*auth=*"), ==, 0);
    }
}

static void
test_no_location (void)
{
  static const char *const headers[] = { NULL, "Location: ftp://x/y", "Location: file:///etc/passwd" };
  for (guint i = 0; i < G_N_ELEMENTS (headers); i++)
    {
      const ScriptRule rules[] = { { "POST", "*", .status = 202, .headers = headers[i] } };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, 5000, rules, G_N_ELEMENTS (rules));
      g_assert_false (push (&self, TRUE));
      g_assert_error (self.error, AM_ERROR, AM_ERROR_FAILED_PRECONDITION);
      g_assert_nonnull (strstr (self.error->message, self.repository->display));
      g_assert_nonnull (strstr (self.error->message, "Location"));
    }
}

/* A registry that takes no large body gets pieces, as large as it wants them at least. */
static void
test_pieces (void)
{
  static const ScriptRule rules[] = {
    { "POST", "*", .status = 202, .headers = "Location: " UPLOADS "1\nOCI-Chunk-Min-Length: 6291456" },
    { "PUT", "*", .times = 1, .status = 413 },
    { "PUT", UPLOADS "2?state=n&digest=*", .status = 201 },
    { "PATCH", UPLOADS "1", .times = 1, .status = 202, .headers = "Location: " UPLOADS "2?state=n" },
    { "PATCH", UPLOADS "2?state=n", .status = 202 },
    { "DELETE", UPLOADS "1", .status = 204 },
  };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, 14 * MIB, rules, G_N_ELEMENTS (rules));
  push (&self, TRUE);
  assert_received (&self, 0);
  g_assert_cmpuint (scripted_registry_count (&self.home, "PATCH *content-range=0-6291455 size=6291456"), ==, 1);
  g_assert_cmpuint (scripted_registry_count (&self.home, "PATCH *content-range=12582912-14680063 size=2097152"), ==,
                    1);
  g_assert_cmpuint (scripted_registry_count (&self.home, "DELETE *"), ==, 1); /* of the first attempt's session */
}

/* The registry's own count says where to go on. */
static void
test_other_offset (void)
{
  static const ScriptRule rules[] = {
    { "POST", "*", .status = 202, .headers = "Location: " UPLOADS "1" },
    { "PUT", "*", .times = 1, .status = 413 },
    { "PUT", UPLOADS "1?digest=*", .status = 201 },
    { "PATCH", UPLOADS "1", .times = 1, .status = 416 },
    { "PATCH", UPLOADS "1", .status = 202 },
    { "GET", UPLOADS "1", .status = 204, .headers = "Range: 0-1048575" },
  };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, 7 * MIB, rules, G_N_ELEMENTS (rules));
  push (&self, TRUE);
  assert_received (&self, MIB);
  g_assert_cmpuint (scripted_registry_count (&self.home, "PATCH *content-range=1048576-*"), ==, 1);
}

static void
test_bad_offsets (void)
{
  static const struct {
    guint status;
    const char *range;
    AmErrorCode code;
  } rows[] = {
    { 204, "Range: 0-99999999", AM_ERROR_DATA_LOSS }, { 204, "Range: rubbish", AM_ERROR_FAILED_PRECONDITION },
    { 204, NULL, AM_ERROR_FAILED_PRECONDITION },      { 404, NULL, AM_ERROR_NOT_FOUND },
    { 204, "Range: 0-0", AM_ERROR_OUT_OF_RANGE }, /* and refuses byte 0 again and again */
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = {
        { "POST", "*", .status = 202, .headers = "Location: " UPLOADS "1" },
        { "PUT", "*", .times = 1, .status = 413 },
        { "PATCH", "*", .status = 416 },
        { "GET", UPLOADS "1", .status = rows[i].status, .headers = rows[i].range },
      };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, 5 * MIB, rules, G_N_ELEMENTS (rules));
      g_assert_false (push (&self, TRUE));
      g_assert_error (self.error, AM_ERROR, (gint) rows[i].code);
      g_assert_nonnull (strstr (self.error->message, self.repository->display));
      g_assert_cmpuint (scripted_registry_count (&self.home, "PATCH *"), <=, 7);
    }
}

/* A PUT that fails may be tried in a new session, unless the blob is there after all. */
static void
test_trouble_at_the_end (void)
{
  static const ScriptRule once[] = {
    { "POST", "*", .times = 2, .status = 429, .headers = "Retry-After: 0" },
    { "POST", "*", .status = 202, .headers = "Location: " UPLOADS "1" },
    { "PUT", "*", .times = 1, .status = 500 },
    { "PUT", "*", .status = 201 },
  };
  static const ScriptRule lost[] = {
    { "HEAD", "*", .times = 1, .status = 404 },
    { "HEAD", "*", .status = 200 },
    { "POST", "*", .status = 202, .headers = "Location: " UPLOADS "1" },
    { "PUT", "*", .status = 502 },
  };
  {
    g_auto (Fixture) self = { 0 };
    fixture_start (&self, 5000, once, G_N_ELEMENTS (once));
    push (&self, TRUE);
    assert_received (&self, 0);
    g_assert_cmpuint (scripted_registry_count (&self.home, "POST *"), ==, 4);
  }
  {
    g_auto (Fixture) self = { 0 };
    fixture_start (&self, 5000, lost, G_N_ELEMENTS (lost));
    push (&self, TRUE);
    g_assert_no_error (self.error);
    g_assert_cmpuint (scripted_registry_count (&self.home, "PUT *"), ==, 1);
  }
}

/* What the registry says about the digest is heard: a refusal is final, and another digest is a lie. */
static void
test_digests (void)
{
  static const struct {
    guint status;
    const char *headers, *text;
    AmErrorCode code;
  } rows[] = {
    { 400, NULL, "{\"errors\":[{\"code\":\"DIGEST_INVALID\",\"message\":\"no\"}]}", AM_ERROR_INVALID_ARGUMENT },
    { 201, "Docker-Content-Digest: " ANOTHER, NULL, AM_ERROR_DATA_LOSS },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = {
        { "POST", "*", .status = 202, .headers = "Location: " UPLOADS "1" },
        { "PUT", "*", .status = rows[i].status, .headers = rows[i].headers, .text = rows[i].text },
      };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, 5000, rules, G_N_ELEMENTS (rules));
      g_assert_false (push (&self, TRUE));
      g_assert_error (self.error, AM_ERROR, (gint) rows[i].code);
      g_assert_true (am_error_has_reason (self.error, "DIGEST_INVALID"));
      g_assert_cmpuint (scripted_registry_count (&self.home, "POST *"), ==, 1);
    }
}

/* To a registry that does not speak the wire a large blob goes as one body, and nobody asks it about chunks. */
static void
test_foreign_registry (void)
{
  static const ScriptRule rules[] = {
    { "POST", UPLOADS, .status = 202, .headers = "Location: " UPLOADS "1" },
    { "PUT", "*", .status = 201 },
  };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, 9 * MIB, rules, G_N_ELEMENTS (rules));
  push (&self, FALSE);
  assert_received (&self, 0);
  g_assert_cmpuint (scripted_registry_count (&self.home, "*/known*"), ==, 0);
  g_assert_cmpuint (scripted_registry_count (&self.home, "P* " UPLOADS "*"), ==, 2);
}

/* One that says it speaks the wire, behind something that lets no PATCH through. */
static void
test_patch_refused (void)
{
  static const guint refusals[] = { 405, 501, 415, 411 };
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      const ScriptRule rules[] = {
        { "POST", "*/known", .status = 200, .text = "0" },
        { "POST", UPLOADS, .status = 202, .headers = "Location: " UPLOADS "1\nX-Ai-Models-Chunks: 1" },
        { "PATCH", "*", .status = refusals[i], .headers = "X-Ai-Models-Chunks: 1" },
        { "DELETE", "*", .status = 204, .headers = "X-Ai-Models-Chunks: 1" },
        { "PUT", "*", .status = 201, .headers = "X-Ai-Models-Chunks: 1" },
      };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, 2 * MIB, rules, G_N_ELEMENTS (rules));
      push (&self, FALSE);
      assert_received (&self, 0);
      /* The next blob does not try again. */
      self.progress = (FixtureProgress){ 0 };
      push (&self, FALSE);
      g_assert_no_error (self.error);
      g_assert_cmpuint (scripted_registry_count (&self.home, "PATCH *"), ==, 1);
    }
}

static void
test_wire_lies (void)
{
  static const struct {
    const char *known, *patched;
    AmErrorCode code;
    const char *said;
  } rows[] = {
    { "000", NULL, AM_ERROR_FAILED_PRECONDITION, "another number of chunks" },
    { "", NULL, AM_ERROR_FAILED_PRECONDITION, "another number of chunks" },
    { "0", NULL, AM_ERROR_UNAVAILABLE, "took less than was sent" },
    { "0", "X-Ai-Models-Upload-Offset: 1", AM_ERROR_UNAVAILABLE, "took less than was sent" },
    { "0", "X-Ai-Models-Upload-Offset: 99999999", AM_ERROR_UNAVAILABLE, "took less than was sent" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = {
        { "POST", "*/known", .status = 200, .text = rows[i].known },
        { "POST", UPLOADS, .status = 202, .headers = "Location: " UPLOADS "1\nX-Ai-Models-Chunks: 1" },
        { "PATCH", "*", .status = 202, .headers = rows[i].patched },
        { "GET", UPLOADS "1", .status = 204, .headers = "X-Ai-Models-Upload-Offset: 0" },
        { "PUT", "*", .status = 201 },
      };
      g_auto (Fixture) self = { 0 };
      fixture_start (&self, 2 * MIB, rules, G_N_ELEMENTS (rules));
      g_assert_false (push (&self, FALSE));
      g_test_message ("%s", self.error->message);
      g_assert_error (self.error, AM_ERROR, (gint) rows[i].code);
      g_assert_nonnull (strstr (self.error->message, rows[i].said));
      g_assert_cmpuint (scripted_registry_count (&self.home, "PUT *"), ==, 0);
      g_assert_cmpuint (scripted_registry_count (&self.home, "PATCH *"), <=, 6);
    }
}

/* One that takes everything, fails at the end, and says then that it has nothing: it is not sent to for ever. */
static void
test_no_end (void)
{
  static const ScriptRule frames[] = {
    { "POST", "*/known", .status = 200, .text = "0" },
    { "POST", UPLOADS, .status = 202, .headers = "Location: " UPLOADS "1\nX-Ai-Models-Chunks: 1" },
    { "PATCH", "*", .status = 202, .headers = "X-Ai-Models-Upload-Offset: 2097152" },
    { "GET", UPLOADS "1", .status = 204, .headers = "X-Ai-Models-Upload-Offset: 0" },
    { "PUT", "*", .times = 60, .status = 503 },
    { "PUT", "*", .status = 201 },
  };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, 2 * MIB, frames, G_N_ELEMENTS (frames));
  g_assert_false (push (&self, FALSE));
  g_assert_error (self.error, AM_ERROR, AM_ERROR_UNAVAILABLE);
  g_assert_nonnull (strstr (self.error->message, "no progress"));
  g_assert_cmpuint (scripted_registry_count (&self.home, "PATCH *"), <=, 6);
}

/* The same in pieces: the second is always refused, and the first forgotten. */
static void
test_pieces_without_end (void)
{
  static const ScriptRule rules[] = {
    { "POST", "*", .status = 202, .headers = "Location: " UPLOADS "1" },
    { "PUT", "*", .times = 1, .status = 413 },
    { "PATCH", UPLOADS "1", .times = 20, .status = 202, .headers = "Location: " UPLOADS "2" },
    { "PATCH", UPLOADS "2", .status = 503 },
    { "GET", UPLOADS "2", .status = 204, .headers = "Range: 0-0\nLocation: " UPLOADS "1" },
  };
  g_auto (Fixture) self = { 0 };
  fixture_start (&self, 7 * MIB, rules, G_N_ELEMENTS (rules));
  g_assert_false (push (&self, TRUE));
  g_assert_error (self.error, AM_ERROR, AM_ERROR_UNAVAILABLE);
  g_assert_nonnull (strstr (self.error->message, "no progress"));
}

/* Whatever is answered to a mount but 201 means that the blob must be sent, not that nothing works. */
static void
test_mounts (void)
{
  static const struct {
    guint status;
    const char *headers;
    gboolean is_mounted;
    guint n_cancelled;
  } rows[] = {
    { 201, NULL, TRUE, 0 },  { 202, "Location: " UPLOADS "1", FALSE, 1 },
    { 202, NULL, FALSE, 0 }, { 400, NULL, FALSE, 0 },
    { 403, NULL, FALSE, 0 }, { 404, NULL, FALSE, 0 },
    { 405, NULL, FALSE, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = {
        { "POST", UPLOADS "?mount=sha256:*&from=team/base", .status = rows[i].status, .headers = rows[i].headers },
        { "DELETE", UPLOADS "1", .status = 204 },
      };
      g_auto (Fixture) self = { 0 };
      gboolean mounted = !rows[i].is_mounted;
      fixture_start (&self, 10, rules, G_N_ELEMENTS (rules));
      repository_mount_blob (NULL, self.repository, &self.digest, "team/base", &mounted, &self.error);
      g_assert_no_error (self.error);
      g_assert_cmpint (mounted, ==, rows[i].is_mounted);
      g_assert_cmpuint (scripted_registry_count (&self.home, "DELETE *"), ==, rows[i].n_cancelled);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/remote-push/locations", test_locations);
  g_test_add_func ("/remote-push/no-location", test_no_location);
  g_test_add_func ("/remote-push/pieces", test_pieces);
  g_test_add_func ("/remote-push/other-offset", test_other_offset);
  g_test_add_func ("/remote-push/bad-offsets", test_bad_offsets);
  g_test_add_func ("/remote-push/trouble-at-the-end", test_trouble_at_the_end);
  g_test_add_func ("/remote-push/digests", test_digests);
  g_test_add_func ("/remote-push/foreign-registry", test_foreign_registry);
  g_test_add_func ("/remote-push/patch-refused", test_patch_refused);
  g_test_add_func ("/remote-push/wire-lies", test_wire_lies);
  g_test_add_func ("/remote-push/no-end", test_no_end);
  g_test_add_func ("/remote-push/pieces-without-end", test_pieces_without_end);
  g_test_add_func ("/remote-push/mounts", test_mounts);
  return g_test_run ();
}
