/* A workload is changed by what delivery wants of it, and by nothing else. */
#include "controllers/workload_patch.h"

#include "controllers/controllers_fixture.h"

#define FINALIZER "ai.deckhouse.io/model-delivery-cleanup"
#define REPORT "/metadata/annotations/ai.deckhouse.io~1model-delivery-blocked-"
#define VERSION "{'op':'replace','path':'/metadata/resourceVersion','value':'7'}"
#define META "'name':'w','namespace':'u','uid':'1','resourceVersion':'7','managedFields':[{}]"
#define GATE "{'name':'ai.deckhouse.io/model-delivery'}"

static const struct {
  const char *name, *object;
  WorkloadKindIndex kind;
  WorkloadChange change;
  const char *patch; /* without the version */
} rows[] = {
  { "nothing",
    "{'metadata':{" META "},'spec':{'template':{'spec':{'containers':[]}}}}",
    WORKLOAD_DEPLOYMENT,
    { .form = DELIVERY_KEEP },
    "" },
  { "held, with a report and a finalizer",
    "{'metadata':{" META
    ",'annotations':{'a':'b'},'finalizers':['x']},'spec':{'template':{'spec':{'containers':[]}}}}",
    WORKLOAD_STATEFUL_SET,
    { .form = DELIVERY_HOLD, .wants_finalizer = TRUE, .changes_report = TRUE, .reason = "R", .message = "m" },
    "{'op':'add','path':'/metadata/finalizers/1','value':'" FINALIZER "'},{'op':'add','path':'" REPORT
    "reason','value':'R'},{'op':'add','path':'" REPORT
    "message','value':'m'},{'op':'add','path':'/spec/template/spec/schedulingGates','value':[" GATE "]}" },
  { "a CronJob that had nothing",
    "{'metadata':{" META "},'spec':{'jobTemplate':{'spec':{'template':{'spec':{'containers':[]}}}}}}",
    WORKLOAD_CRON_JOB,
    { .form = DELIVERY_HOLD, .wants_finalizer = TRUE, .changes_report = TRUE, .reason = "R", .message = "m" },
    "{'op':'add','path':'/metadata/finalizers','value':['" FINALIZER
    "']},{'op':'add','path':'/metadata/annotations','value':{'ai.deckhouse.io/model-delivery-blocked-reason':'R',"
    "'ai.deckhouse.io/model-delivery-blocked-message':'m'}},"
    "{'op':'add','path':'/spec/jobTemplate/spec/template/spec/schedulingGates','value':[" GATE "]}" },
  { "cleared, and the last of ours goes",
    "{'metadata':{" META ",'annotations':{'ai.deckhouse.io/model-delivery-blocked-reason':'R',"
    "'ai.deckhouse.io/model-delivery-blocked-message':'m'},'finalizers':['" FINALIZER
    "']},'spec':{'template':{'spec':{'containers':[],'schedulingGates':[" GATE "]}}}}",
    WORKLOAD_DAEMON_SET,
    { .form = DELIVERY_CLEAR, .changes_report = TRUE, .message = "an event's words" },
    "{'op':'remove','path':'/spec/template/spec/schedulingGates'},{'op':'remove','path':'/metadata/annotations'},"
    "{'op':'remove','path':'/metadata/finalizers'}" },
  { "the finalizer of a deleted one, of several",
    "{'metadata':{" META ",'finalizers':['" FINALIZER "','orphan']},'spec':{'template':{}}}",
    WORKLOAD_DEPLOYMENT,
    { .form = DELIVERY_KEEP },
    "{'op':'remove','path':'/metadata/finalizers/0'}" },
};

/* The operations, whatever their order; a list's are in the order of the list. */
static gboolean
has_operation (yyjson_val *list, yyjson_val *wanted)
{
  size_t index, n;
  yyjson_val *each;
  yyjson_arr_foreach (list, index, n, each)
  {
    if (yyjson_equals (each, wanted))
      return TRUE;
  }
  return FALSE;
}

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("%s", rows[i].name);
      g_autoptr (KubeObject) object = object_of (rows[i].object);
      g_autoptr (yyjson_mut_doc) patch = workload_patch (&workload_kinds[rows[i].kind], object, &rows[i].change);
      g_autofree char *text = json_write (patch, NULL);
      g_autofree char *wanted = g_strdelimit (
        g_strconcat ("[", rows[i].patch, rows[i].patch[0] != '\0' ? "," : "", VERSION, "]", NULL), "'", '"');
      g_autoptr (yyjson_doc) is = yyjson_read (text, strlen (text), 0),
                             shall = yyjson_read (wanted, strlen (wanted), 0);
      size_t index, n;
      yyjson_val *each;
      if (yyjson_arr_size (yyjson_doc_get_root (is)) != yyjson_arr_size (yyjson_doc_get_root (shall)))
        g_assert_cmpstr (text, ==, wanted);
      yyjson_arr_foreach (yyjson_doc_get_root (shall), index, n, each)
      {
        if (!has_operation (yyjson_doc_get_root (is), each))
          g_assert_cmpstr (text, ==, wanted);
      }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload_patch/rows", test_rows);
  return g_test_run ();
}
