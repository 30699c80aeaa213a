#include "oci/manifest.h"

#include <string.h>

#define EMPTY_DIGEST "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
#define CONFIG \
  "\"config\":{\"mediaType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"" EMPTY_DIGEST "\",\"size\":2}"
#define LAYER(extra) "{\"mediaType\":\"a/b\",\"digest\":\"" EMPTY_DIGEST "\",\"size\":2" extra "}"
#define HEAD "{\"schemaVersion\":2,"

static Manifest *
parse (const char *text, const char *content_type, GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new (text, strlen (text));
  return manifest_parse (bytes, content_type, error);
}

static const struct {
  const char *text, *content_type;
  const char *media_type;
  ManifestKind kind;
} good[] = {
  { HEAD CONFIG ",\"layers\":[]}", NULL, OCI_MANIFEST, MANIFEST_IMAGE },
  { HEAD CONFIG ",\"layers\":null}", OCI_MANIFEST, OCI_MANIFEST, MANIFEST_IMAGE },
  { HEAD CONFIG "}", OCI_MANIFEST "; charset=utf-8", OCI_MANIFEST, MANIFEST_IMAGE },
  { HEAD "\"mediaType\":\"" OCI_MANIFEST "\"," CONFIG ",\"layers\":[" LAYER ("") "],\"x\":{\"y\":[1]}}", "",
    OCI_MANIFEST, MANIFEST_IMAGE },
  { HEAD "\"mediaType\":\"" DOCKER_MANIFEST "\"," CONFIG ",\"layers\":[" LAYER ("") "]}", DOCKER_MANIFEST,
    DOCKER_MANIFEST, MANIFEST_IMAGE },
  { HEAD "\"manifests\":[]}", NULL, OCI_INDEX, MANIFEST_INDEX },
  { HEAD "\"manifests\":null}", OCI_INDEX, OCI_INDEX, MANIFEST_INDEX },
  { HEAD "\"mediaType\":\"" DOCKER_MANIFEST_LIST "\",\"manifests\":[" LAYER ("") "]}", NULL, DOCKER_MANIFEST_LIST,
    MANIFEST_INDEX },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"data\":\"e30=\"") "]}", NULL, OCI_MANIFEST, MANIFEST_IMAGE },
};

static void
test_good (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Manifest) manifest = parse (good[i].text, good[i].content_type, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (manifest->media_type, ==, good[i].media_type);
      g_assert_cmpint (manifest->kind, ==, good[i].kind);
    }
}

static const struct {
  const char *text, *content_type;
  const char *part_of_message;
} bad[] = {
  { "", NULL, "JSON" },
  { "[]", NULL, "object" },
  { "{", NULL, "JSON" },
  { "{" CONFIG "}", NULL, "schemaVersion" },
  { "{\"schemaVersion\":1," CONFIG "}", NULL, "only 2" },
  { "{\"schemaVersion\":\"2\"," CONFIG "}", NULL, "schemaVersion" },
  { HEAD "\"layers\":[]}", NULL, "config" },
  { HEAD CONFIG "}", OCI_INDEX, "index" },
  { HEAD "\"manifests\":[]}", OCI_MANIFEST, "manifests" },
  { HEAD CONFIG ",\"manifests\":[]}", OCI_MANIFEST, "manifests" },
  { HEAD CONFIG ",\"layers\":[],\"manifests\":[]}", NULL, "config" },
  { HEAD "\"mediaType\":\"" OCI_MANIFEST "\"," CONFIG "}", DOCKER_MANIFEST, "sent as" },
  { HEAD CONFIG "}", DOCKER_MANIFEST, "mediaType" },
  { HEAD CONFIG "}", "application/json", "not supported" },
  { HEAD "\"mediaType\":\"application/vnd.oci.artifact.manifest.v1+json\",\"blobs\":[]}", NULL, "not supported" },
  { HEAD CONFIG ",\"fsLayers\":[]}", NULL, "schema 1" },
  { HEAD CONFIG "," CONFIG "}", NULL, "twice" },
  { HEAD CONFIG ",\"layers\":{}}", NULL, "array" },
  { HEAD CONFIG ",\"layers\":[1]}", NULL, "entry 0" },
  { HEAD CONFIG ",\"layers\":[" LAYER ("") ",{}]}", NULL, "entry 1" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"size\":3") "]}", NULL, "twice" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"data\":\"e30\"") "]}", NULL, "data" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"data\":\"e3w=\"") "]}", NULL, "data" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"data\":\"\"") "]}", NULL, "data" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"annotations\":{\"a\":1}") "]}", NULL, "annotation" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"annotations\":{\"a\":\"1\",\"a\":\"2\"}") "]}", NULL, "twice" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"annotations\":[]") "]}", NULL, "annotations" },
  { HEAD CONFIG ",\"layers\":[" LAYER (",\"urls\":\"x\"") "]}", NULL, "urls" },
  { HEAD CONFIG ",\"layers\":[{\"mediaType\":\"a/b\",\"digest\":\"" EMPTY_DIGEST "\",\"size\":-1}]}", NULL, "size" },
  { HEAD CONFIG ",\"layers\":[{\"mediaType\":\"a/b\",\"digest\":\"" EMPTY_DIGEST
                "\",\"size\":18446744073709551615}]}",
    NULL, "size" },
  { HEAD CONFIG ",\"layers\":[{\"mediaType\":\"a b\",\"digest\":\"" EMPTY_DIGEST "\",\"size\":1}]}", NULL,
    "media type" },
  { HEAD CONFIG ",\"layers\":[{\"mediaType\":\"a/b\",\"digest\":\"sha256:44136FA3\",\"size\":1}]}", NULL, "digest" },
  { HEAD CONFIG ",\"subject\":{}}", NULL, "subject" },
  { HEAD CONFIG ",\"annotations\":7}", NULL, "annotations" },
};

static void
test_bad (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Manifest) manifest = parse (bad[i].text, bad[i].content_type, &error);
      g_test_message ("%u: %s", i, error != NULL ? error->message : "accepted");
      g_assert_null (manifest);
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_true (am_error_has_reason (error, "MANIFEST_INVALID")
                     || am_error_has_reason (error, "DIGEST_INVALID"));
      g_assert_nonnull (strstr (error->message, bad[i].part_of_message));
    }
}

static char *
with_layers (guint n)
{
  GString *text = g_string_new (HEAD CONFIG ",\"layers\":[");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s{\"mediaType\":\"a/b\",\"digest\":\"" EMPTY_DIGEST "\",\"size\":%u}",
                            i > 0 ? "," : "", i);
  g_string_append (text, "]}");
  return g_string_free (text, FALSE);
}

static void
test_limits (void)
{
  g_autofree char *most = with_layers (MANIFEST_MAX_DESCRIPTORS);
  g_autoptr (Manifest) manifest = parse (most, NULL, NULL);
  g_assert_nonnull (manifest);
  g_assert_cmpuint (manifest->layers->len, ==, MANIFEST_MAX_DESCRIPTORS);
  g_autofree char *too_many = with_layers (MANIFEST_MAX_DESCRIPTORS + 1);
  g_autoptr (GError) error = NULL;
  g_assert_null (parse (too_many, NULL, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "MANIFEST_INVALID");
  g_clear_error (&error);
  g_autofree char *huge = with_layers (100000);
  g_assert_null (parse (huge, NULL, &error));
  g_clear_error (&error);
  /* Exactly 4 MiB is taken, one byte more is not. */
  g_autofree char *padded = g_strdup_printf (HEAD CONFIG "%*s}", (int) MANIFEST_MAX_BYTES, "");
  gsize excess = strlen (padded) - MANIFEST_MAX_BYTES;
  g_autofree char *exact = g_strdup_printf (HEAD CONFIG "%*s}", (int) (MANIFEST_MAX_BYTES - excess), "");
  g_assert_cmpuint (strlen (exact), ==, MANIFEST_MAX_BYTES);
  g_autoptr (Manifest) largest = parse (exact, NULL, &error);
  g_assert_no_error (error);
  g_autofree char *over = g_strconcat (exact, " ", NULL);
  g_assert_null (parse (over, NULL, &error));
  g_assert_true (am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED));
  g_assert_cmpstr (am_error_reason (error), ==, "SIZE_INVALID");
}

static void
test_deep (void)
{
  g_autoptr (GString) text = g_string_new (HEAD CONFIG ",\"x\":");
  for (guint i = 0; i < 100000; i++)
    g_string_append_c (text, '[');
  g_autoptr (GError) error = NULL;
  g_assert_null (parse (text->str, NULL, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "MANIFEST_INVALID");
}

static void
test_refs (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Manifest) image = parse (
    HEAD CONFIG ",\"layers\":[" LAYER ("") "," LAYER (",\"urls\":[\"http://x\"]") "," LAYER (
      ",\"urls\":[]") ","
                      "{\"mediaType\":\"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip\",\"digest\":\"" EMPTY_DIGEST
                      "\",\"size\":2}]}",
    NULL, &error);
  g_assert_no_error (error);
  g_autoptr (GArray) refs = manifest_refs (image);
  static const gboolean absent[] = { FALSE, FALSE, TRUE, FALSE, TRUE };
  g_assert_cmpuint (refs->len, ==, G_N_ELEMENTS (absent));
  for (guint i = 0; i < refs->len; i++)
    {
      const ManifestRef *ref = &g_array_index (refs, ManifestRef, i);
      g_assert_cmpint (ref->may_be_absent, ==, absent[i]);
      g_assert_cmpint (ref->role, ==, i == 0 ? MANIFEST_REF_CONFIG : MANIFEST_REF_LAYER);
    }
  g_autoptr (Manifest) index = parse (
    HEAD
    "\"manifests\":[" LAYER (",\"platform\":{\"os\":\"linux\",\"architecture\":\"arm64\",\"variant\":\"v8\"}") "]}",
    NULL, &error);
  g_assert_no_error (error);
  g_autoptr (GArray) children = manifest_refs (index);
  g_assert_cmpuint (children->len, ==, 1);
  const ManifestRef *child = &g_array_index (children, ManifestRef, 0);
  g_assert_cmpint (child->role, ==, MANIFEST_REF_CHILD);
  g_assert_cmpstr (child->descriptor->architecture, ==, "arm64");
}

static const struct {
  const char *text;
  const char *descriptor;
} referrers[] = {
  { HEAD "\"artifactType\":\"x/y\"," CONFIG ",\"annotations\":{\"b\":\"1\",\"a\":\"\\u00e9\"}}",
    "{\"annotations\":{\"b\":\"1\",\"a\":\"é\"},\"artifactType\":\"x/y\",\"digest\":\"" EMPTY_DIGEST
    "\",\"mediaType\":\"" OCI_MANIFEST "\",\"size\":9}" },
  { HEAD CONFIG "}", "{\"artifactType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"" EMPTY_DIGEST
                     "\",\"mediaType\":\"" OCI_MANIFEST "\",\"size\":9}" },
  { HEAD "\"artifactType\":\"\"," CONFIG "}",
    "{\"artifactType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"" EMPTY_DIGEST
    "\",\"mediaType\":\"" OCI_MANIFEST "\",\"size\":9}" },
  { HEAD "\"manifests\":[]}", "{\"digest\":\"" EMPTY_DIGEST "\",\"mediaType\":\"" OCI_INDEX "\",\"size\":9}" },
};

static void
test_referrer (void)
{
  Digest digest;
  g_assert_true (digest_parse (EMPTY_DIGEST, &digest, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (referrers); i++)
    {
      g_autoptr (Manifest) manifest = parse (referrers[i].text, NULL, NULL);
      g_autofree char *descriptor = manifest_referrer_descriptor (manifest, &digest, 9);
      g_assert_cmpstr (descriptor, ==, referrers[i].descriptor);
    }
}

static void
test_descriptor_round_trip (void)
{
  const char *text
    = "{\"annotations\":{\"k\":\"v\"},\"artifactType\":\"x/y\",\"data\":\"e30=\",\"digest\":\"" EMPTY_DIGEST
      "\",\"mediaType\":\"a/b+c\",\"platform\":{\"architecture\":\"amd64\",\"os\":\"linux\"},\"size\":2,"
      "\"urls\":[\"http://x/y\"]}";
  g_autoptr (yyjson_doc) doc = json_parse (text, strlen (text), 1 << 20, JSON_STRICT, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (Descriptor) descriptor = descriptor_parse (yyjson_doc_get_root (doc), &error);
  g_assert_no_error (error);
  g_assert_cmpstr (descriptor_annotation (descriptor, "k"), ==, "v");
  g_assert_null (descriptor_annotation (descriptor, "l"));
  g_assert_cmpuint (g_bytes_get_size (descriptor->data), ==, 2);
  g_autoptr (yyjson_mut_doc) out = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (out, descriptor_write (out, descriptor));
  g_autofree char *again = json_write (out, NULL);
  g_assert_cmpstr (again, ==, text);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/manifest/good", test_good);
  g_test_add_func ("/manifest/bad", test_bad);
  g_test_add_func ("/manifest/limits", test_limits);
  g_test_add_func ("/manifest/deep", test_deep);
  g_test_add_func ("/manifest/refs", test_refs);
  g_test_add_func ("/manifest/referrer", test_referrer);
  g_test_add_func ("/manifest/descriptor-round-trip", test_descriptor_round_trip);
  return g_test_run ();
}
