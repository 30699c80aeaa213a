#include "controllers/materialize_sight.h"

#include "controllers/controllers_fixture.h"

#define NOW_S 1767225600 /* 2026-01-01T00:00:00Z */
#define BEFORE(seconds) "2025-12-31T23:59:" #seconds "Z"

#define JOB(status) \
  "{'metadata':{'name':'j','creationTimestamp':'" BEFORE (00) "'},'status':{'startTime':'" BEFORE (00) "'" status "}}"
#define RUNS JOB ("")
#define FAILED(reason, message)                                                                                  \
  JOB (",'conditions':[{'type':'Suspended','status':'False'},{'type':'Failed','status':'True','reason':'" reason \
       "','message':'" message "','lastTransitionTime':'" BEFORE (50) "'}]")
#define POD(name, made, status) \
  "{'metadata':{'name':'" name "','creationTimestamp':'" BEFORE (made) "'},'status':{" status "}}"
#define GOING_POD(name, made, deleted, status)                                            \
  "{'metadata':{'name':'" name                                                            \
  "','creationTimestamp':'" BEFORE (made) "','deletionTimestamp':'" BEFORE (deleted) "'}" \
                                                                                     ",'status':{" status "}}"
#define STATE(phase, state) "'phase':'" phase "','containerStatuses':[{'state':{" state "}}]"
#define ENDED(code, at, text) \
  STATE ("Failed", "'terminated':{'exitCode':" #code ",'finishedAt':'" BEFORE (at) "','message':'" text "'}")
#define SAID(reason, message, retry) \
  "{\\'failure\\':{\\'reason\\':\\'" reason "\\',\\'message\\':\\'" message "\\',\\'retry\\':" retry "}}"
#define FULL SAID ("VolumeFull", "no space; enlarge the claim", "false")
#define AWAY SAID ("RegistryAway", "it does not answer", "true")
#define COPYING(since) STATE ("Running", "'running':{'startedAt':'" BEFORE (since) "'}")
#define WAITING(reason) STATE ("Pending", "'waiting':{'reason':'" reason "','message':'x.example/y'}")

static const struct {
  const char *what, *job, *pods[3];
  MaterializerState state;
  const char *message; /* what it begins with; NULL: none */
  gint64 ended_ago_s;
  gboolean is_copying, is_mute;
} rows[] = {
  { "none", NULL, { NULL }, MATERIALIZER_ABSENT, NULL, 0, FALSE, FALSE },
  { "complete",
    JOB (",'conditions':[{'type':'Complete','status':'True'}]"),
    { NULL },
    MATERIALIZER_SUCCEEDED,
    NULL,
    0,
    FALSE,
    FALSE },
  { "no Pod for long", RUNS, { NULL }, MATERIALIZER_RUNNING, NULL, 0, FALSE, TRUE },
  { "no Pod yet",
    "{'metadata':{'name':'j','creationTimestamp':'" BEFORE (55) "'},'status':{}}",
    { NULL },
    MATERIALIZER_RUNNING,
    NULL,
    0,
    FALSE,
    FALSE },
  { "being removed",
    "{'metadata':{'name':'j','deletionTimestamp':'x'}}",
    { NULL },
    MATERIALIZER_RUNNING,
    "its Job is being removed",
    0,
    FALSE,
    FALSE },
  { "copies", RUNS, { POD ("a", 10, COPYING (20)) }, MATERIALIZER_RUNNING, NULL, 0, TRUE, FALSE },
  { "begins", RUNS, { POD ("a", 55, WAITING ("ContainerCreating")) }, MATERIALIZER_RUNNING, NULL, 0, FALSE, FALSE },
  { "does not begin",
    RUNS,
    { POD ("a", 10, WAITING ("ContainerCreating")) },
    MATERIALIZER_RUNNING,
    NULL,
    0,
    FALSE,
    TRUE },
  { "no image",
    RUNS,
    { POD ("a", 10, WAITING ("ImagePullBackOff")) },
    MATERIALIZER_RUNNING,
    "the materializer's image cannot be pulled (ImagePullBackOff)",
    0,
    FALSE,
    FALSE },
  { "no node",
    RUNS,
    { POD ("a", 10,
           "'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','message':'0/3 nodes'}]") },
    MATERIALIZER_RUNNING,
    "no node takes the materializer: 0/3 nodes",
    0,
    FALSE,
    FALSE },
  { "evicted",
    RUNS,
    { POD ("a", 10, "'phase':'Failed','reason':'Evicted','message':'low on memory'") },
    MATERIALIZER_RUNNING,
    "the materializer was evicted from its node: low on memory; it is tried again",
    0,
    FALSE,
    FALSE },
  { "killed, and runs again",
    RUNS,
    { POD ("a", 10, ENDED (137, 20, "")), POD ("b", 30, COPYING (31)) },
    MATERIALIZER_RUNNING,
    NULL,
    0,
    TRUE,
    FALSE },
  { "the registry was away",
    RUNS,
    { POD ("a", 10, ENDED (1, 20, AWAY)) },
    MATERIALIZER_RUNNING,
    "it does not answer; it is tried again",
    0,
    FALSE,
    FALSE },
  { "told to end",
    RUNS,
    { POD ("a", 10, ENDED (1, 20, "{\\'interrupted\\':{\\'message\\':\\'told to end\\'}}")) },
    MATERIALIZER_RUNNING,
    "told to end; it is tried again",
    0,
    FALSE,
    FALSE },
  { "ended well, and the Job does not know yet",
    RUNS,
    { POD ("a", 10, STATE ("Succeeded", "'terminated':{'exitCode':0,'message':'x'}")) },
    MATERIALIZER_RUNNING,
    NULL,
    0,
    FALSE,
    FALSE },
  /* What lasts is told at once, and does not flicker while the Job tries again. */
  { "full",
    RUNS,
    { POD ("a", 10, ENDED (1, 20, FULL)) },
    MATERIALIZER_FAILED,
    "no space; enlarge the claim",
    40,
    FALSE,
    FALSE },
  { "full, and another begins",
    RUNS,
    { POD ("a", 10, ENDED (1, 20, FULL)), POD ("b", 50, WAITING ("ContainerCreating")) },
    MATERIALIZER_FAILED,
    "no space",
    40,
    FALSE,
    FALSE },
  { "full, and another has just begun",
    RUNS,
    { POD ("a", 10, ENDED (1, 20, FULL)), POD ("b", 50, COPYING (55)) },
    MATERIALIZER_FAILED,
    "no space",
    40,
    FALSE,
    FALSE },
  { "was full, and another gets on",
    RUNS,
    { POD ("a", 10, ENDED (1, 20, FULL)), POD ("b", 22, COPYING (25)) },
    MATERIALIZER_RUNNING,
    NULL,
    0,
    TRUE,
    FALSE },
  { "was full, and then killed",
    RUNS,
    { POD ("b", 30, ENDED (137, 40, "")), POD ("a", 10, ENDED (1, 20, FULL)) },
    MATERIALIZER_RUNNING,
    "the materializer ended with status 137",
    0,
    FALSE,
    FALSE },
  { "failed for good",
    FAILED ("BackoffLimitExceeded", "Job has reached the limit"),
    { POD ("a", 10, ENDED (1, 20, AWAY)) },
    MATERIALIZER_FAILED,
    "it does not answer",
    10,
    FALSE,
    FALSE },
  { "failed, its Pods are gone",
    FAILED ("BackoffLimitExceeded", "Job has reached the limit"),
    { NULL },
    MATERIALIZER_FAILED,
    "its Job failed: Job has reached the limit",
    10,
    FALSE,
    FALSE },
  { "took too long",
    FAILED ("DeadlineExceeded", "active longer than deadline"),
    { POD ("a", 10, ENDED (1, 20, AWAY)) },
    MATERIALIZER_FAILED,
    "its Job took too long: it does not answer",
    10,
    FALSE,
    FALSE },
  { "odd",
    "{'metadata':{},'status':{'conditions':[1,{'type':[]}],'startTime':7}}",
    { "{'metadata':{},'status':{'containerStatuses':[7],'phase':'Failed'}}" },
    MATERIALIZER_RUNNING,
    "the materializer's Pod failed",
    0,
    FALSE,
    FALSE },
};

static GPtrArray *
pods_of (const char *const *texts)
{
  GPtrArray *pods = g_ptr_array_new_with_free_func ((GDestroyNotify) kube_object_unref);
  for (guint i = 0; i < 3 && texts[i] != NULL; i++)
    g_ptr_array_add (pods, object_of (texts[i]));
  return pods;
}

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (MaterializeSight) sight = { 0 };
      g_autoptr (KubeObject) job = rows[i].job != NULL ? object_of (rows[i].job) : NULL;
      g_autoptr (GPtrArray) pods = pods_of (rows[i].pods);
      materialize_sight_read (job, pods, NOW_S, &sight);
      g_test_message ("%s: %s", rows[i].what, sight.message);
      g_assert_cmpint (sight.state, ==, rows[i].state);
      if (rows[i].message == NULL)
        g_assert_null (sight.message);
      else
        g_assert_true (sight.message != NULL && g_str_has_prefix (sight.message, rows[i].message));
      g_assert_cmpint (sight.ended_ago_s, ==, rows[i].ended_ago_s);
      g_assert_cmpint (sight.is_copying, ==, rows[i].is_copying);
      g_assert_cmpint (sight.is_mute, ==, rows[i].is_mute);
    }
}

static void
test_times (void)
{
  const char *const texts[3] = { POD ("a", 10, COPYING (20)), NULL, NULL };
  g_auto (MaterializeSight) sight = { 0 };
  g_autoptr (KubeObject) job = object_of (RUNS);
  g_autoptr (GPtrArray) pods = pods_of (texts);
  materialize_sight_read (job, pods, NOW_S, &sight);
  g_assert_cmpint (sight.elapsed_s, ==, 60);
  g_assert_cmpstr (kube_object_name (sight.pod), ==, "a");
  g_assert_true (materialize_job_is_unfinished (job));
}

/* Since when nothing of it runs. */
static void
test_idle (void)
{
  static const struct {
    const char *pods[3];
    gint64 idle_s;
  } idle[] = {
    { { NULL }, 60 },
    { { POD ("a", 10, "'phase':'Pending'") }, 50 },
    { { POD ("a", 10, ENDED (1, 40, "x")) }, 20 },
    { { POD ("a", 10, ENDED (1, 40, "x")), POD ("b", 50, WAITING ("ImagePullBackOff")) }, 10 },
    { { POD ("a", 10, COPYING (20)) }, 0 },
    { { GOING_POD ("a", 10, 35, COPYING (20)) }, 25 },
  };
  g_autoptr (KubeObject) job = object_of (RUNS);
  for (gsize i = 0; i < G_N_ELEMENTS (idle); i++)
    {
      g_auto (MaterializeSight) sight = { 0 };
      g_autoptr (GPtrArray) pods = pods_of (idle[i].pods);
      materialize_sight_read (job, pods, NOW_S, &sight);
      g_assert_cmpint (sight.idle_s, ==, idle[i].idle_s);
    }
}

/* Whoever keeps a Job beyond its deadline does not keep a turn with it. */
static void
test_overdue (void)
{
  static const gint64 ages_s[] = { 60, 24 * 3600, 25 * 3600, 25 * 3600 + 1 };
  const char *const none[3] = { NULL };
  g_autoptr (KubeObject) job = object_of (RUNS);
  g_autoptr (GPtrArray) pods = pods_of (none);
  for (gsize i = 0; i < G_N_ELEMENTS (ages_s); i++)
    {
      g_auto (MaterializeSight) sight = { 0 };
      materialize_sight_read (job, pods, NOW_S - 60 + ages_s[i], &sight);
      g_assert_cmpint (sight.is_overdue, ==, i == 3);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/materialize-sight/rows", test_rows);
  g_test_add_func ("/materialize-sight/times", test_times);
  g_test_add_func ("/materialize-sight/idle", test_idle);
  g_test_add_func ("/materialize-sight/overdue", test_overdue);
  return g_test_run ();
}
