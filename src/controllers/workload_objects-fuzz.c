/* Workloads, ReplicaSets and Pods that anybody may write: nothing of them stops the controller; what the caches keep of them is
 * enough for every decision; and a change of them says what was meant. */
#include "controllers/controllers_fixture.h"
#include "controllers/delivery_caches.h"
#include "controllers/delivery_trim.h"
#include "controllers/workload_patch.h"
#include "domain/pod_template_check.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static KubeObject *
trimmed (const KubeObject *object, KubeTrim trim)
{
  g_autofree char *text = NULL, *again_text = NULL;
  gsize size = 0;
  KubeObject *once = kube_object_trimmed (object, trim, &text, &size);
  g_autoptr (KubeObject) twice = kube_object_trimmed (once, trim, &again_text, &size);
  g_assert_nonnull (once);
  g_assert_true (yyjson_equals (kube_object_root (once), kube_object_root (twice)));
  return once;
}

/* What is told of it: held already, clear already, and what is in the way; caller frees. */
static char *
verdict (const WorkloadKind *kind, const KubeObject *object)
{
  g_autoptr (GError) bad = NULL, spec = NULL;
  g_autoptr (GPtrArray) references = workload_references (object, &bad);
  g_autofree const char **claims = workload_claim_templates (kind, object);
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (object);
  yyjson_mut_val *template = workload_template (kind, yyjson_mut_doc_get_root (doc));
  if (template == NULL)
    return NULL;
  if (references != NULL)
    pod_template_check (template, claims, references, &spec);
  gboolean is_managed = pod_template_is_managed (template);
  gboolean holds = pod_template_hold (doc, yyjson_mut_val_mut_copy (doc, template));
  gboolean clears = pod_template_clear (doc, yyjson_mut_val_mut_copy (doc, template));
  return g_strdup_printf ("%d %d %d %s %s", is_managed, holds, clears, bad != NULL ? bad->message : "",
                          spec != NULL ? spec->message : "");
}

static void
try_workload (const WorkloadKind *kind, const KubeObject *object)
{
  WorkloadChange change = { .form = DELIVERY_HOLD, .wants_finalizer = TRUE, .changes_report = TRUE, .reason = "R" };
  g_autofree char *whole = verdict (kind, object);
  gboolean is_cron_job = json_get_object (kube_object_spec (object), "jobTemplate") != NULL;
  if (whole == NULL || is_cron_job != (workload_kind_index (kind) == WORKLOAD_CRON_JOB))
    return;
  g_autoptr (KubeObject) kept = trimmed (object, workload_trim);
  g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
  workload_index (kept, values);
  g_assert_true (workload_is_ours (object) == (kube_object_spec (kept) != NULL));
  if (kube_object_spec (kept) != NULL)
    {
      g_autofree char *part = verdict (kind, kept);
      g_assert_cmpstr (part, ==, whole);
    }
  g_autoptr (yyjson_mut_doc) patch = workload_patch (kind, object, &change);
  g_assert_true (yyjson_mut_is_arr (yyjson_mut_doc_get_root (patch)));
}

static void
try_part (const KubeObject *object, KubeTrim trim, void (*index) (const KubeObject *object, GPtrArray *out_values))
{
  g_autoptr (KubeObject) kept = trimmed (object, trim);
  g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
  index (kept, values);
  owners_index (kept, values);
  pod_is_of_materializer (kept);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (KubeObject) object = kube_object_parse (data, size, 64 * 1024, NULL);
  if (object == NULL || object_has_doubles (object))
    return 0;
  for (guint i = 0; i < WORKLOAD_N_KINDS; i++)
    try_workload (&workload_kinds[i], object);
  try_part (object, replica_set_trim, replica_set_index);
  try_part (object, pending_pod_trim, pending_pod_index);
  return 0;
}
