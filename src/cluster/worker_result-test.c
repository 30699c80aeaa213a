#include "cluster/worker_result.h"

#include <string.h>

#include "base/file.h"
#include "base/yaml_reader.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ARTIFACT \
  "\"artifact\":{\"digest\":\"sha256:" HEX "\",\"mediaType\":\"m/t\",\"sizeBytes\":9,\"repository\":\"a/b\"}"
#define SOURCE "\"source\":{\"resolvedType\":\"Ollama\",\"resolvedRevision\":\"4b@sha256:1\"}"
#define RESOLVED "\"resolved\":{\"format\":\"GGUF\"}"
#define RESULT(artifact, source, resolved) \
  "{\"result\":{" artifact "," source "," resolved ",\"metadataComplete\":true}}"

static const char *crds;

static WorkerResult
parsed (const char *text)
{
  g_autoptr (GError) error = NULL;
  WorkerResult result = { 0 };
  g_assert_true (worker_result_parse (text, strlen (text), &result, &error));
  g_assert_no_error (error);
  return result;
}

static void
test_result (void)
{
  g_auto (WorkerResult) result = parsed (RESULT (
    ARTIFACT, SOURCE,
    "\"resolved\":{\"format\":\"GGUF\",\"family\":\"qwen3\",\"architecture\":\"\",\"parameterCount\":7,\"contextWindowTokens\":8,"
    "\"supportedEndpointTypes\":[\"Chat\",\"Made up\",\"Chat\"],\"supportedFeatures\":[\"made up\"],"
    "\"sourceCapabilities\":{\"provider\":\"Ollama\",\"tasks\":[\"\",\"a\"]}}"));
  g_assert_cmpint (result.end, ==, WORKER_HAS_RESULT);
  g_assert_cmpstr (result.digest, ==, "sha256:" HEX);
  g_assert_cmpstr (result.media_type, ==, "m/t");
  g_assert_cmpstr (result.repository, ==, "a/b");
  g_assert_cmpuint (result.size_bytes, ==, 9);
  g_assert_cmpstr (result.source_type, ==, "Ollama");
  g_assert_cmpstr (result.source_revision, ==, "4b@sha256:1");
  g_assert_true (result.metadata_complete);
  g_autofree char *text = worker_result_format (&result);
  g_assert_cmpstr (
    text, ==,
    RESULT (
      ARTIFACT, SOURCE,
      "\"resolved\":{\"format\":\"GGUF\",\"family\":\"qwen3\",\"parameterCount\":7,\"contextWindowTokens\":8,"
      "\"supportedEndpointTypes\":[\"Chat\"],\"sourceCapabilities\":{\"provider\":\"Ollama\",\"tasks\":[\"a\"]}}"));
}

static const struct {
  const char *text, *reason, *message;
  WorkerEnd end;
} ends[] = {
  { "{\"failure\":{\"reason\":\"InsufficientStorage\",\"message\":\"no\\nroom\"}}", "InsufficientStorage", "no room",
    WORKER_HAS_FAILED },
  { "{\"failure\":{\"reason\":\"Invented\",\"message\":\"x\"}}", "PublicationFailed", "x", WORKER_HAS_FAILED },
  { "{\"interrupted\":{\"message\":\"told to end\"}}", NULL, "told to end", WORKER_WAS_INTERRUPTED },
};

static void
test_ends (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      g_auto (WorkerResult) result = parsed (ends[i].text);
      g_assert_cmpint (result.end, ==, ends[i].end);
      g_assert_cmpstr (result.reason, ==, ends[i].reason);
      g_assert_cmpstr (result.message, ==, ends[i].message);
    }
}

static const char *const refused[] = {
  "",
  "killed",
  "[]",
  "{}",
  "{\"result\":{}}",
  "{\"result\":null}",
  "{\"failure\":{\"reason\":\"PublicationFailed\"}}",
  "{\"failure\":{\"reason\":\"a\",\"message\":\"b\"},\"interrupted\":{\"message\":\"c\"}}",
  RESULT (ARTIFACT, SOURCE, "\"resolved\":{\"format\":\"gguf\"}"),
  RESULT (ARTIFACT, SOURCE, "\"resolved\":{\"format\":\"GGUF\",\"parameterCount\":\"7\"}"),
  RESULT (ARTIFACT, SOURCE, "\"resolved\":{\"format\":\"GGUF\",\"sourceCapabilities\":[]}"),
  RESULT (ARTIFACT, "\"source\":{\"resolvedType\":\"Elsewhere\"}", RESOLVED),
  RESULT (ARTIFACT, "\"source\":{\"resolvedType\":\"Ollama\",\"resolvedRevision\":\"\"}", RESOLVED),
  RESULT ("\"artifact\":{\"digest\":\"sha256:0\",\"mediaType\":\"m\",\"sizeBytes\":9,\"repository\":\"a\"}", SOURCE,
          RESOLVED),
  RESULT ("\"artifact\":{\"digest\":\"sha256:" HEX "\",\"mediaType\":\"m\",\"sizeBytes\":0,\"repository\":\"a\"}",
          SOURCE, RESOLVED),
  RESULT ("\"artifact\":{\"digest\":\"sha512:" HEX HEX "\",\"mediaType\":\"m\",\"sizeBytes\":9,\"repository\":\"a\"}",
          SOURCE, RESOLVED),
};

static void
test_refused (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (GError) error = NULL;
      WorkerResult result = { 0 };
      g_assert_false (worker_result_parse (refused[i], strlen (refused[i]), &result, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_null (result.digest);
    }
}

static void
test_too_long (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *many = g_strnfill (WORKER_RESULT_MAX_BYTES, 'a');
  g_autofree char *text = g_strdup_printf ("{\"interrupted\":{\"message\":\"%s\"}}", many);
  WorkerResult result = { 0 };
  g_assert_false (worker_result_parse (text, strlen (text), &result, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
}

/* Everything as long as it may be, in characters that JSON spells with six bytes. */
static void
test_cut_result (void)
{
  char wide[257] = "";
  memset (wide, 1, sizeof wide - 1);
  g_autoptr (GPtrArray) tasks = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < RESOLVED_MODEL_MAX_SOURCE_WORDS; i++)
    g_ptr_array_add (tasks, g_strdup_printf ("%02u%.100s", i, wide));
  WorkerResult result = {
    .digest = (char *) "sha256:" HEX,
    .media_type = (char *) "m/t",
    .repository = (char *) "a/b",
    .size_bytes = 1,
    .source_type = (char *) "Upload",
    .resolved = { .format = (char *) "Diffusers",
                  .family = wide,
                  .architecture = wide,
                  .quantization = wide,
                  .source_tasks = tasks },
  };
  g_autofree char *text = worker_result_format (&result);
  g_assert_cmpuint (strlen (text), <=, WORKER_RESULT_MAX_BYTES);
  g_auto (WorkerResult) again = parsed (text);
  g_assert_cmpstr (again.digest, ==, result.digest);
  g_assert_cmpstr (again.resolved.family, ==, wide);
  g_assert_null (again.resolved.quantization);
}

static void
test_cut_message (void)
{
  g_autofree char *filler = g_strnfill (3000, '"');
  g_autofree char *snowmen = g_strjoinv ("\xe2\x98\x83", (char *[]){ filler, filler, NULL });
  WorkerResult result = { .end = WORKER_HAS_FAILED, .reason = (char *) "PublicationFailed", .message = snowmen };
  g_autofree char *text = worker_result_format (&result);
  g_assert_cmpuint (strlen (text), <=, WORKER_RESULT_MAX_BYTES);
  g_auto (WorkerResult) again = parsed (text);
  g_assert_cmpint (g_utf8_strlen (again.message, -1), ==, WORKER_RESULT_MAX_MESSAGE_CHARS);
  g_assert_true (g_str_has_suffix (again.message, "\xe2\x80\xa6"));
  g_autofree char *short_one = worker_message (" a\tb\xff ");
  g_assert_cmpstr (short_one, ==, "a b\xef\xbf\xbd");
}

static yyjson_val *
schema_of_resolved (yyjson_doc *crd)
{
  return yyjson_doc_ptr_get (
    crd, "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/resolved/properties");
}

static void
check_words (yyjson_val *schema, const char *list, const char *format)
{
  size_t index, n;
  yyjson_val *word;
  yyjson_val *words = yyjson_obj_get (yyjson_obj_get (yyjson_obj_get (schema, list), "items"), "enum");
  g_assert_cmpuint (yyjson_arr_size (words), >, 0);
  yyjson_arr_foreach (words, index, n, word)
  {
    g_autofree char *item = g_strdup_printf ("\"%s\":[\"%s\"]", list, yyjson_get_str (word));
    g_autofree char *text = g_strdup_printf (format, item);
    g_auto (WorkerResult) result = parsed (text);
    g_autofree char *again = worker_result_format (&result);
    g_assert_nonnull (strstr (again, item));
  }
}

/* Every word of the schema is one that we know. */
static void
test_schema (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (crds, "model.yaml", NULL);
  g_autoptr (GBytes) bytes = file_read (path, 1 << 20, &error);
  g_assert_no_error (error);
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  g_autoptr (yyjson_doc) crd = yaml_parse (data, size, 1 << 20, &error);
  g_assert_no_error (error);
  yyjson_val *schema = schema_of_resolved (crd);
  check_words (schema, "supportedEndpointTypes", RESULT (ARTIFACT, SOURCE, "\"resolved\":{\"format\":\"GGUF\",%s}"));
  check_words (schema, "supportedFeatures", RESULT (ARTIFACT, SOURCE, "\"resolved\":{\"format\":\"GGUF\",%s}"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  crds = argc > 1 ? argv[1] : "crds";
  g_test_add_func ("/worker-result/result", test_result);
  g_test_add_func ("/worker-result/ends", test_ends);
  g_test_add_func ("/worker-result/refused", test_refused);
  g_test_add_func ("/worker-result/too-long", test_too_long);
  g_test_add_func ("/worker-result/cut-result", test_cut_result);
  g_test_add_func ("/worker-result/cut-message", test_cut_message);
  g_test_add_func ("/worker-result/schema", test_schema);
  return g_test_run ();
}
