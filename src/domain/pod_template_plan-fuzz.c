/* Any JSON as a Pod template: every form is reached at once and once for all, and a template that passes the check mounts
 * what it shall. */
#include "domain/pod_template_plan.h"

#include <string.h>

#include "domain/model_references.h"
#include "domain/pod_template_check.h"

#define DIGEST "sha256:1111111111111111111111111111111111111111111111111111111111111111"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static PodTemplatePlan *
plan_of (const GPtrArray *references)
{
  static const DeliveredModel models[] = {
    { (char *) "a", (char *) "u", (char *) DIGEST, (char *) "$(f)", 1 },
    { (char *) "b.c", (char *) "u", (char *) DIGEST, NULL, 0 },
  };
  g_auto (DeliveryState) state = { 0 };
  g_auto (DeliveryAnnotations) annotations = { 0 };
  delivery_state_init (&state, DELIVERY_SHARED_PVC);
  delivery_state_add (&state, &models[0]);
  delivery_state_add (&state, &models[1]);
  delivery_state_write (&state, "ns", NULL, &annotations);
  return pod_template_plan_new (&state, &annotations, references, "ns", NULL);
}

static void
check_forms (yyjson_mut_doc *doc, const PodTemplatePlan *plan, const GPtrArray *references)
{
  yyjson_mut_val *template = yyjson_mut_doc_get_root (doc);
  gboolean has_spec = yyjson_mut_is_obj (yyjson_mut_obj_get (template, "spec"));
  gboolean is_good = pod_template_check (template, NULL, references, NULL);
  pod_template_deliver (doc, template, plan);
  g_assert_false (pod_template_deliver (doc, template, plan));
  g_assert_false (has_spec && pod_template_has_gate (template));
  if (is_good) /* what is delivered can be delivered again */
    g_assert_true (pod_template_check (template, NULL, references, NULL));
  pod_template_hold (doc, template);
  g_assert_false (pod_template_hold (doc, template));
  g_assert_true (!has_spec || pod_template_has_gate (template));
  pod_template_clear (doc, template);
  g_assert_false (pod_template_clear (doc, template));
  g_assert_true (!has_spec || !pod_template_is_managed (template));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (yyjson_doc) doc = json_parse (data, size, 1 << 20, JSON_STRICT, NULL);
  if (doc == NULL)
    return 0;
  g_autoptr (yyjson_mut_doc) copy = yyjson_doc_mut_copy (doc, NULL);
  g_autoptr (GPtrArray) references = model_references_parse ("a", "b.c", NULL);
  g_autoptr (PodTemplatePlan) plan = plan_of (references);
  check_forms (copy, plan, references);
  return 0;
}
