/* Any text as an AdmissionReview: one that is taken is answered under its own uid, and the patch makes of what was sent what
 * the webhook wants to be stored. */
#include "controllers/admission_review.h"

#include <string.h>

#include "base/json_patch.h"
#include "controllers/workload_kinds.h"
#include "domain/pod_template_plan.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

/* The API server sends none; whoever else does gets nonsense for it. */
static gboolean
has_twins (yyjson_mut_val *value)
{
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  size_t index, n;
  yyjson_mut_val *key, *item;
  yyjson_mut_obj_foreach (value, index, n, key, item)
  {
    gboolean is_plain = strlen (yyjson_mut_get_str (key)) == yyjson_mut_get_len (key);
    if (!is_plain || !g_hash_table_add (names, (char *) yyjson_mut_get_str (key)) || has_twins (item))
      return TRUE;
  }
  yyjson_mut_arr_foreach (value, index, n, item)
  {
    if (has_twins (item))
      return TRUE;
  }
  return FALSE;
}

/* Only what one of the four kinds has at the place of a Pod template is changed. */
static yyjson_mut_doc *
held (const AdmissionRequest *request, yyjson_mut_doc *before)
{
  const WorkloadKind *kind = workload_kind_named (request->kind);
  g_autoptr (yyjson_mut_doc) after = yyjson_mut_doc_mut_copy (before, NULL);
  yyjson_mut_val *template = kind != NULL ? workload_template (kind, yyjson_mut_doc_get_root (after)) : NULL;
  if (template != NULL)
    pod_template_hold (after, template);
  g_autoptr (yyjson_mut_doc) patch = json_patch_between (yyjson_mut_doc_get_root (before),
                                                         yyjson_mut_doc_get_root (after));
  yyjson_patch_err problem;
  yyjson_mut_val *made = yyjson_mut_patch (after, yyjson_mut_doc_get_root (before), yyjson_mut_doc_get_root (patch),
                                           &problem);
  g_assert_true (yyjson_mut_equals (made, yyjson_mut_doc_get_root (after)));
  return g_steal_pointer (&patch);
}

static void
check_answer (const AdmissionRequest *request, const char *answer)
{
  g_autoptr (yyjson_doc) doc = json_parse (answer, strlen (answer), 64 << 20, JSON_STRICT, NULL);
  g_assert_nonnull (doc);
  yyjson_val *response = json_get_object (yyjson_doc_get_root (doc), "response");
  g_assert_cmpstr (json_get_string (response, "uid"), ==, request->uid);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_auto (AdmissionRequest) request = { 0 };
  if (!admission_request_parse (data, size, &request, NULL))
    return 0;
  g_autofree char *denied = admission_deny (&request, request.name);
  check_answer (&request, denied);
  if (request.object == NULL)
    return 0;
  g_autoptr (yyjson_mut_doc) before = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (before, yyjson_val_mut_copy (before, request.object));
  if (has_twins (yyjson_mut_doc_get_root (before)))
    return 0;
  g_autoptr (yyjson_mut_doc) patch = held (&request, before);
  g_autofree char *allowed = admission_allow (&request, patch);
  check_answer (&request, allowed);
  return 0;
}
