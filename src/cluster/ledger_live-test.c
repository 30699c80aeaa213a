/* The books in a real API server, which $KUBECONFIG names: run by tests/kube. Works in a namespace of its own. */
#include <string.h>

#include "base/text.h"
#include "cluster/ledger_store.h"
#include "cluster/module_objects.h"

#define WAIT_MS (60 * 1000)
#define N_WRITERS 4
#define N_EACH 5

static const KubeKind namespaces = { "", "v1", "namespaces", "Namespace", FALSE };
static const LedgerOwner one = { "Model", "one", "ns", "uid-1" };

typedef struct {
  Ctx *ctx;
  KubeClient *client;
  char *namespace;
  LedgerStore *maker, *user;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_auto (KubeConfig) config = { 0 };
  char uuid[37];
  text_uuid (uuid);
  self->ctx = ctx_new_child (NULL, WAIT_MS);
  g_assert_true (kube_config_load (NULL, NULL, &config, &error));
  self->client = kube_client_new (&config, &error);
  g_assert_no_error (error);
  self->namespace = g_strdup_printf ("ledger-%.8s", uuid);
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, yyjson_mut_obj_add_obj (doc, root, "metadata"), "name", self->namespace);
  KubeTarget target = { .kind = &namespaces, .name = self->namespace };
  g_autoptr (KubeObject) made = kube_client_create (self->ctx, self->client, &target, doc, &error);
  g_assert_no_error (error);
  self->maker = ledger_store_new (self->client, self->namespace, ACCOUNTING_CONFIG_MAP, TRUE);
  self->user = ledger_store_new (self->client, self->namespace, ACCOUNTING_CONFIG_MAP, FALSE);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  ledger_store_free (self->maker);
  ledger_store_free (self->user);
  kube_client_free (self->client);
  ctx_unref (self->ctx);
  g_free (self->namespace);
}

static KubeTarget
target_of (const Fixture *self)
{
  return (KubeTarget){ .kind = &config_map_kind, .namespace = self->namespace, .name = ACCOUNTING_CONFIG_MAP };
}

static StorageLedger *
read_ledger (Fixture *self)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = target_of (self);
  g_autoptr (KubeObject) object = kube_client_get (self->ctx, self->client, &target, &error);
  g_assert_no_error (error);
  StorageLedger *ledger = ledger_store_parse (object, &error);
  g_assert_no_error (error);
  return ledger;
}

static gboolean
confirm (StorageLedger *ledger, gpointer data, GError **error)
{
  storage_ledger_confirm (ledger, "2026-01-01T00:00:00Z", "replica", 0);
  return TRUE;
}

static void
test_missing (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (ledger_store_reserve (self->ctx, self->user, "s", &one, 10, 0, &error));
  g_assert_true (am_error_has_reason (error, "StorageUsageUnknown"));
  g_clear_error (&error);
  g_assert_true (ledger_store_release (self->ctx, self->user, "s", &error));
  g_assert_true (ledger_store_forget (self->ctx, self->user, "uid-1", &error));
  /* What is published is written down, and makes nothing known. */
  g_assert_true (ledger_store_publish (self->ctx, self->maker, &one, NULL, 70, 70, 0, &error));
  g_assert_no_error (error);
  g_assert_false (ledger_store_reserve (self->ctx, self->user, "s", &one, 10, 0, &error));
  g_assert_true (am_error_has_reason (error, "StorageUsageUnknown"));
  g_clear_error (&error);
  g_assert_true (ledger_store_edit (self->ctx, self->maker, confirm, NULL, &error));
  g_assert_true (ledger_store_reserve (self->ctx, self->user, "s", &one, 30, 100, &error));
  g_assert_false (ledger_store_reserve (self->ctx, self->user, "t", &one, 1, 100, &error));
  g_assert_true (am_error_has_reason (error, "InsufficientStorage"));
}

static gpointer
reserve_some (gpointer data)
{
  Fixture *self = data;
  for (guint i = 0; i < N_EACH; i++)
    {
      g_autoptr (GError) error = NULL;
      char id[37];
      text_uuid (id);
      g_assert_true (ledger_store_reserve (self->ctx, self->user, id, &one, 1, 0, &error));
      g_assert_no_error (error);
    }
  return NULL;
}

static void
test_writers (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GThread *threads[N_WRITERS];
  g_assert_true (ledger_store_edit (self->ctx, self->maker, confirm, NULL, &error));
  for (guint i = 0; i < N_WRITERS; i++)
    threads[i] = g_thread_new ("writer", reserve_some, self);
  for (guint i = 0; i < N_WRITERS; i++)
    g_thread_join (threads[i]);
  g_autoptr (StorageLedger) ledger = read_ledger (self);
  g_assert_cmpuint (storage_ledger_usage (ledger).reserved_bytes, ==, N_WRITERS * N_EACH);
}

/* What changes nothing is not written. */
static void
test_nothing_new (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = target_of (self);
  g_assert_true (ledger_store_edit (self->ctx, self->maker, confirm, NULL, &error));
  g_autoptr (KubeObject) before = kube_client_get (self->ctx, self->client, &target, &error);
  g_assert_true (ledger_store_edit (self->ctx, self->maker, confirm, NULL, &error));
  g_assert_true (ledger_store_release (self->ctx, self->user, "none", &error));
  g_autoptr (KubeObject) after = kube_client_get (self->ctx, self->client, &target, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (kube_object_resource_version (before), ==, kube_object_resource_version (after));
}

/* Somebody's edit by hand does not stop the module: the books are begun anew and then counted. */
static void
test_spoilt (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  KubeTarget target = target_of (self);
  g_assert_true (ledger_store_edit (self->ctx, self->maker, confirm, NULL, &error));
  static const char text[] = "{\"data\":{\"ledger.json\":\"{\"}}";
  g_autoptr (yyjson_doc) patch = json_parse (text, strlen (text), 4096, JSON_STRICT, &error);
  g_autoptr (yyjson_mut_doc) doc = yyjson_doc_mut_copy (patch, NULL);
  g_autoptr (KubeObject) spoilt = kube_client_patch (self->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, doc,
                                                     &error);
  g_assert_no_error (error);
  g_assert_false (ledger_store_reserve (self->ctx, self->user, "s", &one, 1, 0, &error));
  g_clear_error (&error);
  g_assert_true (ledger_store_publish (self->ctx, self->maker, &one, NULL, 5, 5, 0, &error));
  g_assert_no_error (error);
  g_autoptr (StorageLedger) ledger = read_ledger (self);
  g_assert_false (storage_ledger_is_confirmed (ledger));
  g_assert_cmpuint (storage_ledger_usage (ledger).used_bytes, ==, 5);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/ledger-live/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("missing", test_missing);
  ADD ("writers", test_writers);
  ADD ("nothing-new", test_nothing_new);
  ADD ("spoilt", test_spoilt);
  return g_test_run ();
}
