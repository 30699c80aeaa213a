/* The objects of one publication worker as documents to create: publication-pipeline.md, "Worker". Pure. Used by
 * model_worker.c. */
#pragma once

#include "cluster/module_objects.h"
#include "controllers/controller_settings.h"

/* Where the worker finds things in its Pod. */
#define WORKER_LOGIN_DIR "/etc/ai-models/registry-login"
#define WORKER_REGISTRY_CA_DIR "/etc/ai-models/registry-ca"
#define WORKER_TOKEN_DIR "/etc/ai-models/source-token"
#define WORKER_SOURCES_CA_DIR "/etc/ai-models/sources-ca"
#define WORKER_ARTIFACTS_CA_DIR "/etc/ai-models/artifacts-ca"
#define WORKER_ARTIFACTS_KEYS_DIR "/etc/ai-models/artifacts-keys"

/* What is to be published. Texts are borrowed. */
typedef struct {
  ModelOwner owner;
  gint64 generation;
  const char *url, *revision; /* a remote source; revision NULL: what the URL says */
  gboolean has_token;         /* the auth Secret is there */
  const char *staged_file;    /* an upload: name of its file in the staging store; url is NULL then */
} WorkerJob;

/* Documents to create; the caller frees them. */
yyjson_mut_doc *worker_pod_document (const ControllerSettings *settings, const WorkerJob *job);
/* get and update of its state Secret and of the books, and of nothing else. */
yyjson_mut_doc *worker_role_document (const ControllerSettings *settings, const ModelOwner *owner);
yyjson_mut_doc *worker_role_binding_document (const ControllerSettings *settings, const ModelOwner *owner);
yyjson_mut_doc *worker_state_document (const ModelOwner *owner, gint64 generation);
/* The source's token, in a Secret of the module's namespace. */
yyjson_mut_doc *worker_auth_document (const ModelOwner *owner, const char *token);
