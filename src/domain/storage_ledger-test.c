#include "domain/storage_ledger.h"

#include <string.h>

#define AT "2026-01-01T00:00:00Z"

static const LedgerOwner one = { "Model", "one", "ns", "uid-1" };
static const LedgerOwner two = { "ClusterModel", "two", NULL, "uid-2" };

static StorageLedger *
confirmed (void)
{
  StorageLedger *ledger = storage_ledger_new ();
  storage_ledger_confirm (ledger, AT, "replica-1", 0);
  return ledger;
}

static void
assert_usage (StorageLedger *ledger, guint64 used, guint64 reserved)
{
  /* As another process reads it. */
  gsize size = 0;
  g_autoptr (GError) error = NULL;
  g_autofree char *text = storage_ledger_write (ledger, &size);
  g_autoptr (StorageLedger) again = storage_ledger_parse (text, size, &error);
  g_assert_no_error (error);
  LedgerUsage usage = storage_ledger_usage (again);
  g_assert_cmpuint (usage.used_bytes, ==, used);
  g_assert_cmpuint (usage.reserved_bytes, ==, reserved);
}

static gboolean
reserve (StorageLedger *ledger, const char *id, const LedgerOwner *owner, guint64 size, guint64 limit, GError **error)
{
  return storage_ledger_reserve (ledger, id, owner, size, limit, AT, error);
}

static void
test_life (void)
{
  g_autoptr (StorageLedger) ledger = confirmed ();
  g_autoptr (GError) error = NULL;
  g_assert_true (reserve (ledger, "session", &one, 100, 1000, &error));
  g_assert_true (reserve (ledger, "session", &one, 300, 1000, &error)); /* in place of the 100 */
  g_assert_true (reserve (ledger, "uid-2", &two, 700, 1000, &error));
  assert_usage (ledger, 0, 1000);
  g_assert_false (reserve (ledger, "more", &two, 1, 1000, &error));
  g_assert_true (am_error_has_reason (error, "InsufficientStorage"));
  g_assert_cmpstr (error->message, ==,
                   "artifact storage capacity exceeded: requested=1 available=0 used=0 reserved=1000 limit=1000");
  g_clear_error (&error);
  g_assert_true (storage_ledger_publish (ledger, &one, "session", 250, 300, 1000, AT, &error));
  assert_usage (ledger, 250, 700);
  g_assert_true (storage_ledger_publish (ledger, &one, NULL, 260, 300, 1000, AT, &error)); /* published again */
  assert_usage (ledger, 260, 700);
  g_assert_true (storage_ledger_release (ledger, "uid-2"));
  g_assert_false (storage_ledger_release (ledger, "uid-2"));
  assert_usage (ledger, 260, 0);
  g_assert_true (storage_ledger_forget (ledger, "uid-1"));
  g_assert_false (storage_ledger_forget (ledger, "uid-1"));
  assert_usage (ledger, 0, 0);
}

static void
test_limits (void)
{
  static const struct {
    guint64 size, limit;
    gboolean fits;
  } rows[] = {
    { 400, 1000, TRUE },      { 401, 1000, FALSE }, { G_MAXUINT64, 1000, FALSE }, { G_MAXUINT64, 0, TRUE },
    { 1, 600, FALSE },        { 1, 500, FALSE }, /* the limit was lowered below what is stored */
    { 1, G_MAXUINT64, TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (StorageLedger) ledger = confirmed ();
      g_autoptr (GError) error = NULL;
      g_assert_true (storage_ledger_publish (ledger, &one, NULL, 500, 500, 0, AT, &error));
      g_assert_true (reserve (ledger, "r", &one, 100, 0, &error));
      LedgerVerdict verdict = storage_ledger_verdict (ledger, rows[i].size, rows[i].limit);
      g_assert_cmpint (verdict, ==, rows[i].fits ? LEDGER_FEASIBLE : LEDGER_NOT_FEASIBLE);
      g_assert_cmpint (reserve (ledger, "x", &two, rows[i].size, rows[i].limit, &error), ==, rows[i].fits);
    }
  g_autoptr (StorageLedger) ledger = confirmed ();
  g_autoptr (GError) error = NULL;
  g_assert_false (reserve (ledger, "x", &one, 0, 0, &error));
  g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
  g_assert_true (reserve (ledger, "x", &one, G_MAXUINT64, 0, NULL) && reserve (ledger, "y", &one, 5, 0, NULL));
  assert_usage (ledger, 0, G_MAXUINT64);
}

/* Nobody may take a ledger that was lost and begun anew for an empty store. */
static void
test_unconfirmed (void)
{
  g_autoptr (StorageLedger) ledger = storage_ledger_new ();
  g_autoptr (GError) error = NULL;
  g_assert_false (reserve (ledger, "x", &one, 1, 0, &error));
  g_assert_true (am_error_has_reason (error, "StorageUsageUnknown"));
  g_assert_true (storage_ledger_publish (ledger, &one, NULL, 5, 5, 1000, AT, NULL));
  g_assert_false (storage_ledger_is_confirmed (ledger));
  g_assert_cmpint (storage_ledger_verdict (ledger, 1, 1000), ==, LEDGER_ESTIMATE_UNAVAILABLE);
  g_assert_cmpint (storage_ledger_verdict (NULL, 1, 1000), ==, LEDGER_ESTIMATE_UNAVAILABLE);
  storage_ledger_confirm (ledger, AT, "replica-1", 1);
  g_assert_cmpint (storage_ledger_verdict (ledger, 0, 1000), ==, LEDGER_ESTIMATE_UNAVAILABLE);
  g_assert_cmpint (storage_ledger_verdict (ledger, 1, 1000), ==, LEDGER_FEASIBLE);
  assert_usage (ledger, 5, 0);
}

static gboolean
is_two (const char *owner_uid, gpointer data)
{
  return strcmp (owner_uid, "uid-2") == 0;
}

static void
test_inventory (void)
{
  g_autoptr (StorageLedger) ledger = confirmed ();
  g_assert_true (storage_ledger_publish (ledger, &one, NULL, 10, 10, 0, AT, NULL));
  g_assert_true (storage_ledger_publish (ledger, &two, NULL, 20, 20, 0, AT, NULL));
  g_assert_true (reserve (ledger, "a", &one, 1, 0, NULL) && reserve (ledger, "b", &two, 2, 0, NULL)
                 && reserve (ledger, "c", &one, 4, 0, NULL));
  g_assert_cmpuint (storage_ledger_drop_artifacts (ledger, is_two, NULL), ==, 1);
  assert_usage (ledger, 20, 7);
  g_assert_cmpuint (storage_ledger_drop_reservations (ledger, is_two, NULL), ==, 2);
  assert_usage (ledger, 20, 2);
}

static void
test_texts (void)
{
  static const struct {
    const char *text;
    AmErrorCode code; /* 0: good */
    gboolean is_confirmed;
  } rows[] = {
    { "{\"version\":2}", 0, FALSE },
    { "{\"version\":2,\"confirmed\":{\"at\":\"x\"}}", 0, TRUE },
    { "{\"version\":2,\"confirmed\":{}}", 0, FALSE },
    { "{\"version\":1,\"confirmed\":{\"at\":\"x\"}}", 0, FALSE },
    { "{\"version\":3}", AM_ERROR_FAILED_PRECONDITION, FALSE },
    { "{}", AM_ERROR_INVALID_ARGUMENT, FALSE },
    { "[]", AM_ERROR_INVALID_ARGUMENT, FALSE },
    { "", AM_ERROR_INVALID_ARGUMENT, FALSE },
    { "{\"version\":2,\"published\":[]}", AM_ERROR_INVALID_ARGUMENT, FALSE },
    { "{\"version\":2,\"published\":{\"a\":{\"sizeBytes\":1}}}", AM_ERROR_INVALID_ARGUMENT, FALSE },
    { "{\"version\":2,\"published\":{\"a\":{\"sizeBytes\":-1,\"owner\":{\"uid\":\"u\"}}}}", AM_ERROR_INVALID_ARGUMENT,
      FALSE },
    { "{\"version\":2,\"reservations\":{\"a\":{\"sizeBytes\":1.5,\"owner\":{\"uid\":\"u\"}}}}",
      AM_ERROR_INVALID_ARGUMENT, FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (StorageLedger) ledger = storage_ledger_parse (rows[i].text, strlen (rows[i].text), &error);
      g_assert_cmpint (error != NULL ? error->code : 0, ==, rows[i].code);
      if (ledger != NULL)
        g_assert_cmpint (storage_ledger_is_confirmed (ledger), ==, rows[i].is_confirmed);
    }
  static const char later[]
    = "{\"version\":2,\"new\":{\"a\":1},\"published\":{\"u\":{\"sizeBytes\":1,\"owner\":{\"uid\":\"u\"},\"x\":2}}}";
  g_autoptr (StorageLedger) ledger = storage_ledger_parse (later, strlen (later), NULL);
  g_autofree char *text = storage_ledger_write (ledger, NULL);
  g_assert_nonnull (strstr (text, "\"new\":{\"a\":1}"));
  g_assert_nonnull (strstr (text, "\"x\":2"));
}

/* What is read and not changed is written as it was: nobody else's write is undone for nothing. */
static void
test_same_text (void)
{
  g_autoptr (StorageLedger) ledger = confirmed ();
  g_autoptr (GError) error = NULL;
  g_assert_true (reserve (ledger, "session", &two, 100, 0, &error));
  g_assert_true (storage_ledger_publish (ledger, &one, NULL, 250, 300, 0, AT, &error));
  g_autofree char *text = storage_ledger_write (ledger, NULL);
  g_autoptr (StorageLedger) again = storage_ledger_parse (text, strlen (text), &error);
  g_assert_no_error (error);
  storage_ledger_confirm (again, AT, "replica-1", 0);
  g_assert_true (reserve (again, "session", &two, 100, 0, &error));
  g_autofree char *same = storage_ledger_write (again, NULL);
  g_assert_cmpstr (same, ==, text);
}

static void
test_record (void)
{
  g_autoptr (StorageLedger) ledger = confirmed ();
  const LedgerArtifact artifacts[] = { { one, 10, 20 }, { two, 30, 30 } };
  g_assert_cmpuint (storage_ledger_record (ledger, artifacts, 2, AT), ==, 2);
  g_assert_cmpuint (storage_ledger_record (ledger, artifacts, 2, AT), ==, 0);
  assert_usage (ledger, 40, 0);
  const LedgerArtifact grown = { one, 15, 20 };
  g_assert_cmpuint (storage_ledger_record (ledger, &grown, 1, AT), ==, 1);
  assert_usage (ledger, 45, 0);
}

#define N_MANY 12000

/* Many artifacts fit into a ConfigMap, and are the same when they come back. */
static void
test_many (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (StorageLedger) ledger = confirmed ();
  g_autoptr (GPtrArray) uids = g_ptr_array_new_with_free_func (g_free);
  g_autofree LedgerArtifact *artifacts = g_new0 (LedgerArtifact, N_MANY);
  for (guint i = 0; i < N_MANY; i++)
    {
      g_ptr_array_add (uids, g_strdup_printf ("0b5d1f6e-4a3c-4c1e-9d53-%012u", i));
      artifacts[i] = (LedgerArtifact){ { "Model", "a-name-of-usual-length", "a-namespace", uids->pdata[i] },
                                       90000000000 + i,
                                       90000000000 + i };
    }
  g_assert_cmpuint (storage_ledger_record (ledger, artifacts, N_MANY, AT), ==, N_MANY);
  gsize size = 0;
  g_autofree char *text = storage_ledger_write (ledger, &size);
  g_assert_cmpuint (size, <, STORAGE_LEDGER_MAX_BYTES);
  g_autoptr (StorageLedger) again = storage_ledger_parse (text, size, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (storage_ledger_usage (again).used_bytes, ==, storage_ledger_usage (ledger).used_bytes);
  g_assert_cmpuint (storage_ledger_record (again, artifacts, N_MANY, AT), ==, 0);
  g_autofree char *same = storage_ledger_write (again, NULL);
  g_assert_cmpstr (same, ==, text);
  g_assert_true (storage_ledger_forget (again, uids->pdata[7]));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/storage-ledger/life", test_life);
  g_test_add_func ("/storage-ledger/limits", test_limits);
  g_test_add_func ("/storage-ledger/unconfirmed", test_unconfirmed);
  g_test_add_func ("/storage-ledger/inventory", test_inventory);
  g_test_add_func ("/storage-ledger/texts", test_texts);
  g_test_add_func ("/storage-ledger/same-text", test_same_text);
  g_test_add_func ("/storage-ledger/record", test_record);
  g_test_add_func ("/storage-ledger/many", test_many);
  return g_test_run ();
}
