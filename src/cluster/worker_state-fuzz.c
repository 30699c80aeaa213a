/* Any bytes as state.json of a Secret: refused, or a state whose words are those we know. */
#include "cluster/worker_state.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_auto (WorkerState) state = { 0 };
  g_autofree char *encoded = g_base64_encode (data, size), *resume = NULL;
  g_autofree char *text = g_strdup_printf (
    "{\"metadata\":{\"name\":\"s\"},\"data\":{\"state.json\":\"%s\",\"resume\":\"%s\"}}", encoded, encoded);
  g_autoptr (KubeObject) secret = kube_object_parse (text, strlen (text), 1u << 24, NULL);
  g_assert_nonnull (secret);
  if (!worker_state_read (secret, &state, &resume, NULL))
    {
      g_assert_null (resume);
      return 0;
    }
  g_assert_nonnull (resume);
  g_assert_nonnull (worker_phase_name (state.phase));
  g_assert_nonnull (worker_stage_name (state.stage));
  g_assert_true (state.trouble == NULL || *state.trouble != '\0');
  return 0;
}
