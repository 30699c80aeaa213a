/* Rereads an artifact, every byte of it, and reports each damaged object rather than the first. */
#pragma once

#include "registry/transfer_events.h"
#include "registry/repository.h"
#include "storage/blob_store.h"

typedef struct {
  char *object; /* "chunk <hex>", "blob sha256:...", "manifest sha256:..." */
  char *file;   /* whose content it is part of; or NULL */
  char *problem;
} Damage;

typedef struct {
  Digest digest; /* of the manifest or index that was named */
  guint n_manifests, n_blobs;
  guint64 n_bytes;
  GPtrArray *damages; /* Damage; empty: all is well */
} VerifyReport;

void verify_report_clear (VerifyReport *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (VerifyReport, verify_report_clear)

/* `blobs` is the local store when the repository is in it: its chunks are then checked one by one where they
 * lie. Otherwise everything is read as a client reads it. TRUE when the check was carried out, whatever it
 * found; `out_report` is cleared by the caller. NOT_FOUND when the named manifest is not there. */
gboolean artifact_verify (Ctx *ctx, Repository *repository, const char *selector, BlobStore *blobs,
                          const TransferEvents *events, VerifyReport *out_report, GError **error);
