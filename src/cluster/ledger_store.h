/* The books of the artifact store where all parts of the module find them: a ConfigMap, read, changed and written back under
 * its version (storage-accounting.md, "Ledger"). Used by controllers/, publish/ and gateway/. Thread-safe; calls block on
 * the API server. */
#pragma once

#include "domain/storage_ledger.h"
#include "kube/kube_client.h"

typedef struct LedgerStore LedgerStore;

/* `makes_missing`: a ConfigMap that is not there is made, unconfirmed; the right of the controller alone. Borrows `client`,
 * copies the texts. */
LedgerStore *ledger_store_new (KubeClient *client, const char *namespace, const char *name, gboolean makes_missing);
void ledger_store_free (LedgerStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LedgerStore, ledger_store_free)

/* The books in an object; errors of storage_ledger_parse, INVALID_ARGUMENT when there are none in it. */
StorageLedger *ledger_store_parse (const KubeObject *config_map, GError **error);

/* Changes the books; called again on newer ones when another writer was faster. */
typedef gboolean (*LedgerEdit) (StorageLedger *ledger, gpointer data, GError **error);
/* Reads, edits, writes if that changed anything. Errors: the edit's, the client's; ABORTED when other writers were faster
 * again and again, NOT_FOUND when there are no books and this one does not make them, RESOURCE_EXHAUSTED when they
 * outgrow a ConfigMap. Books that cannot be read are begun anew, unconfirmed, by who may make them. */
gboolean ledger_store_edit (Ctx *ctx, LedgerStore *self, LedgerEdit edit, gpointer data, GError **error);

/* The edits of storage_ledger.h, now. Missing books: reserving is UNAVAILABLE (reason StorageUsageUnknown), releasing and
 * forgetting have nothing to do. */
gboolean ledger_store_reserve (Ctx *ctx, LedgerStore *self, const char *id, const LedgerOwner *owner,
                               guint64 size_bytes, guint64 limit_bytes, GError **error);
gboolean ledger_store_publish (Ctx *ctx, LedgerStore *self, const LedgerOwner *owner, const char *session,
                               guint64 size_bytes, guint64 logical_bytes, guint64 limit_bytes, GError **error);
gboolean ledger_store_release (Ctx *ctx, LedgerStore *self, const char *id, GError **error);
gboolean ledger_store_forget (Ctx *ctx, LedgerStore *self, const char *owner_uid, GError **error);
