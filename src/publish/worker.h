/* The publication worker: what runs in the Pod that the controller starts for one model. It opens the source, chooses and
 * checks files, sets room aside in the books, moves the files into the module's registry, reads the artifact back, and leaves
 * its result in the termination message (cluster/worker_result.h). What passes, it waits out and tells of in its state;
 * killed at any moment, it goes on in another Pod. Used by `publish` (main/publish_applet.c). */
#pragma once

#include "cluster/module_objects.h"
#include "kube/kube_client.h"
#include "registry/push_notes.h"
#include "registry/repository.h"
#include "storage/object_store.h"

/* Where the model is to go; the login's texts are valid for the call. */
typedef struct {
  const char *host; /* "dmcr.d8-ai-models.svc" */
  gboolean plain_http;
  const char *ca_file, *username, *password; /* or NULL */
  const PushNotes *notes;
} WorkerRegistry;

/* Port: the concrete adapters, which main/ names. */
typedef struct {
  Repository *(*open_registry) (const WorkerRegistry *registry, const char *repository, GError **error);
  ObjectStore *(*open_store) (Ctx *ctx, const char *url, GError **error);
} WorkerPlaces;

/* The command line, as texts that outlive the worker; NULL: not given. */
typedef struct {
  ModelOwner owner;
  gint64 owner_generation;
  const char *source_url, *revision, *token_file;
  const char *staged_file, *staging_store, *staging_keys_dir;
  const char *registry_host, *registry_ca_file, *registry_login_dir;
  gboolean registry_plain_http;
  const char *repository, *namespace;
  const char *accounting; /* the books' ConfigMap; NULL: there are no books */
  guint64 capacity_limit_bytes;
  const char *termination_file;
} WorkerOrder;

/* Blocks until the model is stored, cannot be, or `ctx` is cancelled. TRUE only with a result; otherwise the error that is in
 * the termination message too, or why that could not be written. */
gboolean worker_run (Ctx *ctx, const WorkerOrder *order, KubeClient *client, const WorkerPlaces *places,
                     GError **error);
