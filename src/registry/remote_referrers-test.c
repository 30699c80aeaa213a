/* Referrers of registries with the API, without it, and of those that lie about them. */
#include <string.h>

#include "oci/manifest.h"
#include "oci/referrers.h"
#include "registry/registry_fixture.h"
#include "registry/scripted_registry.h"

#define REFERRERS "/v2/team/m/referrers/sha256:*"
#define TAG "/v2/team/m/manifests/sha256-*"
#define INDEX_TYPE "Content-Type: " OCI_INDEX

typedef struct {
  ScriptedRegistry home;
  Repository *repository;
  Digest subject, referrer;
  GBytes *manifest; /* of the referrer */
  char *one, *two;  /* indexes with another referrer, and with the referrer too */
  GError *error;
} Fixture;

static char *
index_with (const char *old, const Digest *digest)
{
  char text[DIGEST_STRING_SIZE];
  gboolean had;
  g_autoptr (GBytes) start = old == NULL ? NULL : g_bytes_new (old, strlen (old));
  g_autofree char *descriptor = g_strdup_printf ("{\"mediaType\":\"" OCI_MANIFEST "\",\"digest\":\"%s\",\"size\":1}",
                                                 digest_format (digest, text));
  g_autoptr (GBytes) index = referrers_index_add (start, digest, descriptor, &had, NULL);
  return g_strndup (g_bytes_get_data (index, NULL), g_bytes_get_size (index));
}

static void
set_up (Fixture *self, gconstpointer data)
{
  Digest other;
  g_autoptr (GBytes) config = g_bytes_new_static ("{}", 2);
  digest_of (DIGEST_SHA256, "s", 1, &self->subject);
  digest_of (DIGEST_SHA256, "o", 1, &other);
  self->manifest = fixture_manifest (config, NULL, &self->subject, "a");
  fixture_digest (self->manifest, &self->referrer);
  self->one = index_with (NULL, &other);
  self->two = index_with (self->one, &self->referrer);
}

static void
stop (Fixture *self)
{
  g_clear_pointer (&self->repository, repository_free);
  scripted_registry_stop (&self->home);
  self->home = (ScriptedRegistry){ 0 };
  g_clear_error (&self->error);
}

static void
start (Fixture *self, const ScriptRule *rules, guint n_rules)
{
  stop (self);
  scripted_registry_start (&self->home, rules, n_rules, NULL);
  self->repository = scripted_registry_client (&self->home, 0);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  stop (self);
  g_bytes_unref (self->manifest);
  g_free (self->one);
  g_free (self->two);
}

/* How many are listed; -1 with an error. */
static int
count (Fixture *self)
{
  g_autoptr (GPtrArray) found = repository_list_referrers (NULL, self->repository, &self->subject, &self->error);
  return found == NULL ? -1 : (int) found->len;
}

static void
test_api (Fixture *self, gconstpointer data)
{
  const ScriptRule rules[] = {
    { "GET", REFERRERS "?page=2", .status = 200, .headers = INDEX_TYPE, .text = self->one },
    { "GET", REFERRERS, .status = 200, .headers = INDEX_TYPE "\nLink: <?page=2>; rel=\"next\"", .text = self->two },
  };
  start (self, rules, G_N_ELEMENTS (rules));
  g_assert_cmpint (count (self), ==, 3);
  g_assert_cmpuint (scripted_registry_count (&self->home, "*" TAG "*"), ==, 0);
}

/* Without the API the tag tells, and where there is no tag there is no referrer. */
static void
test_no_api (Fixture *self, gconstpointer data)
{
  static const struct {
    guint status;
    const char *headers, *text;
  } answers[] = {
    { 404, NULL, NULL }, { 405, NULL, NULL }, { 501, NULL, NULL }, { 200, "Content-Type: text/html", "<html>" }
  };
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      const ScriptRule rules[] = {
        { "GET", REFERRERS, .status = answers[i].status, .headers = answers[i].headers, .text = answers[i].text },
        { "GET", TAG, .times = 1, .status = 200, .headers = INDEX_TYPE, .text = self->two },
      };
      start (self, rules, G_N_ELEMENTS (rules));
      g_assert_cmpint (count (self), ==, 2);
      g_assert_cmpint (count (self), ==, 0);
      g_assert_no_error (self->error);
    }
}

/* What cannot be read, or is refused, is an error, not an empty list. */
static void
test_errors (Fixture *self, gconstpointer data)
{
  static const struct {
    guint status;
    const char *text;
    guint tag_status;
    const char *tag_text;
    AmErrorCode code;
  } rows[] = {
    { 200, "no json", 404, NULL, AM_ERROR_INVALID_ARGUMENT },
    { 403, NULL, 404, NULL, AM_ERROR_PERMISSION_DENIED },
    { 500, NULL, 404, NULL, AM_ERROR_UNAVAILABLE },
    { 404, NULL, 403, NULL, AM_ERROR_PERMISSION_DENIED },
    { 404, NULL, 200, "{\"schemaVersion\":2,\"mediaType\":\"" OCI_MANIFEST "\"}", AM_ERROR_INVALID_ARGUMENT },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScriptRule rules[] = {
        { "GET", REFERRERS, .status = rows[i].status, .headers = INDEX_TYPE, .text = rows[i].text },
        { "GET", TAG, .status = rows[i].tag_status, .text = rows[i].tag_text },
      };
      start (self, rules, G_N_ELEMENTS (rules));
      g_assert_cmpint (count (self), ==, -1);
      g_assert_error (self->error, AM_ERROR, (gint) rows[i].code);
      g_assert_nonnull (strstr (self->error->message, self->repository->display));
    }
}

static gboolean
put (Fixture *self)
{
  return repository_put_manifest (NULL, self->repository, NULL, OCI_MANIFEST, self->manifest, NULL, &self->error);
}

static void
test_put_with_api (Fixture *self, gconstpointer data)
{
  static const ScriptRule rules[] = { { "PUT", "*", .status = 201, .headers = "OCI-Subject: sha256:x" } };
  start (self, rules, G_N_ELEMENTS (rules));
  put (self);
  g_assert_no_error (self->error);
  g_assert_cmpuint (scripted_registry_count (&self->home, "*"), ==, 1);
}

static void
test_put_without_api (Fixture *self, gconstpointer data)
{
  const ScriptRule rules[] = {
    { "PUT", "*", .status = 201 },
    { "GET", TAG, .times = 1, .status = 404 },
    { "GET", TAG, .status = 200, .headers = INDEX_TYPE, .text = self->two },
  };
  start (self, rules, G_N_ELEMENTS (rules));
  put (self);
  g_assert_no_error (self->error);
  g_assert_cmpuint (scripted_registry_count (&self->home, "PUT " TAG), ==, 1);
  put (self); /* it is there already */
  g_assert_no_error (self->error);
  g_assert_cmpuint (scripted_registry_count (&self->home, "PUT " TAG), ==, 1);
}

/* Somebody else's entry came between reading and writing: ours is written again, and not for ever. */
static void
test_put_races (Fixture *self, gconstpointer data)
{
  const ScriptRule once[] = {
    { "PUT", "*", .status = 201 },
    { "GET", TAG, .times = 1, .status = 404 },
    { "GET", TAG, .times = 1, .status = 200, .headers = INDEX_TYPE, .text = self->one },
    { "GET", TAG, .status = 200, .headers = INDEX_TYPE, .text = self->two },
  };
  const ScriptRule always[] = {
    { "PUT", "*", .status = 201 },
    { "GET", TAG, .status = 200, .headers = INDEX_TYPE, .text = self->one },
  };
  start (self, once, G_N_ELEMENTS (once));
  put (self);
  g_assert_no_error (self->error);
  g_assert_cmpuint (scripted_registry_count (&self->home, "PUT " TAG), ==, 2);
  start (self, always, G_N_ELEMENTS (always));
  g_assert_false (put (self));
  g_assert_error (self->error, AM_ERROR, AM_ERROR_ABORTED);
  g_assert_cmpuint (scripted_registry_count (&self->home, "PUT " TAG), <=, 5);
}

static gboolean
remove_it (Fixture *self)
{
  char text[DIGEST_STRING_SIZE];
  return repository_remove_manifest (NULL, self->repository, digest_format (&self->referrer, text), &self->error);
}

/* Removed by digest, it is struck out of the tag's index where there is one. */
static void
test_remove (Fixture *self, gconstpointer data)
{
  const ScriptRule with_tag[] = {
    { "DELETE", "*", .status = 202 },
    { "GET", TAG, .times = 1, .status = 200, .headers = INDEX_TYPE, .text = self->two },
    { "GET", TAG, .status = 200, .headers = INDEX_TYPE, .text = self->one },
    { "GET", "*/manifests/sha256:*", .status = 200, .blob = self->manifest },
    { "PUT", TAG, .status = 201 },
  };
  const ScriptRule without_tag[] = {
    { "DELETE", "*", .status = 202 },
    { "GET", "*/manifests/sha256:*", .status = 200, .blob = self->manifest },
  };
  start (self, with_tag, G_N_ELEMENTS (with_tag));
  remove_it (self);
  g_assert_no_error (self->error);
  g_assert_cmpuint (scripted_registry_count (&self->home, "PUT " TAG), ==, 1);
  start (self, without_tag, G_N_ELEMENTS (without_tag));
  remove_it (self);
  g_assert_no_error (self->error);
  g_assert_cmpuint (scripted_registry_count (&self->home, "PUT *"), ==, 0);
  start (self, NULL, 0);
  g_assert_false (remove_it (self));
  g_assert_true (am_error_has_reason (self->error, "MANIFEST_UNKNOWN"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/remote-referrers/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("api", test_api);
  ADD ("no-api", test_no_api);
  ADD ("errors", test_errors);
  ADD ("put-with-api", test_put_with_api);
  ADD ("put-without-api", test_put_without_api);
  ADD ("put-races", test_put_races);
  ADD ("remove", test_remove);
  return g_test_run ();
}
