/* Claims, their Jobs, turns and the collector against a real API server, which $KUBECONFIG names: run by tests/kube. Nothing else runs
 * there: what a provisioner, Jobs' controller and kubelets would write is written here. Works in namespaces of its own. */
#include <string.h>

#include "base/text.h"
#include "cluster/module_objects.h"
#include "controllers/claim_collector.h"
#include "controllers/claim_work.h"
#include "controllers/controllers_fixture.h"
#include "controllers/materialize_metrics.h"
#include "kube/event_recorder.h"

#define WAIT_MS (60 * 1000)
#define DIGEST "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define REPOSITORY "ai-models/catalog/cluster/minilm/u-1"
#define CLASS "tests-claims"
#define PROVISIONER "tests.example.com"
#define N_SPACES 3
#define LIMIT 2
#define HOUR_S 3600

static const KubeKind namespaces = { "", "v1", "namespaces", "Namespace", FALSE };

typedef struct {
  Ctx *ctx;
  KubeClient *client;
  ControllerSettings settings;
  ModelController *models;
  DeliveryCaches *caches;
  MaterializeTurns *turns;
  ClaimCollector *collector;
  char *spaces[N_SPACES];
  GMutex lock;
  GString *woken; /* keys, in the order in which they were called */
} Fixture;

static void
wake (const char *key, gpointer data)
{
  Fixture *self = data;
  g_mutex_lock (&self->lock);
  g_string_append_printf (self->woken, "%s ", key);
  g_mutex_unlock (&self->lock);
}

static KubeObject *
create (Fixture *self, const KubeKind *kind, const char *namespace, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (KubeObject) object = object_of (text);
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (object);
  KubeTarget target = { .kind = kind, .namespace = namespace };
  KubeObject *made = kube_client_create (self->ctx, self->client, &target, doc, &error);
  if (!am_error_is (error, AM_ERROR_ALREADY_EXISTS))
    g_assert_no_error (error);
  return made;
}

/* NULL: there is none. */
static KubeObject *
get (Fixture *self, const KubeKind *kind, const char *namespace, const char *name)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = { .kind = kind, .namespace = namespace, .name = name };
  KubeObject *object = kube_client_get (self->ctx, self->client, &target, &error);
  if (!am_error_is (error, AM_ERROR_NOT_FOUND))
    g_assert_no_error (error);
  return object;
}

static void
patch (Fixture *self, const KubeKind *kind, const KubeObject *object, const char *subresource, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *json = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (yyjson_doc) read = json_parse (json, strlen (json), 65536, JSON_STRICT, &error);
  g_autoptr (yyjson_mut_doc) doc = yyjson_doc_mut_copy (read, NULL);
  KubeTarget target = { kind, kube_object_namespace (object), kube_object_name (object), subresource };
  g_autoptr (KubeObject) stored = kube_client_patch (self->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, doc,
                                                     &error);
  g_assert_no_error (error);
}

static void
set_up_spaces (Fixture *self)
{
  char uuid[37];
  text_uuid (uuid);
  for (guint i = 0; i < N_SPACES; i++)
    {
      self->spaces[i] = g_strdup_printf ("claims-%.8s-%u", uuid, i);
      g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'%s'}}", self->spaces[i]);
      g_autoptr (KubeObject) made = create (self, &namespaces, NULL, text);
    }
}

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (KubeConfig) config = { 0 };
  self->ctx = ctx_new_child (NULL, WAIT_MS);
  g_mutex_init (&self->lock);
  self->woken = g_string_new (NULL);
  g_assert_true (kube_config_load (NULL, NULL, &config, &error));
  self->client = kube_client_new (&config, &error);
  g_assert_no_error (error);
  set_up_spaces (self);
  g_autoptr (KubeObject) class = create (self, &storage_class_kind, NULL,
                                         "{'metadata':{'name':'" CLASS "'},'provisioner':'" PROVISIONER "'}");
  self->settings = (ControllerSettings){
    .namespace = self->spaces[0],
    .identity = "test",
    .registry = "registry:5000",
    .max_workers = 1,
    .delivery = { .is_on = TRUE,
                  .materializer_image = "image",
                  .materializer_pull_secret = "pull",
                  .materializer_requests = "cpu=200m",
                  .materializer_limits = "cpu=2",
                  .max_materializations = LIMIT },
  };
  self->models = model_controller_new (self->ctx, self->client, &self->settings);
  self->caches = delivery_caches_new (self->ctx, self->client, &self->settings, self->models);
  self->turns = materialize_turns_new (self->caches, wake, self);
  self->collector = claim_collector_new (self->caches, self->turns);
  g_assert_true (delivery_caches_wait (self->ctx, self->caches, &error));
  g_assert_no_error (error);
  g_assert_true (materialize_turns_begin (self->ctx, self->turns, &error));
  g_assert_no_error (error);
}

/* Jobs of one test would take turns from the next. */
static gboolean
remove_one (KubeObject *object, gpointer data, GError **error)
{
  Fixture *self = data;
  KubeTarget target = { .kind = &job_kind,
                        .namespace = kube_object_namespace (object),
                        .name = kube_object_name (object) };
  if (kube_object_is_deleting (object))
    patch (self, &job_kind, object, NULL, "{'metadata':{'finalizers':null}}");
  return kube_client_delete (self->ctx, self->client, &target, NULL, error);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = { .kind = &job_kind };
  kube_client_list (self->ctx, self->client, &target, NULL, remove_one, self, NULL, &error);
  g_assert_no_error (error);
  claim_collector_free (self->collector);
  materialize_turns_free (self->turns);
  delivery_caches_free (self->caches);
  model_controller_free (self->models);
  kube_client_free (self->client);
  ctx_unref (self->ctx);
  for (guint i = 0; i < N_SPACES; i++)
    g_free (self->spaces[i]);
  g_string_free (self->woken, TRUE);
  g_mutex_clear (&self->lock);
}

/* A model in a namespace, and who asks for it */

typedef struct {
  Fixture *fixture;
  ClaimSubject subject;
  KubeObject *workload;
  ClaimSight sight;
} Asker;

static void
asker_init (Asker *self, Fixture *fixture, guint space, const char *model, const char *name)
{
  g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'%s','namespace':'%s','uid':'%s-%s'}}", name,
                                           fixture->spaces[space], fixture->spaces[space], name);
  *self = (Asker){ .fixture = fixture,
                   .subject = { fixture->spaces[space], TRUE, model, DIGEST, REPOSITORY, 1000 },
                   .workload = object_of (text) };
}

static void
asker_clear (Asker *self)
{
  claim_sight_clear (&self->sight);
  kube_object_unref (self->workload);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Asker, asker_clear)

static ClaimView *
look (Asker *self)
{
  claim_sight_clear (&self->sight);
  claim_sight_read (self->fixture->caches, &self->subject, kube_object_uid (self->workload), &self->sight);
  return &self->sight.view;
}

static ClaimView *
ask (Asker *self)
{
  g_autoptr (GError) error = NULL;
  Fixture *fixture = self->fixture;
  look (self);
  g_assert_true (claim_sight_ask (fixture->ctx, fixture->caches, fixture->turns, &self->subject,
                                  kube_object_name (self->workload), &self->sight, &error));
  g_assert_no_error (error);
  return &self->sight.view;
}

static gboolean
act (Asker *self, ClaimStep step, GError **error)
{
  Fixture *fixture = self->fixture;
  ClaimWork work = { fixture->caches, fixture->turns,     &self->subject, &self->sight,
                     self->workload,  &workload_kinds[0], CLASS };
  return claim_act (fixture->ctx, &work, step, error);
}

static void
must_act (Asker *self, ClaimStep step)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (act (self, step, &error));
  g_assert_no_error (error);
}

#define WAIT_UNTIL(condition)                        \
  G_STMT_START                                       \
  {                                                  \
    for (guint n = 0; n < 1000 && !(condition); n++) \
      g_usleep (20 * 1000);                          \
    g_assert_true (condition);                       \
  }                                                  \
  G_STMT_END

static void
bind_claim (Asker *self)
{
  patch (self->fixture, &claim_kind, self->sight.claim, "status", "{'status':{'phase':'Bound'}}");
  WAIT_UNTIL (look (self)->phase == CLAIM_BOUND);
}

/* Made and bound. */
static void
make_claim (Asker *self)
{
  look (self);
  must_act (self, CLAIM_STEP_CREATE);
  WAIT_UNTIL (look (self)->phase == CLAIM_PENDING);
  bind_claim (self);
}

static void
make_pull_secret (Fixture *self)
{
  g_autoptr (KubeObject) made = create (self, &secret_kind, self->spaces[0],
                                        "{'metadata':{'name':'pull'},'type':'kubernetes.io/dockerconfigjson',"
                                        "'data':{'.dockerconfigjson':'e30='}}");
}

static void
start_job (Asker *self)
{
  WAIT_UNTIL (ask (self)->has_slot);
  must_act (self, CLAIM_STEP_START_JOB);
  WAIT_UNTIL (look (self)->job == MATERIALIZER_RUNNING);
}

static void
end_job (Asker *self, gboolean succeeded)
{
  patch (self->fixture, &job_kind, self->sight.job, "status",
         succeeded
           ? "{'status':{'startTime':'2026-01-01T00:00:00Z','completionTime':'2026-01-01T00:01:00Z','succeeded':1,"
             "'conditions':[{'type':'SuccessCriteriaMet','status':'True','reason':'CompletionsReached'},"
             "{'type':'Complete','status':'True','reason':'CompletionsReached'}]}}"
           : "{'status':{'startTime':'2026-01-01T00:00:00Z','failed':1,'conditions':["
             "{'type':'FailureTarget','status':'True','reason':'BackoffLimitExceeded'},"
             "{'type':'Failed','status':'True','reason':'BackoffLimitExceeded','message':'too often',"
             "'lastTransitionTime':'2026-01-01T00:01:00Z'}]}}");
  WAIT_UNTIL (look (self)->job == (succeeded ? MATERIALIZER_SUCCEEDED : MATERIALIZER_FAILED));
}

static guint
n_secrets (Asker *self)
{
  guint n = 0;
  char *(*const names[]) (const char *claim) = { materialize_grant_name, materialize_pull_name };
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *name = names[i](self->sight.name);
      g_autoptr (KubeObject) secret = get (self->fixture, &secret_kind, self->subject.namespace, name);
      n += secret != NULL;
    }
  return n;
}

/* Tests */

/* From nothing to whole; each step may be done twice. */
static void
test_whole (Fixture *self, gconstpointer data)
{
  g_auto (Asker) one = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  make_pull_secret (self);
  g_assert_true (ask (&one)->phase == CLAIM_ABSENT && !one.sight.view.has_slot);
  must_act (&one, CLAIM_STEP_CREATE);
  must_act (&one, CLAIM_STEP_CREATE);
  WAIT_UNTIL (look (&one)->phase == CLAIM_PENDING);
  ClaimView *view = ask (&one);
  g_assert_true (view->is_ours && view->is_shared && view->is_held && !view->is_whole && view->refusal == NULL);
  g_assert_cmpstr (view->storage_class, ==, CLASS);
  bind_claim (&one);
  start_job (&one);
  must_act (&one, CLAIM_STEP_START_JOB); /* it is nobody's turn any more */
  g_assert_cmpuint (n_secrets (&one), ==, 2);
  g_assert_false (look (&one)->job_is_older);
  end_job (&one, TRUE);
  must_act (&one, CLAIM_STEP_MARK);
  g_assert_cmpuint (n_secrets (&one), ==, 0);
  WAIT_UNTIL (look (&one)->is_whole);
  g_assert_true (claim_serves (&one.sight.view));
}

/* Workloads hold a claim; of two writes by the same version the second looks again at once, and takes nothing from the first. */
static void
test_holders (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Asker) one = { 0 }, two = { 0 }, three = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  asker_init (&two, self, 0, "minilm", "two");
  asker_init (&three, self, 0, "minilm", "three");
  make_claim (&one);
  g_assert_false (look (&two)->is_held || look (&three)->is_held);
  must_act (&two, CLAIM_STEP_HOLD);
  must_act (&three, CLAIM_STEP_HOLD);
  WAIT_UNTIL (look (&three)->is_held);
  g_assert_true (look (&one)->is_held && look (&two)->is_held);
  g_autoptr (GPtrArray) held = claims_held_by (self->caches, self->spaces[0], kube_object_uid (two.workload));
  g_autoptr (GPtrArray) elsewhere = claims_held_by (self->caches, self->spaces[1], kube_object_uid (two.workload));
  g_assert_true (held->len == 1 && elsewhere->len == 0);
  g_assert_true (claim_release (self->ctx, self->caches, two.sight.claim, kube_object_uid (two.workload), &error));
  WAIT_UNTIL (!look (&two)->is_held);
  look (&three);
  g_assert_true (
    claim_release (self->ctx, self->caches, three.sight.claim, kube_object_uid (three.workload), &error));
  WAIT_UNTIL (!look (&three)->is_held);
  g_assert_cmpint (claim_released_s (three.sight.claim), ==, 0);
  look (&one);
  g_assert_true (claim_release (self->ctx, self->caches, one.sight.claim, kube_object_uid (one.workload), &error));
  g_assert_no_error (error);
  WAIT_UNTIL (!look (&one)->is_held);
  g_assert_cmpint (claim_released_s (one.sight.claim), >, 0);
}

static void
assert_hold_fails (Asker *self)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (act (self, CLAIM_STEP_HOLD, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_ABORTED);
}

/* Nobody holds a claim that was deleted since it was seen; who held it is glad to see it gone. */
static void
test_hold_gone (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Asker) one = { 0 }, two = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  asker_init (&two, self, 0, "minilm", "two");
  make_claim (&one);
  look (&two);
  patch (self, &claim_kind, one.sight.claim, NULL, "{'metadata':{'finalizers':['example.com/kept']}}");
  WAIT_UNTIL ((look (&one), kube_object_has_finalizer (one.sight.claim, "example.com/kept")));
  g_assert_true (claim_delete (self->ctx, self->client, one.sight.claim, &error));
  g_assert_no_error (error);
  assert_hold_fails (&two); /* it goes */
  patch (self, &claim_kind, one.sight.claim, NULL, "{'metadata':{'finalizers':null}}");
  assert_hold_fails (&two); /* it is gone */
  g_assert_true (claim_release (self->ctx, self->caches, one.sight.claim, kube_object_uid (one.workload), &error));
  g_assert_no_error (error);
}

/* One that was never bound goes with its last holder. */
static void
test_release_unbound (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Asker) one = { 0 }, two = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  asker_init (&two, self, 0, "minilm", "two");
  look (&one);
  must_act (&one, CLAIM_STEP_CREATE);
  WAIT_UNTIL (look (&two)->phase == CLAIM_PENDING);
  must_act (&two, CLAIM_STEP_HOLD);
  WAIT_UNTIL (look (&two)->is_held);
  g_assert_true (claim_release (self->ctx, self->caches, two.sight.claim, kube_object_uid (one.workload), &error));
  WAIT_UNTIL (!look (&one)->is_held);
  g_assert_true (claim_release (self->ctx, self->caches, one.sight.claim, kube_object_uid (two.workload), &error));
  g_assert_no_error (error);
  WAIT_UNTIL (look (&one)->phase == CLAIM_ABSENT || one.sight.view.is_deleting);
}

/* Somebody else's claim, and somebody else's Job, of the name that ours would have. */
static void
test_foreign (Fixture *self, gconstpointer data)
{
  g_auto (Asker) one = { 0 }, two = { 0 };
  asker_init (&one, self, 1, "minilm", "one");
  asker_init (&two, self, 1, "other", "two");
  look (&one);
  g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'%s'},'spec':{'accessModes':['ReadWriteMany'],"
                                           "'resources':{'requests':{'storage':'1Gi'}}}}",
                                           one.sight.name);
  g_autoptr (KubeObject) claim = create (self, &claim_kind, self->spaces[1], text);
  g_assert_cmpint (look (&one)->phase, ==, CLAIM_ABSENT); /* the caches know only our own */
  g_assert_true (ask (&one)->phase == CLAIM_PENDING && !one.sight.view.is_ours);
  must_act (&one, CLAIM_STEP_CREATE);
  make_claim (&two);
  g_autofree char *name = materialize_job_name (two.sight.name);
  g_autofree char *job_text = g_strdup_printf (
    "{'metadata':{'name':'%s'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
    "'image':'i'}]}}}}",
    name);
  g_autoptr (KubeObject) job = create (self, &job_kind, self->spaces[1], job_text);
  WAIT_UNTIL (ask (&two)->job == MATERIALIZER_FAILED);
  g_assert_nonnull (strstr (two.sight.view.job_message, "was not made by this module: remove it"));
  g_assert_false (two.sight.view.has_slot);
}

static void
say (Fixture *self, const char *kind, const char *uid, const char *component, const char *message)
{
  g_autofree char *text = g_strdup_printf (
    "{'metadata':{'generateName':'e-'},'involvedObject':{'kind':'%s','namespace':'%s','name':'x','uid':'%s'},"
    "'type':'Warning','reason':'ProvisioningFailed','source':{'component':'%s'},'message':'%s'}",
    kind, self->spaces[0], uid, component, message);
  g_autoptr (KubeObject) made = create (self, &event_kind, self->spaces[0], text);
}

static void
test_refusal (Fixture *self, gconstpointer data)
{
  g_auto (Asker) one = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  look (&one);
  must_act (&one, CLAIM_STEP_CREATE);
  WAIT_UNTIL (look (&one)->phase == CLAIM_PENDING);
  g_autofree char *uid = g_strdup (kube_object_uid (one.sight.claim));
  say (self, "PersistentVolumeClaim", "another", PROVISIONER, "of another claim");
  say (self, "PersistentVolumeClaim", uid, "a-user", "forged");
  say (self, "Pod", uid, PROVISIONER, "of no claim");
  g_assert_null (ask (&one)->refusal);
  say (self, "PersistentVolumeClaim", uid, PROVISIONER "_node_1", "no \\\"space\\\" in the pool: 5% left");
  WAIT_UNTIL (g_strcmp0 (ask (&one)->refusal, "no \"space\" in the pool: 5% left") == 0);
}

/* A Job for an earlier claim of that name is removed with its Secrets; one that failed tells why. */
static void
test_failed (Fixture *self, gconstpointer data)
{
  g_auto (Asker) one = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  make_pull_secret (self);
  make_claim (&one);
  start_job (&one);
  g_assert_cmpint (ask (&one)->job, ==, MATERIALIZER_RUNNING);
  end_job (&one, FALSE);
  g_assert_cmpstr (one.sight.view.job_message, ==, "its Job failed: too often");
  g_assert_cmpint (one.sight.view.job_ended_ago_s, >, HOUR_S);
  must_act (&one, CLAIM_STEP_REMOVE_JOB);
  g_assert_cmpuint (n_secrets (&one), ==, 0);
  WAIT_UNTIL (look (&one)->job == MATERIALIZER_ABSENT || kube_object_is_deleting (one.sight.job));
  must_act (&one, CLAIM_STEP_REMOVE_JOB);
}

/* Never more than the limit; who is next is called; a turn that was not used goes to others. */
static void
test_turns (Fixture *self, gconstpointer data)
{
  static const struct {
    guint space;
    const char *model, *name;
  } rows[] = { { 0, "a", "a" }, { 0, "b", "b" }, { 1, "c", "c" }, { 2, "d", "d" } };
  Asker all[G_N_ELEMENTS (rows)];
  make_pull_secret (self);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      asker_init (&all[i], self, rows[i].space, rows[i].model, rows[i].name);
      make_claim (&all[i]);
    }
  g_assert_true (ask (&all[0])->has_slot && ask (&all[1])->has_slot);
  must_act (&all[0], CLAIM_STEP_START_JOB);
  /* Whether the caches know of the first Job or not: b is of a namespace that has one. */
  g_assert_true (ask (&all[2])->has_slot && !ask (&all[1])->has_slot);
  g_assert_false (ask (&all[3])->has_slot);
  must_act (&all[1], CLAIM_STEP_START_JOB);
  must_act (&all[3], CLAIM_STEP_START_JOB);
  MaterializeCounts counts = materialize_turns_count (self->turns);
  g_autoptr (GString) metrics = g_string_new (NULL);
  g_assert_true (counts.n_running == 1 && counts.n_queued == 3 && counts.n_max == LIMIT);
  must_act (&all[2], CLAIM_STEP_START_JOB);
  WAIT_UNTIL (look (&all[0])->job == MATERIALIZER_RUNNING && look (&all[2])->job == MATERIALIZER_RUNNING);
  g_assert_cmpuint (materialize_turns_count (self->turns).n_running, ==, LIMIT);
  materialize_metrics_append (self->turns, metrics);
  g_assert_nonnull (strstr (metrics->str, "expected_bytes{namespace=\"claims-"));
  g_assert_nonnull (strstr (metrics->str, "\",digest=\"" DIGEST "\"} 1000\n"));
  g_assert_nonnull (strstr (metrics->str, "d8_ai_models_materialization_jobs_running 2\n"));
  g_assert_nonnull (strstr (metrics->str, "d8_ai_models_materialization_jobs_limit 2\n"));
  g_assert_false (ask (&all[1])->has_slot || ask (&all[3])->has_slot);
  end_job (&all[0], TRUE);
  WAIT_UNTIL (strstr (self->woken->str, "d ") != NULL);
  g_assert_null (strstr (self->woken->str, "b "));
  g_assert_true (ask (&all[3])->has_slot && materialize_turns_take (self->turns, all[3].sight.claim));
  materialize_turns_give_back (self->turns, all[3].sight.claim);
  WAIT_UNTIL (strstr (self->woken->str, "b ") != NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    asker_clear (&all[i]);
}

/* What a leader before this one started counts, even when no cache knows of it; a claim whose Secrets are being removed starts
 * nothing. */
static void
test_turns_of_others (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Asker) one = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  make_pull_secret (self);
  make_claim (&one);
  g_assert_true (ask (&one)->has_slot);
  g_assert_true (materialize_turns_close (self->turns, self->spaces[0], one.sight.name));
  g_assert_false (materialize_turns_take (self->turns, one.sight.claim));
  g_assert_null (strstr (self->woken->str, "one "));
  materialize_turns_open (self->turns, self->spaces[0], one.sight.name);
  WAIT_UNTIL (strstr (self->woken->str, "one ") != NULL);
  must_act (&one, CLAIM_STEP_START_JOB);
  g_assert_true (materialize_turns_begin (self->ctx, self->turns, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (materialize_turns_count (self->turns).n_running, ==, 1);
  WAIT_UNTIL (look (&one)->job == MATERIALIZER_RUNNING);
  g_assert_cmpuint (materialize_turns_count (self->turns).n_running, ==, 1);
}

static void
collect (Fixture *self, gint64 now_s)
{
  claim_collector_round (self->ctx, self->collector, now_s);
}

/* A claim that nobody holds: kept for a while, not while a Pod uses it, and gone with its Job. */
static void
test_collected (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Asker) one = { 0 };
  gint64 now_s = g_get_real_time () / G_USEC_PER_SEC;
  asker_init (&one, self, 0, "minilm", "one");
  make_claim (&one);
  collect (self, now_s + HOUR_S);
  g_assert_cmpint (claim_released_s (one.sight.claim), ==, 0); /* it is held */
  patch (self, &claim_kind, one.sight.claim, NULL, "{'metadata':{'ownerReferences':[]}}");
  WAIT_UNTIL (!look (&one)->is_held);
  g_autofree char *pod_text = g_strdup_printf (
    "{'metadata':{'name':'user'},'spec':{'containers':[{'name':'c','image':'i'}],'volumes':[{'name':'v',"
    "'persistentVolumeClaim':{'claimName':'%s'}}]}}",
    one.sight.name);
  g_autoptr (KubeObject) account = create (self, &(KubeKind){ "", "v1", "serviceaccounts", "ServiceAccount", TRUE },
                                           self->spaces[0], "{'metadata':{'name':'default'}}");
  g_autoptr (KubeObject) pod = create (self, &pod_kind, self->spaces[0], pod_text);
  collect (self, now_s);
  look (&one);
  g_assert_cmpint (claim_released_s (one.sight.claim), ==, 0); /* a Pod uses it */
  KubeTarget target = { .kind = &pod_kind, .namespace = self->spaces[0], .name = "user" };
  KubeDeleteOptions at_once = { .grace_period_s = 0 };
  g_assert_true (kube_client_delete (self->ctx, self->client, &target, &at_once, &error));
  now_s += 6 * 60; /* that is not asked about every time */
  WAIT_UNTIL ((collect (self, now_s), look (&one), claim_released_s (one.sight.claim) == now_s));
  collect (self, now_s + CLAIM_GRACE_S - 1);
  g_assert_false (look (&one)->is_deleting);
  collect (self, now_s + CLAIM_GRACE_S);
  WAIT_UNTIL (look (&one)->phase == CLAIM_ABSENT || one.sight.view.is_deleting);
}

/* Held again, it is as if nothing had been. */
static void
test_held_again (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Asker) one = { 0 }, two = { 0 };
  asker_init (&one, self, 0, "minilm", "one");
  asker_init (&two, self, 0, "minilm", "two");
  make_claim (&one);
  g_assert_true (claim_release (self->ctx, self->caches, one.sight.claim, kube_object_uid (one.workload), &error));
  WAIT_UNTIL (!look (&one)->is_held);
  look (&two);
  must_act (&two, CLAIM_STEP_HOLD);
  WAIT_UNTIL (look (&two)->is_held);
  g_assert_null (kube_object_annotation (two.sight.claim, RELEASED_ANNOTATION));
  patch (self, &claim_kind, two.sight.claim, NULL,
         "{'metadata':{'annotations':{'ai.deckhouse.io/released-at':'2026-01-01T00:00:00Z'}}}");
  WAIT_UNTIL ((look (&two), claim_released_s (two.sight.claim) != 0));
  collect (self, g_get_real_time () / G_USEC_PER_SEC);
  WAIT_UNTIL ((look (&two), kube_object_annotation (two.sight.claim, RELEASED_ANNOTATION) == NULL));
  g_assert_false (two.sight.view.is_deleting);
}

/* Secrets of a Job that is gone go, too; those of one that runs stay; the Job of a claim that goes is removed. */
static void
test_left_over (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Asker) one = { 0 };
  gint64 now_s = g_get_real_time () / G_USEC_PER_SEC;
  asker_init (&one, self, 0, "minilm", "one");
  make_pull_secret (self);
  make_claim (&one);
  start_job (&one);
  collect (self, now_s);
  g_assert_cmpuint (n_secrets (&one), ==, 2);
  g_autoptr (KubeObject) job = kube_object_ref (one.sight.job);
  g_assert_true (remove_one (job, self, &error));
  WAIT_UNTIL (look (&one)->job == MATERIALIZER_ABSENT);
  collect (self, now_s);
  g_assert_cmpuint (n_secrets (&one), ==, 0);
  start_job (&one);
  patch (self, &claim_kind, one.sight.claim, NULL, "{'metadata':{'finalizers':['example.com/kept']}}");
  WAIT_UNTIL ((look (&one), kube_object_has_finalizer (one.sight.claim, "example.com/kept")));
  g_assert_true (claim_delete (self->ctx, self->client, one.sight.claim, &error));
  g_assert_no_error (error);
  WAIT_UNTIL (look (&one)->is_deleting);
  collect (self, now_s);
  WAIT_UNTIL (look (&one)->job == MATERIALIZER_ABSENT || kube_object_is_deleting (one.sight.job));
  patch (self, &claim_kind, one.sight.claim, NULL, "{'metadata':{'finalizers':null}}");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define TEST(name, function) g_test_add ("/claims-live/" name, Fixture, NULL, set_up, function, tear_down)
  TEST ("whole", test_whole);
  TEST ("holders", test_holders);
  TEST ("hold-gone", test_hold_gone);
  TEST ("release-unbound", test_release_unbound);
  TEST ("foreign", test_foreign);
  TEST ("refusal", test_refusal);
  TEST ("failed", test_failed);
  TEST ("turns", test_turns);
  TEST ("turns-of-others", test_turns_of_others);
  TEST ("collected", test_collected);
  TEST ("held-again", test_held_again);
  TEST ("left-over", test_left_over);
  return g_test_run ();
}
