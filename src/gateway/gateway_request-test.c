#include "gateway/gateway_request.h"

#include <string.h>

#include "domain/upload_rules.h"
#include "storage/object_parts.h"

static GBytes *
bytes (const char *text)
{
  return g_bytes_new (text, strlen (text));
}

/* Words of the refusal; NULL: it is taken. */
static const struct {
  const char *body, *words;
} probes[] = {
  { "{\"fileName\":\"a.gguf\",\"sizeBytes\":7,\"chunk\":\"R0dVRg==\"}", NULL },
  { "{\"fileName\":\"a/b\\\\c.gguf\",\"chunk\":\"R0dVRjE=\",\"sizeBytes\":null}", NULL },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRjEy\",\"sizeBytes\":9223372036854775807}", NULL },
  { "", "empty" },
  { "{}", "fileName" },
  { "[]", "JSON object" },
  { "{\"fileName\":\"a\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRg\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRg===\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"R===\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"====\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0d=Rg==\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dV Rg=\"}", "chunk" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0-_\"}", "chunk" },
  { "{\"fileName\":\"..\",\"chunk\":\"R0dVRg==\"}", "fileName" },
  { "{\"fileName\":\"a\\u0000b\",\"chunk\":\"R0dVRg==\"}", "fileName" },
  { "{\"fileName\":7,\"chunk\":\"R0dVRg==\"}", "fileName" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRg==\",\"sizeBytes\":-1}", "sizeBytes" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRg==\",\"sizeBytes\":9223372036854775808}", "sizeBytes" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRg==\",\"sizeBytes\":1.0}", "sizeBytes" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRg==\",\"x\":1}", "unknown member \"x\"" },
  { "{\"fileName\":\"a\",\"fileName\":\"b\",\"chunk\":\"R0dVRg==\"}", "twice" },
  { "{\"fileName\":\"a\",\"chunk\":\"R0dVRg==\"} 1", "bad JSON" },
};

static void
test_probes (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (probes); i++)
    {
      g_autoptr (GBytes) body = bytes (probes[i].body);
      g_auto (ProbeRequest) request = { 0 };
      g_autoptr (GError) error = NULL;
      gboolean taken = probe_request_parse (body, &request, &error);
      g_assert_true (taken == (probes[i].words == NULL));
      if (taken)
        g_assert_true (memcmp (g_bytes_get_data (request.chunk, NULL), "GGUF", 4) == 0);
      else
        g_assert_nonnull (strstr (error->message, probes[i].words));
    }
  g_auto (ProbeRequest) request = { 0 };
  g_autoptr (GBytes) second = bytes (probes[1].body);
  g_assert_true (probe_request_parse (second, &request, NULL));
  g_assert_cmpstr (request.file_name, ==, "c.gguf");
  g_assert_cmpuint (g_bytes_get_size (request.chunk), ==, 5);
}

/* 64 KiB are taken, a byte more is not. */
static void
test_largest_chunk (void)
{
  for (gsize more = 0; more < 2; more++)
    {
      g_autofree guint8 *head = g_malloc0 (UPLOAD_PROBE_BYTES + 1);
      g_autofree char *coded = g_base64_encode (head, UPLOAD_PROBE_BYTES + more);
      g_autofree char *text = g_strdup_printf ("{\"fileName\":\"a\",\"chunk\":\"%s\"}", coded);
      g_autoptr (GBytes) body = bytes (text);
      g_auto (ProbeRequest) request = { 0 };
      gboolean taken = probe_request_parse (body, &request, NULL);
      /* what ends in the same four characters is told by upload_check */
      g_assert_true (!taken || g_bytes_get_size (request.chunk) == UPLOAD_PROBE_BYTES + more);
      g_assert_true (taken || more > 0);
    }
}

static void
test_parts (void)
{
  static const struct {
    const char *body;
    guint n; /* 0: refused */
  } rows[] = {
    { "{\"partNumbers\":[1]}", 1 },
    { "{\"partNumbers\":[10000,1,5]}", 3 },
    { "{\"partNumbers\":[]}", 0 },
    { "{\"partNumbers\":{}}", 0 },
    { "{\"partNumbers\":[0]}", 0 },
    { "{\"partNumbers\":[10001]}", 0 },
    { "{\"partNumbers\":[4294967297]}", 0 },
    { "{\"partNumbers\":[-1]}", 0 },
    { "{\"partNumbers\":[1,2,1]}", 0 },
    { "{\"partNumbers\":[1.0]}", 0 },
    { "{\"partNumbers\":[1],\"more\":1}", 0 },
    { "{}", 0 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GBytes) body = bytes (rows[i].body);
      g_autoptr (GError) error = NULL;
      g_autoptr (GArray) numbers = parts_request_parse (body, &error);
      g_assert_cmpuint (numbers != NULL ? numbers->len : 0, ==, rows[i].n);
      g_assert_true ((error == NULL) == (numbers != NULL));
    }
}

static void
test_completions (void)
{
  static const struct {
    const char *body;
    guint n;
  } rows[] = {
    { "{\"parts\":[{\"partNumber\":1,\"etag\":\"\\\"x\\\"\"}]}", 1 },
    { "{\"parts\":[{\"partNumber\":2,\"etag\":\"x\"},{\"etag\":\"y\",\"partNumber\":10000}]}", 2 },
    { "{\"parts\":[]}", 0 },
    { "{\"parts\":[1]}", 0 },
    { "{\"parts\":[{\"partNumber\":1}]}", 0 },
    { "{\"parts\":[{\"etag\":\"x\"}]}", 0 },
    { "{\"parts\":[{\"partNumber\":1,\"etag\":\"\"}]}", 0 },
    { "{\"parts\":[{\"partNumber\":0,\"etag\":\"x\"}]}", 0 },
    { "{\"parts\":[{\"partNumber\":1,\"etag\":\"x\",\"y\":1}]}", 0 },
    { "{\"parts\":[{\"partNumber\":2,\"etag\":\"x\"},{\"partNumber\":2,\"etag\":\"x\"}]}", 0 },
    { "{\"parts\":[{\"partNumber\":2,\"etag\":\"x\"},{\"partNumber\":1,\"etag\":\"x\"}]}", 0 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GBytes) body = bytes (rows[i].body);
      g_autoptr (GPtrArray) parts = complete_request_parse (body, NULL);
      g_assert_cmpuint (parts != NULL ? parts->len : 0, ==, rows[i].n);
      if (parts != NULL)
        g_assert_cmpstr (((ObjectPart *) g_ptr_array_index (parts, 0))->etag, ==, "x");
    }
}

static void
test_small_bodies (void)
{
  static const struct {
    const char *body, *name;
    gboolean is_empty;
  } rows[] = {
    { "{\"fileName\":\"x/a\"}", "a", FALSE },
    { "{\"fileName\":\"\"}", NULL, FALSE },
    { "{\"name\":\"a\"}", NULL, FALSE },
    { "{}", NULL, TRUE },
    { "", NULL, TRUE },
    { "null", NULL, FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GBytes) body = bytes (rows[i].body);
      g_autofree char *name = init_request_parse (body, NULL);
      g_assert_cmpstr (name, ==, rows[i].name);
      g_assert_true (empty_request_check (body, NULL) == rows[i].is_empty);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/gateway-request/probes", test_probes);
  g_test_add_func ("/gateway-request/largest-chunk", test_largest_chunk);
  g_test_add_func ("/gateway-request/parts", test_parts);
  g_test_add_func ("/gateway-request/completions", test_completions);
  g_test_add_func ("/gateway-request/small-bodies", test_small_bodies);
  return g_test_run ();
}
