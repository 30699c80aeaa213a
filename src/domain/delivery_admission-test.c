#include "domain/delivery_admission.h"

#include <string.h>

#include "base/error.h"
#include "domain/model_references.h"
#include "domain/pod_template_check.h"
#include "domain/pod_template_plan.h"

#define ASKED .n_references = 1

static GError bad = { 0, AM_ERROR_INVALID_ARGUMENT, (char *) "bad" };

static const struct {
  const char *what;
  AdmissionView seen;
  Admission admission;
} rows[] = {
  { "no reference", { 0 }, ADMISSION_ALLOW },
  { "no reference, a state that is left", { .submitted_serves = TRUE, .stored_serves = TRUE }, ADMISSION_ALLOW },
  { "invalid reference", { .reference_error = &bad }, ADMISSION_DENY },
  { "invalid reference in the module's namespace",
    { .reference_error = &bad, .is_in_module_namespace = TRUE },
    ADMISSION_ALLOW },
  { "invalid reference of one that goes", { .reference_error = &bad, .is_deleting = TRUE }, ADMISSION_ALLOW },
  { "invalid reference, and the controller takes its finalizer away",
    { .reference_error = &bad, .is_ours = TRUE },
    ADMISSION_ALLOW },
  { "created", { ASKED }, ADMISSION_HOLD },
  { "created in the module's namespace", { ASKED, .is_in_module_namespace = TRUE }, ADMISSION_ALLOW },
  { "created when all is there", { ASKED, .can_deliver = TRUE }, ADMISSION_DELIVER },
  { "created when all is there, mounts in the way",
    { ASKED, .can_deliver = TRUE, .spec_error = &bad },
    ADMISSION_HOLD },
  { "created with the state of an object of this namespace",
    { ASKED, .submitted_serves = TRUE },
    ADMISSION_KEEP_SUBMITTED },
  { "applied again", { ASKED, .stored_serves = TRUE }, ADMISSION_KEEP_STORED },
  { "applied again when all is there", { ASKED, .stored_serves = TRUE, .can_deliver = TRUE }, ADMISSION_DELIVER },
  { "applied again with mounts in the way", { ASKED, .stored_serves = TRUE, .spec_error = &bad }, ADMISSION_HOLD },
  { "edited", { ASKED, .submitted_serves = TRUE, .stored_serves = TRUE }, ADMISSION_KEEP_SUBMITTED },
  { "edited after the model was published anew",
    { ASKED, .submitted_serves = TRUE, .stored_serves = TRUE, .can_deliver = TRUE },
    ADMISSION_DELIVER },
  { "created before anything is known", { ASKED, .is_blind = TRUE }, ADMISSION_HOLD },
  { "wrong before anything is known", { .reference_error = &bad, .is_blind = TRUE }, ADMISSION_DENY },
  { "scaled before anything is known", { ASKED, .is_blind = TRUE, .is_unchanged = TRUE }, ADMISSION_ALLOW },
  { "scaled", { ASKED, .is_unchanged = TRUE }, ADMISSION_ALLOW },
  { "scaled while all is there but not delivered yet",
    { ASKED, .is_unchanged = TRUE, .can_deliver = TRUE },
    ADMISSION_ALLOW },
  { "scaled, wrong since ever", { .reference_error = &bad, .is_unchanged = TRUE }, ADMISSION_DENY },
  { "references changed", { ASKED }, ADMISSION_HOLD },
  { "references changed, all is there", { ASKED, .can_deliver = TRUE }, ADMISSION_DELIVER },
  { "the controller delivers, this replica does not know yet why", { ASKED, .is_ours = TRUE }, ADMISSION_ALLOW },
  { "a finalizer is taken away", { ASKED, .is_deleting = TRUE }, ADMISSION_ALLOW },
};

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("%s", rows[i].what);
      g_assert_cmpint (admission_decide (&rows[i].seen), ==, rows[i].admission);
    }
}

#define DIGEST "sha256:1111111111111111111111111111111111111111111111111111111111111111"

static PodTemplatePlan *
plan_of (const DeliveryAnnotations *annotations, const GPtrArray *references)
{
  g_auto (DeliveryState) state = { 0 };
  g_assert_true (delivery_state_read (annotations, &state, NULL));
  return pod_template_plan_new (&state, annotations, references, "team", NULL);
}

static yyjson_mut_doc *
parsed (const char *text)
{
  g_autoptr (yyjson_doc) doc = json_parse (text, strlen (text), 4096, JSON_STRICT, NULL);
  return yyjson_doc_mut_copy (doc, NULL);
}

/* A manifest that knows nothing of the delivery is applied ten times, when all is there and when the model is away for a
 * while; the stored template stays as it is, also after a state that was carried is carried once more. */
static void
test_applied_again (void)
{
  static const char manifest[]
    = "{\"metadata\":{\"labels\":{\"app\":\"x\"}},\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"i\"}]}}";
  static const DeliveredModel model = { (char *) "minilm", (char *) "r/m", (char *) DIGEST, NULL, 7 };
  guint8 key[DELIVERY_KEY_SIZE];
  g_auto (DeliveryState) state = { 0 };
  g_auto (DeliveryAnnotations) resolved = { 0 };
  g_autoptr (GPtrArray) references = model_references_parse ("minilm", NULL, NULL);
  delivery_key ("salt", key);
  delivery_state_init (&state, DELIVERY_SHARED_PVC);
  delivery_state_add (&state, &model);
  delivery_state_write (&state, "team", key, &resolved);
  g_autoptr (PodTemplatePlan) fresh = plan_of (&resolved, references);
  g_autoptr (yyjson_mut_doc) stored = parsed (manifest);
  pod_template_deliver (stored, yyjson_mut_doc_get_root (stored), fresh);
  for (guint i = 0; i < 10; i++)
    {
      g_auto (DeliveryAnnotations) there = { 0 };
      g_autoptr (yyjson_mut_doc) sent = parsed (manifest);
      pod_template_annotations (yyjson_mut_doc_get_root (stored), &there);
      g_autoptr (PodTemplatePlan) carried = plan_of (&there, references);
      AdmissionView seen = { ASKED, .can_deliver = i % 2 == 0, .stored_serves = TRUE };
      Admission admission = admission_decide (&seen);
      g_assert_cmpint (admission, ==, i % 2 == 0 ? ADMISSION_DELIVER : ADMISSION_KEEP_STORED);
      pod_template_deliver (sent, yyjson_mut_doc_get_root (sent), admission == ADMISSION_DELIVER ? fresh : carried);
      g_assert_true (yyjson_mut_equals (yyjson_mut_doc_get_root (sent), yyjson_mut_doc_get_root (stored)));
      g_assert_true (pod_template_check (yyjson_mut_doc_get_root (sent), NULL, references, NULL));
      g_clear_pointer (&stored, yyjson_mut_doc_free);
      stored = g_steal_pointer (&sent);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/delivery-admission/rows", test_rows);
  g_test_add_func ("/delivery-admission/applied-again", test_applied_again);
  return g_test_run ();
}
