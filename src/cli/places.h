/* Port: how the commands reach the local store and registries. main/ makes it: it alone names the adapters. */
#pragma once

#include "registry/repository.h"
#include "storage/blob_store.h"

/* The local store: both parts belong to it. */
typedef struct {
  ObjectStore *objects;
  BlobStore *blobs;
} LocalStore;

void local_store_free (LocalStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LocalStore, local_store_free)

typedef struct {
  const char *host; /* "registry.example:5000" */
  gboolean plain_http, insecure_skip_verify;
  const char *ca_file, *username, *password; /* or NULL */
  const char *resume_dir;                    /* where interrupted pushes are remembered; or NULL */
} RegistryAccess;

typedef struct {
  /* A directory, NOT_FOUND when there is none and `create` is not set, or the URL of a bucket (storage/s3_config.h). */
  LocalStore *(*open_store) (const char *place, gboolean create, GError **error);
  Repository *(*open_local) (BlobStore *blobs, const char *name, GError **error);
  Repository *(*open_remote) (const RegistryAccess *access, const char *name, GError **error);
} Places;
