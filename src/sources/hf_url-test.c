#include "sources/hf_url.h"

#include <string.h>

#define HEX40 "0123456789abcdef0123456789abcdef01234567"
#define MIRROR "http://127.0.0.1:8080/hf"

/* Pitfalls A4 A24 A31 A32: whatever a person pastes. */
static const struct {
  const char *text, *repository, *revision, *path;
  gboolean is_guess;
} good[] = {
  { "https://huggingface.co/owner/name", "owner/name", NULL, NULL },
  { "  https://huggingface.co/owner/name/ \n", "owner/name", NULL, NULL },
  { "HTTPS://HuggingFace.co/Owner/Name", "Owner/Name", NULL, NULL },
  { "https://huggingface.co:443/owner/name", "owner/name", NULL, NULL },
  { "https://www.huggingface.co/owner/name", "owner/name", NULL, NULL },
  { "https://hf.co/owner/name", "owner/name", NULL, NULL },
  { "hf.co/owner/name", "owner/name", NULL, NULL },
  { "huggingface.co/owner/name", "owner/name", NULL, NULL },
  { "https://huggingface.co/owner/name.git", "owner/name", NULL, NULL },
  { "git@hf.co:owner/name.git", "owner/name", NULL, NULL },
  { "ssh://git@hf.co/owner/name", "owner/name", NULL, NULL },
  { "https://huggingface.co/gpt2", "gpt2", NULL, NULL },
  { "https://huggingface.co/gpt2/tree/main", "gpt2", "main", NULL },
  { "https://huggingface.co/gpt2/resolve/main/config.json", "gpt2", "main", "config.json", TRUE },
  { "https://huggingface.co/owner/tree", "owner/tree", NULL, NULL },
  { "https://huggingface.co/owner/tree/tree/main", "owner/tree", "main", NULL },
  { "https://huggingface.co/owner/name/tree/main", "owner/name", "main", NULL },
  { "https://huggingface.co/owner/name/tree", "owner/name", NULL, NULL },
  { "https://huggingface.co/owner/name/tree/v1/a/b", "owner/name", "v1", "a/b", TRUE },
  { "https://huggingface.co/owner/name/tree/v1/a/b/", "owner/name", "v1", "a/b", TRUE },
  { "https://huggingface.co/owner/name/tree/a%2Fb/dir", "owner/name", "a/b", "dir" },
  { "https://huggingface.co/owner/name/tree/refs%2Fpr%2F7", "owner/name", "refs/pr/7", NULL },
  { "https://huggingface.co/owner/name/tree/refs/pr/7/dir", "owner/name", "refs/pr/7", "dir" },
  { "https://huggingface.co/owner/name/blob/refs/convert/gguf/f.gguf", "owner/name", "refs/convert/gguf", "f.gguf" },
  { "https://huggingface.co/owner/name/blob/main/q4/model%20one.gguf", "owner/name", "main", "q4/model one.gguf",
    TRUE },
  { "https://huggingface.co/owner/name/resolve/" HEX40 "/m.gguf?download=true", "owner/name", HEX40, "m.gguf" },
  { "https://huggingface.co/owner/name/raw/main/config.json#L3", "owner/name", "main", "config.json", TRUE },
  { "https://huggingface.co/owner/name/commit/" HEX40, "owner/name", HEX40, NULL },
  { "https://huggingface.co/owner/name/commits/main", "owner/name", "main", NULL },
  { "https://huggingface.co/owner/name?revision=v2", "owner/name", "v2", NULL },
  { "https://huggingface.co/owner/name?a=b&revision=a%2Fb#x", "owner/name", "a/b", NULL },
  { "https://huggingface.co/owner/name/tree/main?revision=v2", "owner/name", "main", NULL },
  { "https://huggingface.co/owner/name?revision=", "owner/name", NULL, NULL },
  { "https://huggingface.co/owner/name#revision=v2", "owner/name", NULL, NULL },
  { "hf://owner/name", "owner/name", NULL, NULL },
  { "hf://models/owner/name", "owner/name", NULL, NULL },
  { "hf://gpt2", "gpt2", NULL, NULL },
  { "hf://gpt2@v1", "gpt2", "v1", NULL },
  { "hf://owner/name@v1", "owner/name", "v1", NULL },
  { "hf://owner/name@v1/dir/file.gguf", "owner/name", "v1", "dir/file.gguf", TRUE },
  { "hf://owner/name@a%2Fb/dir", "owner/name", "a/b", "dir" },
  { "hf://owner/name@refs/pr/3/dir", "owner/name", "refs/pr/3", "dir" },
  { "hf://owner/name/dir/file.gguf", "owner/name", NULL, "dir/file.gguf" },
  { "hf://owner/name:v1", "owner/name", "v1", NULL },
  { MIRROR "/owner/name/tree/main", "owner/name", "main", NULL },
};

static void
test_good (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (HfUrl) url = { 0 };
      g_assert_true (hf_url_is (good[i].text, MIRROR));
      gboolean parsed = hf_url_parse (good[i].text, MIRROR, &url, &error);
      g_assert_no_error (error);
      g_assert_true (parsed);
      g_assert_cmpstr (url.repository, ==, good[i].repository);
      g_assert_cmpstr (url.revision, ==, good[i].revision);
      g_assert_cmpstr (url.path, ==, good[i].path);
      g_assert_cmpint (url.is_guess, ==, good[i].is_guess);
    }
}

static const struct {
  const char *text, *reason, *says;
} bad[] = {
  { "", "UnsupportedSource", "not an address" },
  { "owner/name", "UnsupportedSource", "not an address" },
  { "https://example.org/owner/name", "UnsupportedSource", "not an address" },
  { "https://huggingface.co.example.org/owner/name", "UnsupportedSource", "not an address" },
  { "https://huggingface.co@example.org/owner/name", "InvalidUrl", "token" },
  { "https://user:hf_secret@huggingface.co/owner/name", "InvalidUrl", "token" },
  { "s3://key:secret@bucket/x", "InvalidUrl", "token" },
  { "s3://bucket/x", "UnsupportedSource", "not an address" },
  { "https://huggingface.co:8443/owner/name", "UnsupportedSource", "not an address" },
  { "http://127.0.0.1:8080/hfx/owner/name", "UnsupportedSource", "not an address" },
  { "http://huggingface.co/owner/name", "InvalidUrl", "https://" },
  { "https://huggingface.co", "InvalidUrl", "names no repository" },
  { "https://huggingface.co/", "InvalidUrl", "names no repository" },
  { "https://huggingface.co/datasets/owner/name", "UnsupportedSource", "dataset" },
  { "hf://datasets/owner/name", "UnsupportedSource", "dataset" },
  { "https://huggingface.co/spaces/owner/name", "UnsupportedSource", "space" },
  { "https://huggingface.co/models", "UnsupportedSource", "list of models" },
  { "https://huggingface.co/api/models/owner/name", "UnsupportedSource", "programs" },
  { "https://huggingface.co/owner/name/discussions/3", "InvalidUrl", "not a page" },
  { "https://huggingface.co/owner/name/tree/main/../x", "InvalidUrl", "file or folder" },
  { "https://huggingface.co/owner/name/tree/main/%2e%2e/x", "InvalidUrl", "file or folder" },
  { "https://huggingface.co/owner/name/tree/main/a%5Cb", "InvalidUrl", "file or folder" },
  { "https://huggingface.co/owner/name/tree/..%2Fx", "InvalidUrl", "revision" },
  { "https://huggingface.co/owner/name/tree/%0a", "InvalidUrl", "revision" },
  { "https://huggingface.co/owner//name", "InvalidUrl", "well formed" },
  { "https://huggingface.co/owner/name/tree/%zz", "InvalidUrl", "well formed" },
  { "https://huggingface.co/owner/name/tree/%00", "InvalidUrl", "well formed" },
  { "https://huggingface.co/own%2Fer/name", "InvalidUrl", "names no repository" },
  { "https://huggingface.co/owner/na--me", "InvalidUrl", "names no repository" },
  { "https://huggingface.co/-owner/name", "InvalidUrl", "names no repository" },
  { "https://huggingface.co/owner/name.", "InvalidUrl", "names no repository" },
  { "https://huggingface.co/owner/n%20ame", "InvalidUrl", "names no repository" },
  { "hf.co/owner/name:", "InvalidUrl", "variant" },
  { "hf.co/owner/name:a%20b", "InvalidUrl", "variant" },
  { "hf.co/owner/name:..%2Fx", "InvalidUrl", "variant" },
  { "hf.co/owner/name:a:b", "InvalidUrl", "variant" },
  { "hf.co/owner/name:Q4_K_M/tree/main", "InvalidUrl", "variant" },
  { "hf://", "InvalidUrl", "names no repository" },
  { "hf://owner/name@", "InvalidUrl", "well formed" },
  { "hf://owner/name/dir@v1", "InvalidUrl", "well formed" },
};

static void
test_bad (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      HfUrl url = { 0 };
      g_assert_false (hf_url_parse (bad[i].text, MIRROR, &url, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_cmpstr (am_error_reason (error), ==, bad[i].reason);
      if (strstr (error->message, bad[i].says) == NULL)
        g_error ("%s: %s", bad[i].text, error->message);
      g_assert_null (strstr (error->message, "secret"));
      g_assert_null (url.repository);
    }
}

static void
test_length (void)
{
  g_autofree char *name = g_strnfill (90, 'a');
  g_autofree char *fits = g_strdup_printf ("hf.co/owner/%s", name), *over = g_strdup_printf ("hf.co/owners/%s", name);
  g_autofree char *endless = g_strnfill (100000, 'a');
  g_autoptr (GError) error = NULL;
  g_auto (HfUrl) url = { 0 };
  g_assert_true (hf_url_parse (fits, NULL, &url, &error));
  g_assert_false (hf_url_parse (over, NULL, &url, &error));
  g_clear_error (&error);
  g_assert_false (hf_url_parse (endless, NULL, &url, &error));
  g_assert_cmpuint (strlen (error->message), <, 500);
}

static void
test_secrets_of_a_query_are_not_shown (void)
{
  g_autoptr (GError) error = NULL;
  HfUrl url = { 0 };
  g_assert_false (hf_url_parse ("https://example.org/a/b?token=secret", NULL, &url, &error));
  g_assert_null (strstr (error->message, "secret"));
}

static void
test_variant (void)
{
  g_auto (HfUrl) url = { 0 }, file = { 0 };
  g_assert_true (hf_url_parse ("hf.co/owner/name:Q4_K_M", NULL, &url, NULL));
  g_assert_cmpstr (url.repository, ==, "owner/name");
  g_assert_cmpstr (url.variant, ==, "Q4_K_M");
  g_assert_true (hf_url_parse ("https://huggingface.co/gpt2:model.gguf?revision=v1", NULL, &file, NULL));
  g_assert_cmpstr (file.repository, ==, "gpt2");
  g_assert_cmpstr (file.variant, ==, "model.gguf");
  g_assert_cmpstr (file.revision, ==, "v1");
  g_assert_null (file.path);
}

static void
test_widen (void)
{
  g_auto (HfUrl) url = { 0 };
  g_assert_true (hf_url_parse ("https://hf.co/o/n/tree/feature/x/dir", NULL, &url, NULL));
  g_assert_true (hf_url_widen (&url));
  g_assert_cmpstr (url.revision, ==, "feature/x");
  g_assert_cmpstr (url.path, ==, "dir");
  g_assert_true (hf_url_widen (&url));
  g_assert_cmpstr (url.revision, ==, "feature/x/dir");
  g_assert_cmpstr (url.path, ==, NULL);
  g_assert_false (hf_url_widen (&url));
}

static void
test_is (void)
{
  g_assert_true (hf_url_is ("http://huggingface.co/a/b", NULL));
  g_assert_true (hf_url_is ("https://huggingface.co", NULL));
  g_assert_true (hf_url_is ("\f\t hf://a/b", NULL));
  g_assert_false (hf_url_is ("https://ollama.com/library/x", NULL));
  g_assert_false (hf_url_is ("huggingface.co.d/model", NULL));
  g_assert_false (hf_url_is ("./hf.co/a/b", NULL));
  g_assert_false (hf_url_is (MIRROR "/a/b", NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hf_url/good", test_good);
  g_test_add_func ("/hf_url/bad", test_bad);
  g_test_add_func ("/hf_url/length", test_length);
  g_test_add_func ("/hf_url/secrets", test_secrets_of_a_query_are_not_shown);
  g_test_add_func ("/hf_url/variant", test_variant);
  g_test_add_func ("/hf_url/widen", test_widen);
  g_test_add_func ("/hf_url/is", test_is);
  return g_test_run ();
}
