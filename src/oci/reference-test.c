#include "oci/reference.h"

#include <string.h>

#define HEX64 "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
#define HEX128 HEX64 HEX64

static const struct {
  const char *text;
  const char *host, *name, *tag, *digest;
} good[] = {
  { "model", NULL, "model", "latest", NULL },
  { "model:v1", NULL, "model", "v1", NULL },
  { "team/model", NULL, "team/model", "latest", NULL },
  { "team/sub/model:V1.0_rc-2", NULL, "team/sub/model", "V1.0_rc-2", NULL },
  { "localhost/m", "localhost", "m", "latest", NULL },
  { "localhost:5000/m:t", "localhost:5000", "m", "t", NULL },
  { "a.b/m", "a.b", "m", "latest", NULL },
  { "Registry.Example/m", "Registry.Example", "m", "latest", NULL },
  { "host:1/m/n", "host:1", "m/n", "latest", NULL },
  { "[::1]:5000/m", "[::1]:5000", "m", "latest", NULL },
  { "10.0.0.1:65535/m", "10.0.0.1:65535", "m", "latest", NULL },
  { "m@sha256:" HEX64, NULL, "m", NULL, "sha256:" HEX64 },
  { "m:t@sha256:" HEX64, NULL, "m", "t", "sha256:" HEX64 },
  { "a.b:1/m:t@sha512:" HEX128, "a.b:1", "m", "t", "sha512:" HEX128 },
  { "model:5000", NULL, "model", "5000", NULL },
  { "a__b-c---d/e.f/f_g", NULL, "a__b-c---d/e.f/f_g", "latest", NULL },
  { "library/model", NULL, "library/model", "latest", NULL },
};

static void
test_good (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Reference) reference = reference_parse (good[i].text, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (reference->host, ==, good[i].host);
      g_assert_cmpstr (reference->name, ==, good[i].name);
      g_assert_cmpstr (reference->tag, ==, good[i].tag);
      g_assert_cmpint (reference->has_digest, ==, good[i].digest != NULL);
      g_autofree char *selector = reference_selector (reference);
      g_assert_cmpstr (selector, ==, good[i].digest != NULL ? good[i].digest : good[i].tag);
      g_autofree char *text = reference_to_string (reference);
      g_autoptr (Reference) again = reference_parse (text, &error);
      g_assert_no_error (error);
      g_autofree char *text_again = reference_to_string (again);
      g_assert_cmpstr (text, ==, text_again);
    }
}

static const struct {
  const char *text;
  const char *reason;
} bad[] = {
  { "", "NAME_INVALID" },
  { "https://a.b/m", "NAME_INVALID" },
  { "oci://m", "NAME_INVALID" },
  { "Model", "NAME_INVALID" },
  { "a.b/", "NAME_INVALID" },
  { "/m", "NAME_INVALID" },
  { "m/", "NAME_INVALID" },
  { "a//b", "NAME_INVALID" },
  { "a/../b", "NAME_INVALID" },
  { "m..n", "NAME_INVALID" },
  { "m___n", "NAME_INVALID" },
  { "-m", "NAME_INVALID" },
  { "m-", "NAME_INVALID" },
  { "m.", "NAME_INVALID" },
  { "_m", "NAME_INVALID" },
  { "host:0/m", "NAME_INVALID" },
  { "host:65536/m", "NAME_INVALID" },
  { "host:/m", "NAME_INVALID" },
  { "host:5x/m", "NAME_INVALID" },
  { "user:secret@host/m", "DIGEST_INVALID" },
  { ".a/m", "NAME_INVALID" },
  { "a..b/m", "NAME_INVALID" },
  { "[::1/m", "NAME_INVALID" },
  { "[x]/m", "NAME_INVALID" },
  { "m:", "TAG_INVALID" },
  { "m:.t", "TAG_INVALID" },
  { "m:-t", "TAG_INVALID" },
  { "m:a b", "TAG_INVALID" },
  { "m:a:b", "TAG_INVALID" },
  { "m@", "DIGEST_INVALID" },
  { "m@sha256:ABC", "DIGEST_INVALID" },
  { "m@sha256:" HEX64 "0", "DIGEST_INVALID" },
  { "m@md5:" HEX64, "DIGEST_INVALID" },
  { "m\nn", "NAME_INVALID" },
  { "\xc3\xa9", "NAME_INVALID" },
};

static void
test_bad (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Reference) reference = reference_parse (bad[i].text, &error);
      g_test_message ("%s: %s", bad[i].text, error != NULL ? error->message : "accepted");
      g_assert_null (reference);
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_cmpstr (am_error_reason (error), ==, bad[i].reason);
      g_assert_true (g_utf8_validate (error->message, -1, NULL));
    }
}

static void
test_limits (void)
{
  g_autofree char *name = g_strnfill (REPOSITORY_NAME_MAX, 'a');
  g_autofree char *longer = g_strnfill (REPOSITORY_NAME_MAX + 1, 'a');
  g_autofree char *tag = g_strnfill (TAG_NAME_MAX, 't');
  g_autofree char *longer_tag = g_strnfill (TAG_NAME_MAX + 1, 't');
  g_assert_true (repository_name_check (name, NULL));
  g_assert_false (repository_name_check (longer, NULL));
  g_assert_false (repository_name_check (NULL, NULL));
  g_assert_true (tag_name_check (tag, NULL));
  g_assert_false (tag_name_check (longer_tag, NULL));
  g_autofree char *with_host = g_strdup_printf ("a.b/%s", name);
  g_assert_null (reference_parse (with_host, NULL));
  g_autofree char *fits = g_strdup_printf ("a.b/%s:%s", name + 4, tag);
  g_autoptr (Reference) reference = reference_parse (fits, NULL);
  g_assert_nonnull (reference);
}

static void
test_selector (void)
{
  gboolean is_digest = TRUE;
  Digest digest;
  g_assert_true (reference_selector_parse ("v1", &is_digest, &digest, NULL));
  g_assert_false (is_digest);
  g_assert_true (reference_selector_parse ("sha256:" HEX64, &is_digest, &digest, NULL));
  g_assert_true (is_digest);
  g_autoptr (GError) error = NULL;
  g_assert_false (reference_selector_parse ("sha256:zz", &is_digest, &digest, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "DIGEST_INVALID");
  g_assert_false (reference_selector_parse ("a/b", &is_digest, &digest, NULL));
  g_assert_false (reference_selector_parse (NULL, &is_digest, &digest, NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/reference/good", test_good);
  g_test_add_func ("/reference/bad", test_bad);
  g_test_add_func ("/reference/limits", test_limits);
  g_test_add_func ("/reference/selector", test_selector);
  return g_test_run ();
}
