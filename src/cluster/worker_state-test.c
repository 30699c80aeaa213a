#include "cluster/worker_state.h"

#include <string.h>

static KubeObject *
secret_with (const char *state, const char *resume)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *encoded = g_base64_encode ((const guchar *) state, strlen (state));
  g_autofree char *encoded_resume = g_base64_encode ((const guchar *) resume, strlen (resume));
  g_autofree char *text = g_strdup_printf (
    "{\"metadata\":{\"name\":\"s\"},\"data\":{\"state.json\":\"%s\",\"resume\":\"%s\"}}", encoded, encoded_resume);
  KubeObject *secret = kube_object_parse (text, strlen (text), 1u << 24, &error);
  g_assert_no_error (error);
  return secret;
}

static void
test_read (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *resume = NULL;
  g_auto (WorkerState) state = { 0 };
  g_autoptr (KubeObject) secret = secret_with (
    "{\"phase\":\"Running\",\"stage\":\"Resumed\",\"plannedLayerCount\":7,\"plannedSizeBytes\":90,"
    "\"uploadedSizeBytes\":10,\"resolvedRevision\":\"c0ffee\",\"trouble\":\"t\",\"ownerGeneration\":2,\"x\":[]}",
    "notes");
  g_assert_true (worker_state_read (secret, &state, &resume, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (worker_phase_name (state.phase), ==, "Running");
  g_assert_cmpstr (worker_stage_name (state.stage), ==, "Resumed");
  g_assert_cmpuint (state.planned_layers, ==, 7);
  g_assert_cmpuint (state.planned_size_bytes, ==, 90);
  g_assert_cmpuint (state.uploaded_size_bytes, ==, 10);
  g_assert_cmpint (state.owner_generation, ==, 2);
  g_assert_cmpstr (state.resolved_revision, ==, "c0ffee");
  g_assert_cmpstr (state.trouble, ==, "t");
  g_assert_cmpstr (resume, ==, "notes");
}

static void
test_nothing_yet (void)
{
  static const char *const secrets[] = { "{\"metadata\":{}}", "{\"metadata\":{},\"data\":null}",
                                         "{\"metadata\":{},\"data\":{}}" };
  for (guint i = 0; i < G_N_ELEMENTS (secrets); i++)
    {
      char *resume = (char *) "untouched";
      g_auto (WorkerState) state = { .planned_layers = 1 };
      g_autoptr (KubeObject) secret = kube_object_parse (secrets[i], strlen (secrets[i]), 1000, NULL);
      g_assert_true (worker_state_read (secret, &state, &resume, NULL));
      g_assert_cmpint (state.phase, ==, WORKER_IDLE);
      g_assert_cmpuint (state.planned_layers, ==, 0);
      g_assert_null (resume);
    }
}

static void
test_refused (void)
{
  g_autofree char *huge = g_strnfill (70000, ' ');
  const char *texts[] = { "", "[]", "{\"plannedSizeBytes\":-1}", "{\"trouble\":7}", huge };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (WorkerState) state = { 0 };
      g_autoptr (KubeObject) secret = secret_with (texts[i], "");
      g_assert_false (worker_state_read (secret, &state, NULL, &error));
      g_assert_nonnull (error);
    }
}

/* Words of a later release are as good as none. */
static void
test_unknown_words (void)
{
  g_auto (WorkerState) state = { 0 };
  g_autoptr (KubeObject) secret = secret_with ("{\"phase\":\"Dreaming\",\"stage\":\"Deep\",\"trouble\":\"\"}", "");
  g_assert_true (worker_state_read (secret, &state, NULL, NULL));
  g_assert_cmpint (state.phase, ==, WORKER_IDLE);
  g_assert_cmpint (state.stage, ==, WORKER_STAGE_IDLE);
  g_assert_null (state.trouble);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/worker-state/read", test_read);
  g_test_add_func ("/worker-state/nothing-yet", test_nothing_yet);
  g_test_add_func ("/worker-state/refused", test_refused);
  g_test_add_func ("/worker-state/unknown-words", test_unknown_words);
  return g_test_run ();
}
