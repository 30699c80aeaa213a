/* Objects that anybody may write, or whose words come from a Pod: nothing of them stops the controller, and a status that was
 * written says what was meant. */
#include <string.h>

#include "controllers/controllers_fixture.h"
#include "controllers/source_spec.h"
#include "controllers/status_document.h"
#include "controllers/worker_restarts.h"
#include "controllers/worker_sight.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
write_twice (const KubeObject *object, const WorkerSight *sight)
{
  for (int situation = MODEL_AT_PREPARING_UPLOAD; situation <= MODEL_AT_DELETION_STUCK; situation++)
    {
      StatusWish wish = { .situation = (ModelSituation) situation, .message = sight->message };
      if (sight->state == MODEL_WORKER_SUCCEEDED && situation == MODEL_AT_READY)
        wish.result = &sight->result;
      g_autoptr (yyjson_mut_doc) doc = status_document (object, &wish, "2026-01-01T00:00:00Z");
      if (doc == NULL)
        continue;
      g_autoptr (KubeObject) written = object_of_doc (doc);
      g_autoptr (yyjson_mut_doc) again = status_document (written, &wish, "2026-01-01T00:00:01Z");
      g_assert_null (again);
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (KubeObject) object = kube_object_parse (data, size, 64 * 1024, NULL);
  WorkerSight sight;
  SourceSpec spec;
  WorkerRestarts restarts;
  if (object == NULL || object_has_doubles (object))
    return 0;
  ModelOwner owner = model_owner_of (object, kube_object_namespace (object)[0] == '\0');
  source_spec_read (object, &owner, &spec);
  g_assert_true ((spec.problem == NULL) == (spec.problem_reason == NULL));
  source_spec_clear (&spec);
  g_free (source_token_read (object, NULL));
  worker_restarts_read (object, &restarts);
  g_assert_cmpint (worker_restarts_pause_ms (&restarts, 1), <=, 300000);
  worker_sight_read (object, &sight);
  if (sight.message != NULL)
    g_assert_true (g_utf8_validate (sight.message, -1, NULL) && strlen (sight.message) < 4096);
  write_twice (object, &sight);
  worker_sight_clear (&sight);
  return 0;
}
