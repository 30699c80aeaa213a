/* Claims, Jobs, Pods and Events that anybody may write in a namespace: nothing of them stops the controller, words stay words, and
 * a change of a claim keeps the holders that it is not about. */
#include <string.h>

#include "controllers/claim_document.h"
#include "controllers/controllers_fixture.h"
#include "controllers/event_sight.h"
#include "controllers/materialize_job.h"
#include "controllers/materialize_sight.h"
#include "controllers/workload_kinds.h"

#define NOW_S 1767225600

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
try_job (KubeObject *object)
{
  static const ControllerSettings settings = { .namespace = "module" };
  g_autoptr (GPtrArray) pods = g_ptr_array_new_with_free_func ((GDestroyNotify) kube_object_unref);
  g_ptr_array_add (pods, kube_object_ref (object));
  g_auto (MaterializeSight) sight = { 0 };
  materialize_sight_read (object, pods, NOW_S, &sight);
  g_assert_true (sight.ended_ago_s >= 0 && sight.elapsed_s >= 0 && sight.idle_s >= 0);
  g_assert_true (sight.state != MATERIALIZER_ABSENT && !(sight.is_copying && sight.is_mute));
  if (sight.message != NULL)
    g_assert_true (g_utf8_validate (sight.message, -1, NULL) && strlen (sight.message) < 8192);
  g_assert_false (materialize_job_is_ours (&settings, object)); /* nobody guesses a signature */
  materialize_job_bytes (object);
}

static KubeObject *
patched (const KubeObject *claim, yyjson_mut_doc *patch)
{
  g_autoptr (yyjson_mut_doc) whole = kube_object_edit (claim), own = patch;
  g_autoptr (yyjson_mut_doc) merged = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (
    merged, yyjson_mut_merge_patch (merged, yyjson_mut_doc_get_root (whole), yyjson_mut_doc_get_root (own)));
  return object_of_doc (merged);
}

/* Whoever comes and leaves again leaves the others as they were. */
static void
try_claim (const KubeObject *claim)
{
  ClaimSubject subject;
  if (claim_subject_read (claim, &subject))
    {
      g_autofree char *name = claim_name (&subject);
      g_assert_cmpstr (name, ==, kube_object_name (claim));
    }
  g_autoptr (KubeObject) holder = object_of ("{'metadata':{'name':'holder','uid':'just-this-one'}}");
  if (claim_is_held_by (claim, "just-this-one"))
    return;
  g_autoptr (KubeObject) held = patched (claim, claim_hold_patch (claim, &workload_kinds[0].kube, holder));
  g_assert_true (claim_is_held_by (held, "just-this-one") && claim_released_s (held) == 0);
  g_assert_cmpuint (claim_n_holders (held), ==, claim_n_holders (claim) + 1);
  g_autoptr (KubeObject) left = patched (held, claim_leave_patch (held, "just-this-one", NOW_S));
  g_assert_cmpuint (claim_n_holders (left), ==, claim_n_holders (claim));
  g_assert_cmpint (claim_released_s (left), ==, claim_n_holders (claim) == 0 ? NOW_S : 0);
}

static void
try_event (const KubeObject *event)
{
  static const char *const reasons[] = { "ProvisioningFailed", NULL }, *const reporters[] = { "csi.example.com",
                                                                                              NULL };
  const EventWanted of_claim = { "PersistentVolumeClaim", "u-1", reasons, reporters };
  EventSaid said = { 0 };
  event_sight_take (event, &of_claim, &said);
  event_sight_take (event, &of_claim, &said);
  g_free (said.message);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (KubeObject) object = kube_object_parse (data, size, 64 * 1024, NULL);
  if (object == NULL || object_has_doubles (object))
    return 0;
  try_job (object);
  try_claim (object);
  try_event (object);
  return 0;
}
