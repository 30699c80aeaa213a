/* DMCR: the OCI registry over a blob store. OCI distribution-spec 1.1, plus the chunk wire between our own
 * programs (storage.md). One object serves one listening address; several processes may serve one store. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"
#include "storage/blob_store.h"

typedef struct Dmcr Dmcr;

typedef struct {
  const char *listen_address;
  const char *tls_certificate_file, *tls_key_file; /* both or none */
  const char *htpasswd_file;                       /* "user:bcrypt hash" lines; or */
  const char *plain_users_file; /* "user:password" lines; neither: everybody may do what anonymous may */
  const char *const *writers;   /* users who may push and delete, NULL-terminated; NULL: "ai-models" */
  gboolean anonymous_read;      /* GET and HEAD without credentials */
  gboolean anonymous_write;
  const char *grant_salt_file;  /* takes read grants that are signed with the secret in it; or NULL */
  gboolean accept_sparse_manifests; /* take manifests whose blobs are missing */
  guint max_connections;            /* 0: the HTTP server's default */
  guint max_connections_per_peer;   /* 0: likewise */
} DmcrConfig;

/* Starts serving. Borrows `blobs`; copies the configuration. INVALID_ARGUMENT for a bad configuration,
 * UNAVAILABLE when the address cannot be bound. */
Dmcr *dmcr_start (Ctx *ctx, const DmcrConfig *config, BlobStore *blobs, GError **error);
guint16 dmcr_port (Dmcr *self);
/* Lets running requests end and saves the state of uploads that cannot. */
void dmcr_drain (Dmcr *self);
void dmcr_free (Dmcr *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Dmcr, dmcr_free)
