#include "sources/ollama_url.h"

#include <string.h>

#define MIRROR "http://127.0.0.1:8080/ollama"
#define X80 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
  const char *text, *space, *model, *tag;
} good[] = {
  { "https://ollama.com/library/llama3.1:8b", "library", "llama3.1", "8b" },
  { "https://ollama.com/library/llama3.1", "library", "llama3.1", "latest" },
  { "  https://ollama.com/library/llama3.1/ \n", "library", "llama3.1", "latest" },
  { "https://www.ollama.com/library/llama3.1:8b-instruct-q4_K_M", "library", "llama3.1", "8b-instruct-q4_K_M" },
  { "HTTPS://OLLAMA.COM/library/Qwen3", "library", "Qwen3", "latest" },
  { "https://ollama.com:443/library/qwen3", "library", "qwen3", "latest" },
  { "https://ollama.ai/library/llama2", "library", "llama2", "latest" },
  { "ollama.com/library/qwen3:0.6b", "library", "qwen3", "0.6b" },
  { "https://ollama.com/library/qwen3:0.6b?sort=new#readme", "library", "qwen3", "0.6b" },
  { "https://ollama.com/library/qwen3%3A0.6b", "library", "qwen3", "0.6b" },
  { "https://ollama.com/some-user/my_model:v1", "some-user", "my_model", "v1" },
  { "ollama.com/some-user/model", "some-user", "model", "latest" },
  { "registry.ollama.ai/library/qwen3:4b", "library", "qwen3", "4b" },
  { "https://registry.ollama.ai/user/model:tag", "user", "model", "tag" },
  { "ollama://qwen3", "library", "qwen3", "latest" },
  { "ollama://qwen3:4b", "library", "qwen3", "4b" },
  { "ollama://user/model:4b", "user", "model", "4b" },
  { "ollama://registry.ollama.ai/library/qwen3:4b", "library", "qwen3", "4b" },
  { "https://ollama.com/library/" X80 ":" X80, "library", X80, X80 },
  { MIRROR "/library/qwen3:4b", "library", "qwen3", "4b" },
};

static void
test_good (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (OllamaUrl) url = { 0 };
      g_assert_true (ollama_url_is (good[i].text, MIRROR));
      gboolean ok = ollama_url_parse (good[i].text, MIRROR, &url, &error);
      g_assert_no_error (error);
      g_assert_true (ok);
      g_assert_cmpstr (url.space, ==, good[i].space);
      g_assert_cmpstr (url.model, ==, good[i].model);
      g_assert_cmpstr (url.tag, ==, good[i].tag);
    }
}

/* What is no model, and a part of what is said about it. */
static const struct {
  const char *text, *reason, *says;
} bad[] = {
  { "https://ollama.com", "UnsupportedSource", "names no model" },
  { "https://ollama.com/?q=secret", "UnsupportedSource", "names no model" },
  { "https://ollama.com/library", "UnsupportedSource", "list of all models" },
  { "https://ollama.com/library/qwen3/tags", "UnsupportedSource", "list of a model's tags" },
  { "https://ollama.com/user/model/tags", "UnsupportedSource", "list of a model's tags" },
  { "https://ollama.com/library/qwen3:4b/blobs/163553aea1b1", "UnsupportedSource", "one part" },
  { "https://ollama.com/library/qwen3/a/b", "UnsupportedSource", "no model's own page" },
  { "https://ollama.com/search?q=secret", "UnsupportedSource", "a search" },
  { "https://ollama.com/blog/secret-model", "UnsupportedSource", "blog" },
  { "https://ollama.com/download/linux", "UnsupportedSource", "Ollama itself" },
  { "https://ollama.com/api/tags", "UnsupportedSource", "for programs" },
  { "https://registry.ollama.ai/v2/library/qwen3/manifests/4b", "UnsupportedSource", "for programs" },
  { "https://ollama.com/some-user", "UnsupportedSource", "/library/" },
  { "https://ollama.com/qwen3:4b", "UnsupportedSource", "/library/" },
  { "ollama://other.example/library/qwen3", "UnsupportedSource", "another registry" },
  { "https://example.org/library/qwen3", "UnsupportedSource", "no address of Ollama" },
  { "https://ollama.com.example.org/library/qwen3", "UnsupportedSource", "no address of Ollama" },
  { "qwen3:4b", "UnsupportedSource", "no address of Ollama" },
  { "http://ollama.com/library/qwen3", "InvalidUrl", "https://" },
  { "https://ollama.com/library//qwen3", "InvalidUrl", "well formed" },
  { "https://ollama.com/library/a%00b", "InvalidUrl", "well formed" },
  { "https://ollama.com/library/..%2Fx", "InvalidUrl", "no model" },
  { "https://ollama.com/library/..", "InvalidUrl", "no model" },
  { "https://ollama.com/library/-x", "InvalidUrl", "no model" },
  { "https://ollama.com/li.brary/x", "InvalidUrl", "no model" },
  { "https://ollama.com/library/x y", "InvalidUrl", "no model" },
  { "https://ollama.com/library/x" X80, "InvalidUrl", "no model" },
  { "https://ollama.com/library/a:b:c", "InvalidUrl", "no model" },
  { "https://ollama.com/library/x:", "InvalidUrl", "no tag" },
  { "https://ollama.com/library/:x", "InvalidUrl", "no model" },
  { "https://ollama.com/library/x:a%2Fb", "InvalidUrl", "no tag" },
  { "https://ollama.com/library/x:..", "InvalidUrl", "no tag" },
  { "https://ollama.com/library/x:-a", "InvalidUrl", "no tag" },
  { "https://ollama.com/library/x:" X80 "y", "InvalidUrl", "no tag" },
  { "https://ollama.com/library/x@sha256:00", "InvalidUrl", "digest" },
  { "ollama://", "InvalidUrl", "no model" },
  { "https://user:secret@ollama.com/library/x", "InvalidUrl", "a user or a token" },
};

static void
test_bad (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      OllamaUrl url = { 0 };
      g_test_message ("%s", bad[i].text);
      g_assert_false (ollama_url_parse (bad[i].text, NULL, &url, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_cmpstr (am_error_reason (error), ==, bad[i].reason);
      g_assert_nonnull (strstr (error->message, bad[i].says));
      g_assert_null (strstr (error->message, "=secret"));
      g_assert_null (strstr (error->message, ":secret"));
      g_assert_null (url.model);
    }
}

static void
test_length (void)
{
  g_autoptr (GError) error = NULL;
  OllamaUrl url = { 0 };
  g_autofree char *long_part = g_strnfill (5000, 'x'), *text = g_strconcat ("https://ollama.com/", long_part, NULL);
  g_assert_false (ollama_url_parse (text, NULL, &url, &error));
  g_assert_cmpuint (strlen (error->message), <, 200);
}

static void
test_is (void)
{
  g_assert_true (ollama_url_is ("http://ollama.com/library/x", NULL));
  g_assert_true (ollama_url_is ("https://ollama.com", NULL));
  g_assert_true (ollama_url_is ("ollama://", NULL));
  g_assert_true (ollama_url_is ("\f\t ollama://x", NULL));
  g_assert_false (ollama_url_is ("https://huggingface.co/a/b", NULL));
  g_assert_false (ollama_url_is ("./ollama.com/library/x", NULL));
  g_assert_false (ollama_url_is ("ollama.com.d/model", NULL));
  g_assert_false (ollama_url_is (MIRROR "/library/x", NULL));
  g_assert_false (ollama_url_is (MIRROR "s/library/x", MIRROR));
}

static void
test_to_string (void)
{
  g_auto (OllamaUrl) url = { 0 };
  g_assert_true (ollama_url_parse ("ollama://x", NULL, &url, NULL));
  g_autofree char *site = ollama_url_to_string (&url, NULL), *mirror = ollama_url_to_string (&url, MIRROR);
  g_assert_cmpstr (site, ==, "https://ollama.com/library/x:latest");
  g_assert_cmpstr (mirror, ==, MIRROR "/library/x:latest");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ollama_url/good", test_good);
  g_test_add_func ("/ollama_url/bad", test_bad);
  g_test_add_func ("/ollama_url/length", test_length);
  g_test_add_func ("/ollama_url/is", test_is);
  g_test_add_func ("/ollama_url/to-string", test_to_string);
  return g_test_run ();
}
