/* The books of the artifact store: what is published, what is reserved, and whether more fits; storage-accounting.md. Pure:
 * the ledger is a value that a caller reads, changes and writes back under its version; unchanged, it is written as it was
 * read. More than 2,000 artifacts are written in a short form, without names, of which a ConfigMap holds about 13,000. Used by the controller, the worker
 * and the upload gateway. Belongs to one thread. */
#pragma once

#include "base/error.h"
#include "base/json.h"

#define STORAGE_LEDGER_MAX_BYTES (1024 * 1024) /* what a ConfigMap holds */

typedef struct StorageLedger StorageLedger;

/* Whose bytes they are. */
typedef struct {
  const char *kind, *name, *namespace, *uid; /* namespace NULL for a ClusterModel */
} LedgerOwner;

StorageLedger *storage_ledger_new (void); /* empty and unconfirmed */
/* INVALID_ARGUMENT for what is no ledger, FAILED_PRECONDITION for one of a later version; members nobody knows survive
 * writing. */
StorageLedger *storage_ledger_parse (const char *text, gsize size, GError **error);
char *storage_ledger_write (StorageLedger *self, gsize *out_size);
void storage_ledger_free (StorageLedger *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (StorageLedger, storage_ledger_free)

/* Usage is known only of a confirmed ledger. `at` is RFC 3339, `by` names the replica. */
gboolean storage_ledger_is_confirmed (const StorageLedger *self);
void storage_ledger_confirm (StorageLedger *self, const char *at, const char *by, guint n_artifacts);

typedef struct {
  guint64 used_bytes, reserved_bytes;
} LedgerUsage;

/* Sums, capped at G_MAXUINT64. */
LedgerUsage storage_ledger_usage (const StorageLedger *self);

/* Sets aside `size_bytes` (not 0) under `id`, in place of what it had. RESOURCE_EXHAUSTED (reason InsufficientStorage) with
 * the numbers when that would pass `limit_bytes` (0: no limit); UNAVAILABLE (reason StorageUsageUnknown) while the ledger
 * is not confirmed. `at` is RFC 3339. */
gboolean storage_ledger_reserve (StorageLedger *self, const char *id, const LedgerOwner *owner, guint64 size_bytes,
                                 guint64 limit_bytes, const char *at, GError **error);
/* An artifact is stored: takes the place of the owner's earlier one and of its reservations, those under `session` (or
 * NULL) too. Checked against the limit as above; works on an unconfirmed ledger. */
gboolean storage_ledger_publish (StorageLedger *self, const LedgerOwner *owner, const char *session,
                                 guint64 size_bytes, guint64 logical_bytes, guint64 limit_bytes, const char *at,
                                 GError **error);

typedef struct {
  LedgerOwner owner;
  guint64 size_bytes, logical_bytes;
} LedgerArtifact;
/* What is known to be stored, whatever the limit: entries that are missing or of another size are written anew. How many. */
guint storage_ledger_record (StorageLedger *self, const LedgerArtifact *artifacts, gsize n, const char *at);

/* Nothing is set aside under `id` any more; whether there was. */
gboolean storage_ledger_release (StorageLedger *self, const char *id);
/* Nothing of the owner is counted any more, reservations included; whether there was. */
gboolean storage_ledger_forget (StorageLedger *self, const char *owner_uid);

typedef gboolean (*LedgerKeeps) (const char *owner_uid, gpointer data);
/* Drops what belongs to owners that `keeps` does not know: artifacts, or reservations. The number of entries dropped. */
guint storage_ledger_drop_artifacts (StorageLedger *self, LedgerKeeps keeps, gpointer data);
guint storage_ledger_drop_reservations (StorageLedger *self, LedgerKeeps keeps, gpointer data);

/* Would it fit? The words of "Download verdict". */
typedef enum { LEDGER_FEASIBLE, LEDGER_NOT_FEASIBLE, LEDGER_ESTIMATE_UNAVAILABLE } LedgerVerdict;
/* `self` NULL: accounting is off or the ledger is missing; `size_bytes` 0: not known. */
LedgerVerdict storage_ledger_verdict (const StorageLedger *self, guint64 size_bytes, guint64 limit_bytes);
