#include "controllers/worker_sight.h"

#include "controllers/controllers_fixture.h"

#define STATE(phase, state) "'phase':'" phase "','containerStatuses':[{'state':{" state "}}]"
#define ENDED(phase, code, reason, text) \
  STATE (phase, "'terminated':{'exitCode':" #code ",'reason':'" reason "','message':" text "}")
#define WAITING(reason) STATE ("Pending", "'waiting':{'reason':'" reason "','message':'image x.example/y not found'}")

/* `message` is what it begins with; "" says that there is none. */
static const struct {
  const char *what, *status;
  ModelWorkerState state;
  const char *message;
} rows[] = {
  { "new", "", MODEL_WORKER_ACTIVE, "" },
  { "runs", STATE ("Running", "'running':{}"), MODEL_WORKER_ACTIVE, "" },
  { "is being made", WAITING ("ContainerCreating"), MODEL_WORKER_ACTIVE, "" },
  { "no image", WAITING ("ErrImagePull"), MODEL_WORKER_ACTIVE, "the worker's image cannot be pulled (ErrImagePull)" },
  { "no image for long", WAITING ("ImagePullBackOff"), MODEL_WORKER_ACTIVE,
    "the worker's image cannot be pulled (ImagePullBackOff)" },
  { "no configuration", WAITING ("CreateContainerConfigError"), MODEL_WORKER_ACTIVE,
    "the worker's container cannot be made (CreateContainerConfigError): image x.example/y not found" },
  { "no node",
    "'phase':'Pending','conditions':[{'type':'Other','status':'False','message':'x'},"
    "{'type':'PodScheduled','status':'False','reason':'Unschedulable','message':'0/3 nodes'}]",
    MODEL_WORKER_ACTIVE, "no node takes the worker: 0/3 nodes" },
  { "on a node", "'phase':'Pending','conditions':[{'type':'PodScheduled','status':'True'}]", MODEL_WORKER_ACTIVE,
    "" },
  { "node silent", "'phase':'Unknown'", MODEL_WORKER_ACTIVE, "the worker's node does not answer" },
  { "out of memory", ENDED ("Failed", 137, "OOMKilled", "''"), MODEL_WORKER_INTERRUPTED,
    "the worker ran out of memory" },
  { "killed", ENDED ("Failed", 137, "Error", "''"), MODEL_WORKER_INTERRUPTED,
    "the worker ended with status 137 and without a result" },
  { "content without a result", ENDED ("Succeeded", 0, "Completed", "'{}'"), MODEL_WORKER_INTERRUPTED,
    "the worker ended with status 0 and without a result: {}" },
  { "no start", ENDED ("Failed", 128, "StartError", "'no such file'"), MODEL_WORKER_INTERRUPTED,
    "the worker's container could not be started: no such file" },
  { "evicted", "'phase':'Failed','reason':'Evicted','message':'low on memory'", MODEL_WORKER_INTERRUPTED,
    "the worker was evicted from its node: low on memory" },
  { "evicted with its container", ENDED ("Failed", 137, "Error", "''") ",'reason':'Evicted','message':'low'",
    MODEL_WORKER_INTERRUPTED, "the worker was evicted from its node: low" },
  { "node gone", "'phase':'Failed','reason':'NodeLost'", MODEL_WORKER_INTERRUPTED, "the worker's node is gone" },
  { "failed somehow", "'phase':'Failed','reason':'UnexpectedAdmissionError'", MODEL_WORKER_INTERRUPTED,
    "the worker's Pod failed: UnexpectedAdmissionError" },
  { "told to stop", ENDED ("Failed", 1, "Error", "'{\\'interrupted\\':{\\'message\\':\\'stopped\\'}}'"),
    MODEL_WORKER_INTERRUPTED, "the worker was interrupted: stopped" },
  { "failed for good",
    ENDED ("Failed", 1, "Error",
           "'{\\'failure\\':{\\'reason\\':\\'PublicationFailed\\',\\'message\\':\\'gated\\'}}'"),
    MODEL_WORKER_FAILED, "" },
};

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      WorkerSight sight;
      g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'x'},'status':{%s}}", rows[i].status);
      g_autoptr (KubeObject) pod = object_of (text);
      worker_sight_read (pod, &sight);
      g_test_message ("%s: %s", rows[i].what, sight.message);
      g_assert_cmpint (sight.state, ==, rows[i].state);
      g_assert_cmpstr (sight.message != NULL ? sight.message : "", ==, rows[i].message);
      worker_sight_clear (&sight);
    }
}

static void
test_absent (void)
{
  WorkerSight sight;
  worker_sight_read (NULL, &sight);
  g_assert_cmpint (sight.state, ==, MODEL_WORKER_ABSENT);
  worker_sight_clear (&sight);
}

/* One that is being deleted is there until it is gone; what it said before that counts. */
static void
test_leaving (void)
{
  WorkerSight sight;
  g_autoptr (KubeObject) running = object_of (
    "{'metadata':{'deletionTimestamp':'x'},'status':{" STATE ("Running", "'running':{}") "}}");
  worker_sight_read (running, &sight);
  g_assert_true (sight.state == MODEL_WORKER_ACTIVE && sight.is_leaving && sight.is_running);
  g_assert_cmpstr (sight.message, ==, "the worker is being stopped");
  worker_sight_clear (&sight);
}

static void
test_long_words (void)
{
  WorkerSight sight;
  g_autofree char *words = g_strnfill (5000, 'w');
  g_autofree char *text = g_strdup_printf (
    "{'metadata':{},'status':{'phase':'Failed','reason':'Evicted','message':'%s'}}", words);
  g_autoptr (KubeObject) pod = object_of (text);
  worker_sight_read (pod, &sight);
  g_assert_cmpuint (strlen (sight.message), <, 400);
  worker_sight_clear (&sight);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/worker-sight/rows", test_rows);
  g_test_add_func ("/worker-sight/absent", test_absent);
  g_test_add_func ("/worker-sight/leaving", test_leaving);
  g_test_add_func ("/worker-sight/long-words", test_long_words);
  return g_test_run ();
}
