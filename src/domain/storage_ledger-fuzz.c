/* Any bytes as the ledger: refused, or books that say the same after writing and reading, and that hold what is put in. */
#include "domain/storage_ledger.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static const LedgerOwner owner = { "Model", "m", "ns", "owner" };
  g_autoptr (StorageLedger) ledger = storage_ledger_parse ((const char *) data, size, NULL);
  if (ledger == NULL)
    return 0;
  gsize written = 0;
  g_autofree char *text = storage_ledger_write (ledger, &written);
  g_autoptr (StorageLedger) again = storage_ledger_parse (text, written, NULL);
  g_assert_nonnull (again);
  LedgerUsage before = storage_ledger_usage (ledger), after = storage_ledger_usage (again);
  g_assert_true (before.used_bytes == after.used_bytes && before.reserved_bytes == after.reserved_bytes);
  g_assert_true (storage_ledger_is_confirmed (ledger) == storage_ledger_is_confirmed (again));
  g_assert_true (storage_ledger_publish (again, &owner, "session", 7, 7, 0, "now", NULL));
  g_assert_cmpuint (storage_ledger_usage (again).used_bytes, >=, 7);
  g_assert_true (storage_ledger_forget (again, "owner"));
  g_assert_false (storage_ledger_forget (again, "owner"));
  return 0;
}
