/* What lies in the local store: its models by repository and tag, with their sizes. Used by `list`. */
#pragma once

#include "base/digest.h"
#include "base/error.h"
#include "storage/blob_store.h"

typedef struct {
  char *repository;
  char *tag; /* NULL: a manifest that no tag and no index names */
  Digest digest;
  guint64 logical_bytes, stored_bytes; /* stored: of its own chunks, those it shares with others in full */
  gint64 modified_ms;
  char *problem; /* why its sizes are not the whole truth; NULL when they are */
} StoredModel;

typedef struct {
  GArray *models;       /* StoredModel, by repository, then tag */
  guint64 stored_bytes; /* of all of them, what they share counted once */
} StoreListing;

/* `repository` NULL: all of them. NOT_FOUND (reason NAME_UNKNOWN) when there is none of that name. */
StoreListing *store_listing_new (Ctx *ctx, BlobStore *blobs, const char *repository, gboolean with_sizes,
                                 GError **error);
StoreListing *store_listing_new_empty (void);
void store_listing_free (StoreListing *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (StoreListing, store_listing_free)
