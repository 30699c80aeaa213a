/* Manifests, tags and referrers over HTTP. */
#include <string.h>

#include "base/log.h"
#include "dmcr/dmcr_fixture.h"
#include "oci/manifest.h"
#include "registry/registry_fixture.h"
#include "storage/repository_links.h"

#define MANIFESTS "/v2/team/m/manifests/"
#define TYPE "Content-Type: " OCI_MANIFEST

static GBytes *
config_bytes (void)
{
  return g_bytes_new_static ("{}", 2);
}

static void
put_config (DmcrFixture *self)
{
  g_auto (HttpReply) reply = { 0 };
  char text[DIGEST_STRING_SIZE];
  Digest digest;
  digest_of (DIGEST_SHA256, "{}", 2, &digest);
  g_autofree char *path = g_strdup_printf ("/v2/team/m/blobs/uploads/?digest=%s", digest_format (&digest, text));
  g_assert_cmpuint (dmcr_fixture_call (self, "POST", path, NULL, "{}", 2, &reply), ==, 201);
}

static guint
put (DmcrFixture *self, const char *reference, GBytes *manifest, HttpReply *reply)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (manifest, &size);
  g_autofree char *path = g_strconcat (MANIFESTS, reference, NULL);
  return dmcr_fixture_call (self, "PUT", path, TYPE, data, size, reply);
}

static void
assert_body (const HttpReply *reply, const char *wanted)
{
  g_autofree char *body = g_strndup (g_bytes_get_data (reply->body, NULL), g_bytes_get_size (reply->body));
  g_assert_cmpstr (body, ==, wanted);
}

static gboolean
says (const HttpReply *reply, const char *part)
{
  g_autofree char *body = g_strndup (g_bytes_get_data (reply->body, NULL), g_bytes_get_size (reply->body));
  return strstr (body, part) != NULL;
}

static void
assert_says (const HttpReply *reply, const char *part)
{
  g_assert_true (says (reply, part));
}

static void
test_put_and_get (DmcrFixture *self, gconstpointer data)
{
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GBytes) config = config_bytes ();
  g_autoptr (GBytes) manifest = fixture_manifest (config, NULL, NULL, "a");
  Digest digest;
  char text[DIGEST_STRING_SIZE];
  fixture_digest (manifest, &digest);
  digest_format (&digest, text);
  g_autofree char *location = g_strconcat (MANIFESTS, text, NULL);
  g_autofree char *etag = g_strdup_printf ("\"%s\"", text);
  g_assert_cmpuint (put (self, "v1", manifest, &reply), ==, 404);
  assert_says (&reply, "MANIFEST_BLOB_UNKNOWN");
  put_config (self);
  g_assert_cmpuint (put (self, "v1", manifest, &reply), ==, 201);
  g_assert_cmpstr (http_reply_header (&reply, "location"), ==, location);
  g_assert_cmpstr (http_reply_header (&reply, "docker-content-digest"), ==, text);
  g_assert_null (http_reply_header (&reply, "oci-subject"));
  const char *const paths[] = { MANIFESTS "v1", location };
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_assert_cmpuint (dmcr_fixture_call (self, "GET", paths[i], NULL, NULL, 0, &reply), ==, 200);
      g_assert_true (g_bytes_equal (reply.body, manifest));
      g_assert_cmpstr (http_reply_header (&reply, "content-type"), ==, OCI_MANIFEST);
      g_assert_cmpstr (http_reply_header (&reply, "etag"), ==, etag);
      g_assert_cmpuint (dmcr_fixture_call (self, "HEAD", paths[i], NULL, NULL, 0, &reply), ==, 200);
      g_assert_cmpuint (g_ascii_strtoull (http_reply_header (&reply, "content-length"), NULL, 10), ==,
                        g_bytes_get_size (manifest));
    }
  g_assert_cmpuint (dmcr_fixture_call (self, "DELETE", MANIFESTS "v1", NULL, NULL, 0, &reply), ==, 202);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", MANIFESTS "v1", NULL, NULL, 0, &reply), ==, 404);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", location, NULL, NULL, 0, &reply), ==, 200);
  g_assert_cmpuint (dmcr_fixture_call (self, "DELETE", location, NULL, NULL, 0, &reply), ==, 202);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", location, NULL, NULL, 0, &reply), ==, 404);
  assert_says (&reply, "MANIFEST_UNKNOWN");
}

static void
test_refused (DmcrFixture *self, gconstpointer data)
{
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GBytes) config = config_bytes ();
  g_autoptr (GBytes) manifest = fixture_manifest (config, NULL, NULL, "a");
  g_autoptr (GBytes) rubbish = g_bytes_new_static ("{", 1);
  g_autofree char *padding = g_strnfill (MANIFEST_MAX_BYTES, ' ');
  g_autoptr (GBytes) huge = g_bytes_new (padding, MANIFEST_MAX_BYTES + 1);
  static const char other[] = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
  put_config (self);
  const struct {
    const char *reference;
    GBytes *bytes;
    guint status;
    const char *code;
  } rows[] = {
    { other, manifest, 400, "DIGEST_INVALID" },
    { "v1", rubbish, 400, "MANIFEST_INVALID" },
    { "-v1", manifest, 400, "NAME_INVALID" },
    { "v1", huge, 413, "SIZE_INVALID" },
    { "v1?tag=a&tag=b&tag=c&tag=d&tag=e&tag=f&tag=g&tag=h&tag=i&tag=j&tag=k", manifest, 400, "MANIFEST_INVALID" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_assert_cmpuint (put (self, rows[i].reference, rows[i].bytes, &reply), ==, rows[i].status);
      g_test_message ("%.*s", (int) g_bytes_get_size (reply.body),
                      (const char *) g_bytes_get_data (reply.body, NULL));
      assert_says (&reply, rows[i].code);
    }
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", MANIFESTS "v1", NULL, NULL, 0, &reply), ==, 404);
}

/* Pages are in byte order and follow one another by Link. */
static void
test_tags (DmcrFixture *self, gconstpointer data)
{
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GBytes) config = config_bytes ();
  g_autoptr (GBytes) manifest = fixture_manifest (config, NULL, NULL, "a");
  Digest digest;
  fixture_digest (manifest, &digest);
  g_autofree char *text = digest_to_string (&digest);
  g_autofree char *named = g_strconcat (text, "?tag=a&tag=b&tag=a-b&tag=a.b&tag=A", NULL);
  put_config (self);
  g_assert_cmpuint (put (self, named, manifest, &reply), ==, 201);
  g_assert_cmpstr (http_reply_header (&reply, "oci-tag"), ==, "a, b, a-b, a.b, A");
  static const struct {
    const char *query, *tags, *link;
  } rows[] = {
    { "", "\"A\",\"a\",\"a-b\",\"a.b\",\"b\"", NULL },
    { "?n=2", "\"A\",\"a\"", "</v2/team/m/tags/list?n=2&last=a>; rel=\"next\"" },
    { "?n=2&last=a", "\"a-b\",\"a.b\"", "</v2/team/m/tags/list?n=2&last=a.b>; rel=\"next\"" },
    { "?n=2&last=a.b", "\"b\"", NULL },
    { "?n=5", "\"A\",\"a\",\"a-b\",\"a.b\",\"b\"", NULL },
    { "?n=18446744073709551615", "\"A\",\"a\",\"a-b\",\"a.b\",\"b\"", NULL },
    { "?last=a!", "\"a-b\",\"a.b\",\"b\"", NULL },
    { "?n=0", "", NULL },
    { "?last=z", "", NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = g_strconcat ("/v2/team/m/tags/list", rows[i].query, NULL);
      g_autofree char *wanted = g_strdup_printf ("{\"name\":\"team/m\",\"tags\":[%s]}", rows[i].tags);
      g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, NULL, NULL, 0, &reply), ==, 200);
      assert_body (&reply, wanted);
      g_assert_cmpstr (http_reply_header (&reply, "link"), ==, rows[i].link);
    }
  static const char *const bad[] = { "?n=x", "?n=-1", "?n=18446744073709551616", "?n=" };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autofree char *path = g_strconcat ("/v2/team/m/tags/list", bad[i], NULL);
      g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, NULL, NULL, 0, &reply), ==, 400);
    }
}

static void
test_referrers (DmcrFixture *self, gconstpointer data)
{
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GBytes) config = config_bytes ();
  Digest subject, first, second;
  digest_of (DIGEST_SHA256, "subject", 7, &subject); /* which need not be there */
  g_autofree char *subject_text = digest_to_string (&subject);
  g_autoptr (GBytes) a = fixture_manifest (config, NULL, &subject, "a");
  g_autoptr (GBytes) b = fixture_manifest (config, NULL, &subject, "b");
  fixture_digest (a, &first);
  fixture_digest (b, &second);
  g_autofree char *first_text = digest_to_string (&first);
  g_autofree char *second_text = digest_to_string (&second);
  g_autofree char *path = g_strconcat ("/v2/team/m/referrers/", subject_text, NULL);
  g_autofree char *filtered = g_strconcat (path, "?artifactType=x%2Fb", NULL);
  g_autofree char *removed = g_strconcat (MANIFESTS, second_text, NULL);
  put_config (self);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, NULL, NULL, 0, &reply), ==, 200);
  assert_body (&reply, "{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[]}");
  g_assert_cmpstr (http_reply_header (&reply, "content-type"), ==, OCI_INDEX);
  g_assert_cmpuint (put (self, first_text, a, &reply), ==, 201);
  g_assert_cmpstr (http_reply_header (&reply, "oci-subject"), ==, subject_text);
  g_assert_cmpuint (put (self, second_text, b, &reply), ==, 201);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, NULL, NULL, 0, &reply), ==, 200);
  assert_says (&reply, first_text);
  assert_says (&reply, second_text);
  g_assert_null (http_reply_header (&reply, "oci-filters-applied"));
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", filtered, NULL, NULL, 0, &reply), ==, 200);
  assert_says (&reply, second_text);
  g_assert_false (says (&reply, first_text));
  g_assert_cmpstr (http_reply_header (&reply, "oci-filters-applied"), ==, "artifactType");
  g_assert_cmpuint (dmcr_fixture_call (self, "DELETE", removed, NULL, NULL, 0, &reply), ==, 202);
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", filtered, NULL, NULL, 0, &reply), ==, 200);
  assert_body (&reply, "{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[]}");
}

/* More than one answer may hold come in pages, with the filter kept. */
static void
test_referrer_pages (DmcrFixture *self, gconstpointer data)
{
  g_auto (HttpReply) reply = { 0 };
  Digest subject = { 0 };
  char text[DIGEST_STRING_SIZE];
  g_autofree char *padding = g_strnfill (1500000, 'x');
  for (guint i = 0; i < 5; i++)
    {
      Digest digest;
      digest_of (DIGEST_SHA256, &i, sizeof i, &digest);
      g_autofree char *entry = g_strdup_printf (
        "{\"artifactType\":\"x/a\",\"annotations\":{\"p\":\"%s\"},\"digest\":\"%s\",\"mediaType\":\"a/b\",\"size\":1}",
        padding, digest_format (&digest, text));
      g_assert_true (referrer_put (NULL, self->objects, "team/m", &subject, &digest, entry, NULL));
    }
  g_autofree char *path = g_strdup_printf ("/v2/team/m/referrers/%s?artifactType=x%%2Fa",
                                           digest_format (&subject, text));
  guint n = 0, n_pages = 0;
  while (path != NULL)
    {
      g_assert_cmpuint (dmcr_fixture_call (self, "GET", path, NULL, NULL, 0, &reply), ==, 200);
      g_assert_cmpuint (g_bytes_get_size (reply.body), <=, MANIFEST_MAX_BYTES);
      g_assert_cmpstr (http_reply_header (&reply, "oci-filters-applied"), ==, "artifactType");
      g_autoptr (Manifest) index = manifest_parse (reply.body, OCI_INDEX, NULL);
      n += index->manifests->len;
      n_pages++;
      g_free (path);
      const char *link = http_reply_header (&reply, "link");
      path = link == NULL ? NULL : g_strndup (link + 1, strcspn (link + 1, ">"));
    }
  g_assert_cmpuint (n, ==, 5);
  g_assert_cmpuint (n_pages, ==, 3);
  g_autofree char *bad = g_strdup_printf ("/v2/team/m/referrers/%s?after=x", digest_format (&subject, text));
  g_assert_cmpuint (dmcr_fixture_call (self, "GET", bad, NULL, NULL, 0, &reply), ==, 400);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  am_log_init (AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  DMCR_TEST ("/dmcr-manifests/put-and-get", test_put_and_get);
  DMCR_TEST ("/dmcr-manifests/refused", test_refused);
  DMCR_TEST ("/dmcr-manifests/tags", test_tags);
  DMCR_TEST ("/dmcr-manifests/referrers", test_referrers);
  DMCR_TEST ("/dmcr-manifests/referrer-pages", test_referrer_pages);
  return g_test_run ();
}
