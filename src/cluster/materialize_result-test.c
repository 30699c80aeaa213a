#include "cluster/materialize_result.h"

#include <string.h>

#include "base/error.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void
assert_same_again (const MaterializeOutcome *self, const char *expected)
{
  g_autofree char *text = materialize_result_format (self);
  g_auto (MaterializeOutcome) read = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_cmpstr (text, ==, expected);
  g_assert_true (materialize_result_parse (text, strlen (text), &read, &error));
  g_assert_no_error (error);
  g_autofree char *again = materialize_result_format (&read);
  g_assert_cmpstr (again, ==, expected);
}

static void
test_ends (void)
{
  const MaterializeOutcome done = {
    .end = MATERIALIZE_DONE, .digest = (char *) DIGEST, .size_bytes = 20, .n_files = 3
  };
  const MaterializeOutcome failed = {
    .end = MATERIALIZE_FAILED, .reason = (char *) "VolumeFull", .message = (char *) "no\nroom", .may_retry = FALSE
  };
  const MaterializeOutcome ended = { .end = MATERIALIZE_INTERRUPTED, .message = (char *) "told to end" };
  assert_same_again (&done, "{\"result\":{\"digest\":\"" DIGEST
                            "\",\"sizeBytes\":20,\"files\":3,\"movedBytes\":0,\"alreadyThere\":false}}");
  assert_same_again (&failed, "{\"failure\":{\"reason\":\"VolumeFull\",\"message\":\"no room\",\"retry\":false}}");
  assert_same_again (&ended, "{\"interrupted\":{\"message\":\"told to end\"}}");
}

static void
test_long_messages_are_cut (void)
{
  g_autofree char *message = g_strnfill (5000, '"');
  MaterializeOutcome failed = { .end = MATERIALIZE_FAILED, .reason = (char *) "VolumeFull", .message = message };
  g_autofree char *text = materialize_result_format (&failed);
  g_assert_cmpuint (strlen (text), <=, MATERIALIZE_RESULT_MAX_BYTES);
  g_auto (MaterializeOutcome) read = { 0 };
  g_assert_true (materialize_result_parse (text, strlen (text), &read, NULL));
}

static void
test_others_are_refused (void)
{
  g_autofree char *huge = g_strdup_printf ("{\"interrupted\":{\"message\":\"%5000s\"}}", "x");
  const char *const texts[] = {
    "",
    "{}",
    "[]",
    "killed",
    "{\"failure\":{\"reason\":\"\",\"message\":\"\",\"retry\":true}}",
    "{\"failure\":{\"reason\":\"Two words\",\"message\":\"\",\"retry\":true}}",
    "{\"failure\":{\"reason\":\"A\",\"message\":\"\"}}",
    "{\"failure\":{\"reason\":\"A\",\"message\":\"\",\"retry\":true},\"interrupted\":{\"message\":\"\"}}",
    "{\"result\":{\"digest\":\"sha256:12\",\"sizeBytes\":1,\"files\":1,\"movedBytes\":1,\"alreadyThere\":true}}",
    huge,
  };
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_auto (MaterializeOutcome) read = { 0 };
      g_autoptr (GError) error = NULL;
      g_assert_false (materialize_result_parse (texts[i], strlen (texts[i]), &read, &error));
      g_assert_nonnull (error);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cluster/materialize_result/ends", test_ends);
  g_test_add_func ("/cluster/materialize_result/long-messages-are-cut", test_long_messages_are_cut);
  g_test_add_func ("/cluster/materialize_result/others-are-refused", test_others_are_refused);
  return g_test_run ();
}
