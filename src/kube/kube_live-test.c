/* The client, informer, lease and events against a real API server, which $KUBECONFIG names: run by tests/kube, not by
 * itself. Works in a namespace of its own. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "kube/access_review.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/kube_error.h"
#include "kube/leader.h"

#define N_OBJECTS 230
#define WAIT_MS (60 * 1000)

static const KubeKind namespaces = { "", "v1", "namespaces", "Namespace", FALSE };
static const KubeKind configmaps = { "", "v1", "configmaps", "ConfigMap", TRUE };
static const KubeKind accounts = { "", "v1", "serviceaccounts", "ServiceAccount", TRUE };
static const KubeKind roles = { "rbac.authorization.k8s.io", "v1", "roles", "Role", TRUE };
static const KubeKind role_bindings = { "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", TRUE };
static const KubeKind events = { "", "v1", "events", "Event", TRUE };

typedef struct {
  Ctx *ctx;
  KubeClient *client;
  char *namespace;
} Fixture;

/* From text with ' for ". */
static yyjson_mut_doc *
doc_of (const char *text)
{
  g_autofree char *json = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (yyjson_doc) doc = json_parse (json, strlen (json), 1 << 20, JSON_STRICT, NULL);
  g_assert_nonnull (doc);
  return yyjson_doc_mut_copy (doc, NULL);
}

static KubeTarget
configmap (const Fixture *self, const char *name)
{
  return (KubeTarget){ .kind = &configmaps, .namespace = self->namespace, .name = name };
}

static KubeObject *
create (const Fixture *self, const char *name, GError **error)
{
  g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'%s','labels':{'half':'%d'}},'data':{'a':'1'}}", name,
                                           (int) strlen (name) % 2);
  g_autoptr (yyjson_mut_doc) doc = doc_of (text);
  KubeTarget target = configmap (self, name);
  return kube_client_create (self->ctx, self->client, &target, doc, error);
}

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (KubeConfig) config = { 0 };
  char uuid[37];
  text_uuid (uuid);
  self->ctx = ctx_new_child (NULL, 2 * WAIT_MS);
  g_assert_true (kube_config_load (NULL, NULL, &config, &error));
  self->client = kube_client_new (&config, &error);
  g_assert_no_error (error);
  self->namespace = g_strdup_printf ("live-%.8s", uuid);
  g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'%s'}}", self->namespace);
  g_autoptr (yyjson_mut_doc) doc = doc_of (text);
  KubeTarget target = { .kind = &namespaces, .name = self->namespace };
  g_autoptr (KubeObject) made = kube_client_create (self->ctx, self->client, &target, doc, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  kube_client_free (self->client);
  ctx_unref (self->ctx);
  g_free (self->namespace);
}

static const char *
data_of (const KubeObject *object, const char *name)
{
  return json_get_string (json_get_object (kube_object_root (object), "data"), name);
}

static void
test_objects (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = configmap (self, "one");
  g_autoptr (KubeObject) made = create (self, "one", &error);
  g_assert_no_error (error);
  g_assert_null (create (self, "one", &error));
  g_assert_true (am_error_is (error, AM_ERROR_ALREADY_EXISTS));
  g_assert_true (g_str_has_prefix (error->message, "create ConfigMap live-"));
  g_clear_error (&error);
  g_autoptr (KubeObject) got = kube_client_get (self->ctx, self->client, &target, &error);
  g_assert_cmpstr (kube_object_uid (got), ==, kube_object_uid (made));

  /* An update from an older state is refused. */
  g_autoptr (yyjson_mut_doc) edited = kube_object_edit (got);
  yyjson_mut_obj_add_str (edited, yyjson_mut_obj_get (yyjson_mut_doc_get_root (edited), "data"), "b", "2");
  g_autoptr (KubeObject) updated = kube_client_update (self->ctx, self->client, &target, edited, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (data_of (updated, "b"), ==, "2");
  yyjson_mut_obj_add_str (edited, yyjson_mut_obj_get (yyjson_mut_doc_get_root (edited), "data"), "c", "3");
  g_assert_null (kube_client_update (self->ctx, self->client, &target, edited, &error));
  g_assert_true (am_error_is (error, AM_ERROR_ABORTED) && am_error_has_reason (error, KUBE_REASON_CONFLICT));
  g_clear_error (&error);

  g_assert_null (
    kube_client_get (self->ctx, self->client, &(KubeTarget){ &configmaps, self->namespace, "none" }, &error));
  g_assert_true (am_error_is (error, AM_ERROR_NOT_FOUND));
}

static void
test_patches (Fixture *self, gconstpointer data)
{
  static const struct {
    KubePatch type;
    const char *patch, *a, *b;
  } rows[] = {
    { KUBE_PATCH_MERGE, "{'data':{'a':null,'b':'x'}}", NULL, "x" },
    { KUBE_PATCH_JSON, "[{'op':'replace','path':'/data/b','value':'y'},{'op':'add','path':'/data/a','value':'1'}]",
      "1", "y" },
    { KUBE_PATCH_APPLY, "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'one'},'data':{'a':'2'}}", "2",
      "y" },
  };
  g_autoptr (GError) error = NULL;
  KubeTarget target = configmap (self, "one");
  g_autoptr (KubeObject) made = create (self, "one", &error);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (yyjson_mut_doc) patch = doc_of (rows[i].patch);
      g_autoptr (KubeObject) patched = kube_client_patch (self->ctx, self->client, &target, rows[i].type, "test",
                                                          patch, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (data_of (patched, "a"), ==, rows[i].a);
      g_assert_cmpstr (data_of (patched, "b"), ==, rows[i].b);
    }
  g_autoptr (yyjson_mut_doc) bad = doc_of ("{'data':{'a':1}}");
  g_assert_null (kube_client_patch (self->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, bad, &error));
  g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
}

static void
test_delete (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = configmap (self, "one");
  KubeDeleteOptions other = { .uid = "00000000-0000-4000-8000-000000000000", .grace_period_s = -1 };
  g_autoptr (KubeObject) made = create (self, "one", &error);
  KubeDeleteOptions exact = { .uid = kube_object_uid (made),
                              .resource_version = kube_object_resource_version (made),
                              .grace_period_s = 0 };
  g_assert_false (kube_client_delete (self->ctx, self->client, &target, &other, &error));
  g_assert_true (am_error_is (error, AM_ERROR_ABORTED));
  g_clear_error (&error);
  g_assert_true (kube_client_delete (self->ctx, self->client, &target, &exact, &error));
  g_assert_true (kube_client_delete (self->ctx, self->client, &target, NULL, &error)); /* gone is fine */
  g_assert_null (kube_client_get (self->ctx, self->client, &target, &error));
}

static gpointer
create_some (gpointer data)
{
  Fixture *self = ((gpointer *) data)[0];
  guint first = GPOINTER_TO_UINT (((gpointer *) data)[1]);
  for (guint i = first; i < N_OBJECTS; i += 10)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *name = g_strdup_printf ("o%u", i);
      g_autoptr (KubeObject) made = create (self, name, &error);
      g_assert_no_error (error);
    }
  return NULL;
}

static void
create_many (Fixture *self)
{
  GThread *threads[10];
  gpointer tasks[10][2];
  for (guint i = 0; i < 10; i++)
    {
      tasks[i][0] = self;
      tasks[i][1] = GUINT_TO_POINTER (i);
      threads[i] = g_thread_new ("creates", create_some, tasks[i]);
    }
  for (guint i = 0; i < 10; i++)
    g_thread_join (threads[i]);
}

static gboolean
count_each (KubeObject *object, gpointer data, GError **error)
{
  guint *n = data;
  *n += g_str_has_prefix (kube_object_name (object), "o");
  return TRUE;
}

static void
test_list (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *version = NULL;
  guint n_all = 0, n_half = 0;
  KubeTarget target = { .kind = &configmaps, .namespace = self->namespace };
  create_many (self);
  KubeListOptions pages = { .page_size = 50 }, half = { .label_selector = "half=0", .page_size = 7 };
  g_assert_true (kube_client_list (self->ctx, self->client, &target, &pages, count_each, &n_all, &version, &error));
  g_assert_true (kube_client_list (self->ctx, self->client, &target, &half, count_each, &n_half, NULL, &error));
  g_assert_cmpuint (n_all, ==, N_OBJECTS);
  g_assert_cmpuint (n_half, ==, 140); /* all but o10 to o99, whose names have three letters */
  g_assert_cmpstr (version, !=, "");
}

static void
index_by_half (const KubeObject *object, GPtrArray *out_values)
{
  const char *half = kube_object_label (object, "half");
  if (half != NULL)
    g_ptr_array_add (out_values, g_strdup (half));
}

static void
note_change (const KubeObject *before, const KubeObject *now, gpointer data)
{
  gint *counts = data;
  g_atomic_int_inc (&counts[before == NULL ? 0 : now == NULL ? 2 : 1]);
}

static void
wait_until (gboolean (*holds) (gpointer data), gpointer data)
{
  for (guint i = 0; i < WAIT_MS / 20 && !holds (data); i++)
    g_usleep (20 * 1000);
  g_assert_true (holds (data));
}

typedef struct {
  Informer *informer;
  guint n;
} Expected;

static gboolean
has_so_many (gpointer data)
{
  Expected *expected = data;
  return informer_count (expected->informer) == expected->n;
}

static void
test_informer (Fixture *self, gconstpointer data)
{
  gint counts[3] = { 0 };
  g_autoptr (GError) error = NULL;
  InformerConfig config = { .kind = &configmaps,
                            .namespace = self->namespace,
                            .label_selector = "half",
                            .index = index_by_half,
                            .changed = note_change,
                            .data = counts };
  g_autoptr (KubeObject) first = create (self, "first", &error);
  g_autoptr (Informer) informer = informer_start (self->ctx, self->client, &config);
  g_assert_true (informer_wait (self->ctx, informer, &error));
  g_autoptr (KubeObject) cached = informer_get (informer, self->namespace, "first");
  g_assert_cmpstr (kube_object_uid (cached), ==, kube_object_uid (first));
  create_many (self);
  Expected expected = { informer, N_OBJECTS + 1 };
  wait_until (has_so_many, &expected);
  g_autoptr (GPtrArray) odd = informer_find (informer, "1"), all = informer_find (informer, NULL);
  g_assert_cmpuint (all->len, ==, N_OBJECTS + 1);
  g_assert_cmpuint (odd->len, ==, 91);
  KubeTarget target = configmap (self, "o10");
  g_autoptr (yyjson_mut_doc) patch = doc_of ("{'metadata':{'labels':{'half':'0'}}}");
  g_autoptr (KubeObject) patched = kube_client_patch (self->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, patch,
                                                      &error);
  target.name = "o11";
  g_assert_true (kube_client_delete (self->ctx, self->client, &target, NULL, &error));
  expected.n--;
  wait_until (has_so_many, &expected);
  g_autoptr (GPtrArray) odd_now = informer_find (informer, "1");
  g_assert_cmpuint (odd_now->len, ==, 89);
  g_assert_null (informer_get (informer, self->namespace, "o11"));
  g_clear_pointer (&informer, informer_free);
  g_assert_cmpint (counts[0], ==, N_OBJECTS + 1);
  g_assert_cmpint (counts[1], ==, 1);
  g_assert_cmpint (counts[2], ==, 1);
}

/* What is read elsewhere is seen at once, and what is older changes nothing. */
static void
test_informer_take (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  InformerConfig config = { .kind = &configmaps, .namespace = self->namespace, .label_selector = "half" };
  KubeTarget target = configmap (self, "first");
  g_autoptr (KubeObject) first = create (self, "first", &error);
  g_autoptr (Informer) informer = informer_start (self->ctx, self->client, &config);
  g_assert_true (informer_wait (self->ctx, informer, &error));
  g_autoptr (yyjson_mut_doc) patch = doc_of ("{'metadata':{'labels':{'half':'x'}}}");
  g_autoptr (KubeObject) patched = kube_client_patch (self->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, patch,
                                                      &error);
  g_assert_no_error (error);
  informer_take (informer, patched);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (KubeObject) seen = informer_get (informer, self->namespace, "first");
      g_assert_cmpstr (kube_object_resource_version (seen), ==, kube_object_resource_version (patched));
      informer_take (informer, first);
    }
}

static gboolean
never (KubeEventType type, KubeObject *object, gpointer data, GError **error)
{
  return TRUE;
}

static void
test_forgotten_version (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = { .kind = &configmaps, .namespace = self->namespace };
  KubeWatchOptions options = { .resource_version = "1", .timeout_s = 5 };
  g_assert_false (kube_client_watch (self->ctx, self->client, &target, &options, never, NULL, &error));
  g_assert_true (am_error_is (error, AM_ERROR_OUT_OF_RANGE));
  g_assert_cmpstr (am_error_reason (error), ==, KUBE_REASON_EXPIRED);
}

/* Two who want to lead. Whoever works notes it; two at a time would be seen. */
typedef struct {
  const Fixture *fixture;
  const char *identity;
  gint *n_working, *n_clashes;
  gint terms;
  Ctx *ctx;
} Contender;

static gboolean
lead (Ctx *term, gpointer data, GError **error)
{
  Contender *self = data;
  if (g_atomic_int_add (self->n_working, 1) != 0)
    g_atomic_int_inc (self->n_clashes);
  g_atomic_int_inc (&self->terms);
  while (ctx_sleep_ms (term, 20, NULL))
    ;
  g_atomic_int_add (self->n_working, -1);
  return TRUE;
}

static gpointer
contend (gpointer data)
{
  Contender *self = data;
  LeaderConfig config = { .namespace = self->fixture->namespace,
                          .name = "lease",
                          .identity = self->identity,
                          .lease_ms = 3000,
                          .renew_deadline_ms = 2000,
                          .retry_ms = 200 };
  while (ctx_check (self->ctx, NULL))
    leader_run (self->ctx, self->fixture->client, &config, lead, self, NULL);
  return NULL;
}

static gboolean
has_led (gpointer data)
{
  return g_atomic_int_get (&((Contender *) data)->terms) > 0;
}

static void
test_leader (Fixture *self, gconstpointer data)
{
  gint n_working = 0, n_clashes = 0;
  Contender a = { .fixture = self, .identity = "a", .n_working = &n_working, .n_clashes = &n_clashes };
  Contender b = { .fixture = self, .identity = "b", .n_working = &n_working, .n_clashes = &n_clashes };
  a.ctx = ctx_new_child (self->ctx, -1);
  b.ctx = ctx_new_child (self->ctx, -1);
  GThread *first = g_thread_new ("a", contend, &a);
  wait_until (has_led, &a);
  GThread *second = g_thread_new ("b", contend, &b);
  g_usleep (4 * G_USEC_PER_SEC); /* longer than a lease: a renews */
  g_assert_cmpint (b.terms, ==, 0);
  ctx_cancel (a.ctx); /* gives it back */
  g_thread_join (first);
  gint64 start_us = g_get_monotonic_time ();
  wait_until (has_led, &b);
  g_test_message ("taken over after %d ms", (int) ((g_get_monotonic_time () - start_us) / 1000));

  /* Taken from b by force: b stops, and may come back only after the other's time. */
  KubeKind leases = { "coordination.k8s.io", "v1", "leases", "Lease", TRUE };
  KubeTarget target = { .kind = &leases, .namespace = self->namespace, .name = "lease" };
  g_autoptr (yyjson_mut_doc) patch = doc_of ("{'spec':{'holderIdentity':'c','leaseDurationSeconds':3}}");
  g_autoptr (GError) error = NULL;
  g_autoptr (KubeObject) stolen = kube_client_patch (self->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, patch,
                                                     &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 500 && g_atomic_int_get (&n_working) > 0; i++)
    g_usleep (10 * 1000);
  g_assert_cmpint (g_atomic_int_get (&n_working), ==, 0);
  for (guint i = 0; i < 1000 && g_atomic_int_get (&b.terms) < 2; i++)
    g_usleep (10 * 1000);
  g_assert_cmpint (b.terms, ==, 2);
  ctx_cancel (b.ctx);
  g_thread_join (second);
  g_assert_cmpint (n_clashes, ==, 0);
  ctx_unref (a.ctx);
  ctx_unref (b.ctx);
}

static gboolean
check_event (KubeObject *object, gpointer data, GError **error)
{
  guint *n = data;
  yyjson_val *root = kube_object_root (object);
  g_assert_cmpstr (json_get_string (root, "reason"), ==, "Tested");
  g_assert_cmpstr (json_get_string (root, "type"), ==, "Warning");
  g_assert_cmpint (yyjson_get_sint (yyjson_obj_get (root, "count")), ==, *n == 0 ? 3 : 1);
  ++*n;
  return TRUE;
}

static void
test_events (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (EventRecorder) recorder = event_recorder_new (self->client, "test", "test-1");
  g_autoptr (KubeObject) about = create (self, "one", &error);
  g_autofree char *long_text = g_strnfill (5000, 'x');
  guint n = 0;
  for (guint i = 0; i < 3; i++)
    event_recorder_say (self->ctx, recorder, &configmaps, about, EVENT_WARNING, "Tested", "it was tested");
  KubeTarget target = { .kind = &events, .namespace = self->namespace };
  KubeListOptions options = { .field_selector = "involvedObject.name=one" };
  g_assert_true (kube_client_list (self->ctx, self->client, &target, &options, check_event, &n, NULL, &error));
  g_assert_cmpuint (n, ==, 1);
  event_recorder_say (self->ctx, recorder, &configmaps, about, EVENT_WARNING, "Tested", long_text);
}

static KubeObject *
create_from (const Fixture *self, const KubeTarget *target, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (yyjson_mut_doc) doc = doc_of (text);
  KubeObject *made = kube_client_create (self->ctx, self->client, target, doc, &error);
  g_assert_no_error (error);
  return made;
}

/* A service account that may read ConfigMaps of its namespace, and its token. */
static char *
make_reader (const Fixture *self)
{
  KubeTarget account = { .kind = &accounts, .namespace = self->namespace, .name = "reader" };
  KubeTarget role = { .kind = &roles, .namespace = self->namespace, .name = "reader" };
  KubeTarget binding = { .kind = &role_bindings, .namespace = self->namespace, .name = "reader" };
  KubeTarget token = { .kind = &accounts, .namespace = self->namespace, .name = "reader", .subresource = "token" };
  g_autofree char *subject = g_strdup_printf (
    "{'metadata':{'name':'reader'},'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'Role','name':'reader'},"
    "'subjects':[{'kind':'ServiceAccount','name':'reader','namespace':'%s'}]}",
    self->namespace);
  g_autoptr (KubeObject) a = create_from (self, &account, "{'metadata':{'name':'reader'}}");
  g_autoptr (KubeObject) r = create_from (self, &role,
                                          "{'metadata':{'name':'reader'},'rules':[{'apiGroups':[''],"
                                          "'resources':['configmaps'],'verbs':['get']}]}");
  g_autoptr (KubeObject) b = create_from (self, &binding, subject);
  g_autoptr (KubeObject) t = create_from (self, &token, "{'spec':{'expirationSeconds':600}}");
  return g_strdup (json_get_string (kube_object_status (t), "token"));
}

static void
test_access (Fixture *self, gconstpointer data)
{
  g_autoptr (AccessReview) reviews = access_review_new (self->client);
  g_autofree char *token = make_reader (self);
  g_autofree char *user = g_strdup_printf ("system:serviceaccount:%s:reader", self->namespace);
  g_auto (KubeIdentity) identity = { 0 }, again = { 0 }, none = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_true (access_review_identify (self->ctx, reviews, token, &identity, &error));
  g_assert_cmpstr (identity.user, ==, user);
  g_assert_true (g_strv_contains ((const char *const *) identity.groups, "system:serviceaccounts"));
  g_assert_true (access_review_identify (self->ctx, reviews, token, &again, &error)); /* remembered */
  g_assert_cmpstr (again.user, ==, user);
  g_assert_cmpstr (again.uid, ==, identity.uid);
  g_autofree char *wrong = g_strconcat (token, "x", NULL);
  g_assert_false (access_review_identify (self->ctx, reviews, wrong, &none, &error));
  g_assert_true (am_error_is (error, AM_ERROR_UNAUTHENTICATED));
  g_assert_null (strstr (error->message, token));
  g_clear_error (&error);

  AccessQuestion may = { .verb = "get", .group = "", .resource = "configmaps", .namespace = self->namespace };
  AccessQuestion may_not = { .verb = "delete", .group = "", .resource = "configmaps", .namespace = self->namespace };
  for (guint i = 0; i < 2; i++) /* asked, and remembered */
    {
      g_assert_true (access_review_require (self->ctx, reviews, &identity, &may, &error));
      g_assert_false (access_review_require (self->ctx, reviews, &identity, &may_not, &error));
      g_assert_true (am_error_is (error, AM_ERROR_PERMISSION_DENIED));
      g_assert_nonnull (strstr (error->message, "reader may not delete configmaps in namespace live-"));
      g_clear_error (&error);
    }
  may.namespace = NULL; /* of all namespaces he may not */
  g_assert_false (access_review_require (self->ctx, reviews, &identity, &may, &error));
}

/* A client that has nothing but a token in a file, which is replaced while it works. */
static void
test_token_file (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (KubeConfig) config = { 0 };
  g_autofree char *token = make_reader (self), *path = g_strdup_printf ("%s/%s", g_get_tmp_dir (), self->namespace);
  KubeTarget target = configmap (self, "one");
  g_autoptr (KubeObject) made = create (self, "one", &error);
  g_assert_true (kube_config_load (NULL, NULL, &config, &error));
  g_clear_pointer (&config.client_pem, g_free);
  config.token_file = g_strdup (path);
  g_assert_true (g_file_set_contents (path, "no token at all", -1, NULL));
  g_autoptr (KubeClient) client = kube_client_new (&config, &error);
  g_assert_null (kube_client_get (self->ctx, client, &target, &error));
  g_assert_true (am_error_is (error, AM_ERROR_UNAUTHENTICATED));
  g_clear_error (&error);
  g_assert_true (g_file_set_contents (path, token, -1, NULL));
  g_autoptr (KubeObject) got = kube_client_get (self->ctx, client, &target, &error); /* read again after the 401 */
  g_assert_no_error (error);
  g_assert_false (kube_client_delete (self->ctx, client, &target, NULL, &error));
  g_assert_true (am_error_is (error, AM_ERROR_PERMISSION_DENIED));
  remove (path);
}

int
main (int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*func) (Fixture *self, gconstpointer data);
  } tests[] = {
    { "/kube-live/objects", test_objects },
    { "/kube-live/patches", test_patches },
    { "/kube-live/delete", test_delete },
    { "/kube-live/list", test_list },
    { "/kube-live/informer", test_informer },
    { "/kube-live/informer-take", test_informer_take },
    { "/kube-live/forgotten-version", test_forgotten_version },
    { "/kube-live/leader", test_leader },
    { "/kube-live/events", test_events },
    { "/kube-live/access", test_access },
    { "/kube-live/token-file", test_token_file },
  };
  g_test_init (&argc, &argv, NULL);
  am_log_init (g_test_verbose () ? AM_LOG_DEBUG : AM_LOG_ERROR, AM_LOG_FORMAT_TEXT, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].name, Fixture, NULL, set_up, tests[i].func, tear_down);
  return g_test_run ();
}
