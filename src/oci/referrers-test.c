#include "oci/referrers.h"

#include <string.h>

#include "oci/manifest.h"

static void
test_tag (void)
{
  Digest digest;
  g_assert_true (
    digest_parse ("sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", &digest, NULL));
  g_autofree char *tag = referrers_tag (&digest);
  g_assert_cmpstr (tag, ==, "sha256-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
  digest_of (DIGEST_SHA512, "x", 1, &digest);
  g_autofree char *long_tag = referrers_tag (&digest);
  g_assert_cmpuint (strlen (long_tag), ==, strlen ("sha512-") + 64);
}

static GBytes *
add (GBytes *index, const char *what, gboolean *out_had, GError **error)
{
  Digest digest;
  char text[DIGEST_STRING_SIZE];
  digest_of (DIGEST_SHA256, what, strlen (what), &digest);
  g_autofree char *descriptor = g_strdup_printf ("{\"mediaType\":\"" OCI_MANIFEST
                                                 "\",\"digest\":\"%s\",\"size\":1,\"artifactType\":\"x/%s\"}",
                                                 digest_format (&digest, text), what);
  return referrers_index_add (index, &digest, descriptor, out_had, error);
}

static void
test_add (void)
{
  g_autoptr (GError) error = NULL;
  gboolean had = TRUE;
  g_autoptr (GBytes) one = add (NULL, "a", &had, &error);
  g_assert_no_error (error);
  g_assert_false (had);
  g_autoptr (GBytes) two = add (one, "b", &had, &error);
  g_assert_false (had);
  g_autoptr (GBytes) again = add (two, "a", &had, &error);
  g_assert_true (had);
  g_assert_true (g_bytes_equal (again, two));
  g_autoptr (Manifest) index = manifest_parse (two, OCI_INDEX, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (index->manifests->len, ==, 2);
  g_assert_cmpstr (((Descriptor *) g_ptr_array_index (index->manifests, 1))->artifact_type, ==, "x/b");
}

/* What others wrote into the index stays. */
static void
test_keeps_the_rest (void)
{
  static const char text[] = "{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[],"
                             "\"annotations\":{\"a\":\"b\"},\"x-other\":[1,{\"y\":2.5}]}";
  g_autoptr (GError) error = NULL;
  gboolean had = TRUE;
  g_autoptr (GBytes) old = g_bytes_new_static (text, strlen (text));
  g_autoptr (GBytes) index = add (old, "a", &had, &error);
  g_assert_no_error (error);
  g_autofree char *written = g_strndup (g_bytes_get_data (index, NULL), g_bytes_get_size (index));
  g_assert_nonnull (strstr (written, "\"annotations\":{\"a\":\"b\"},\"x-other\":[1,{\"y\":2.5}]"));
}

static void
test_remove (void)
{
  g_autoptr (GError) error = NULL;
  gboolean had = FALSE;
  Digest a, other;
  digest_of (DIGEST_SHA256, "a", 1, &a);
  digest_of (DIGEST_SHA256, "other", 5, &other);
  g_autoptr (GBytes) one = add (NULL, "a", &had, &error);
  g_autoptr (GBytes) two = add (one, "b", &had, &error);
  g_autoptr (GBytes) same = referrers_index_remove (two, &other, &had, &error);
  g_assert_false (had);
  g_assert_true (g_bytes_equal (same, two));
  g_autoptr (GBytes) left = referrers_index_remove (two, &a, &had, &error);
  g_assert_true (had);
  g_autoptr (GBytes) wanted = add (NULL, "b", &had, &error);
  g_assert_true (g_bytes_equal (left, wanted));
  g_autoptr (GBytes) again = add (left, "a", &had, &error);
  g_assert_false (had);
  g_assert_no_error (error);
  g_autoptr (GBytes) rubbish = g_bytes_new_static ("[]", 2);
  g_assert_null (referrers_index_remove (rubbish, &a, &had, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
}

static void
test_refuses (void)
{
  static const char *const bad[] = { "", "[]", "no json", "{\"schemaVersion\":2,\"mediaType\":\"" OCI_MANIFEST "\"}",
                                     "{\"schemaVersion\":2,\"manifests\":7}" };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      gboolean had = FALSE;
      g_autoptr (GBytes) bytes = g_bytes_new_static (bad[i], strlen (bad[i]));
      g_assert_null (add (bytes, "a", &had, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
    }
}

static void
test_full (void)
{
  g_autoptr (GError) error = NULL;
  gboolean had = FALSE;
  g_autoptr (GString) text = g_string_new ("{\"schemaVersion\":2,\"manifests\":[],\"annotations\":{\"pad\":\"");
  g_autofree char *padding = g_strnfill (MANIFEST_MAX_BYTES - text->len - 4, 'x');
  g_string_append_printf (text, "%s\"}}", padding);
  g_autoptr (GBytes) index = g_bytes_new (text->str, text->len);
  g_assert_null (add (index, "a", &had, &error));
  g_assert_true (am_error_has_reason (error, "SIZE_INVALID"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/referrers/tag", test_tag);
  g_test_add_func ("/referrers/add", test_add);
  g_test_add_func ("/referrers/keeps-the-rest", test_keeps_the_rest);
  g_test_add_func ("/referrers/remove", test_remove);
  g_test_add_func ("/referrers/refuses", test_refuses);
  g_test_add_func ("/referrers/full", test_full);
  return g_test_run ();
}
