/* What the parts of the controller share: its own state, and one look at one Model or ClusterModel. Private to this folder. */
#pragma once

#include "cluster/cleanup_state.h"
#include "cluster/ledger_store.h"
#include "cluster/model_upload.h"
#include "cluster/worker_state.h"
#include "controllers/model_controller.h"
#include "controllers/source_spec.h"
#include "controllers/status_document.h"
#include "controllers/worker_restarts.h"
#include "controllers/worker_sight.h"
#include "controllers/worker_slots.h"
#include "domain/model_step.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "kube/work_queue.h"

#define UNSEEN_AGAIN_MS 5000 /* what the caches do not show yet comes as a change; in case it does not */

typedef struct {
  gboolean is_present, is_known; /* the books are there; and confirmed */
  LedgerUsage usage;
} LedgerSight;

struct ModelController {
  Ctx *ctx;
  KubeClient *client;
  const ControllerSettings *settings;
  EventRecorder *events;
  LedgerStore *ledger_store;
  Informer *models, *cluster_models, *pods, *secrets, *ledger;
  WorkQueue *queue;
  WorkerSlots *slots;
  gint is_leading;
  GMutex listener_lock; /* of the next two */
  ModelChanged listener;
  gpointer listener_data;
  gint inventory_is_due; /* something changed that the books have to follow */

  GMutex lock; /* of what follows */
  LedgerSight books;
  GHashTable *awaits_usage; /* keys */
  GHashTable *n_failures;   /* key -> in a row, of steps that wait for long between two tries */
  GHashTable *orphans;      /* key -> set of uids */
  GHashTable *admitted;     /* uids of workers' Pods that were let begin, though the caches may not show it */
  GHashTable *damaged;      /* uid -> what is wrong with its artifact, until that is written down */
  gboolean inventory_is_healthy;
  gint64 inventory_success_s; /* Unix time; 0: never */
};

/* One look at one object, and what follows from it. Objects are references, texts owned unless said otherwise. */
typedef struct {
  Ctx *ctx;
  ModelController *controller;
  const char *key;      /* in the queue */
  const KubeKind *kind; /* of the object */
  KubeObject *object;
  gboolean is_live; /* the object came from the API server, not from the cache */
  ModelOwner owner; /* borrowed from the object */

  KubeObject *pod, *state_secret, *auth_secret, *session_secret, *cleanup_secret;
  SourceSpec source;
  WorkerSight worker;
  WorkerState progress;
  WorkerRestarts restarts;
  ModelUpload *upload;
  char *token; /* of the source, when it names a Secret */

  ModelView view;
  char *message;           /* what is awaited or wrong, for people; NULL: the situation says enough */
  char *fail_message;      /* why it fails; NULL: what the source, the upload or the worker says */
  const char *fail_reason; /* static, or the worker's */
  gint64 again_ms;         /* look again then even though nothing changes; 0: no need */
} ModelWork;

/* model_observe.c: fills everything of `work` that belongs to its object; may be called again after the object was replaced.
 * FALSE with an error of the API server. */
gboolean model_observe (ModelWork *work, GError **error);
void model_work_clear (ModelWork *work);
/* Takes a newer state of the object; nothing else is looked at anew. Takes the reference. */
void model_work_replace (ModelWork *work, KubeObject *object);

/* model_act.c: one step. `*out_is_done` is FALSE when the object should be looked at again at once. */
gboolean model_act (ModelWork *work, const ModelDecision *decision, gboolean *out_is_done, GError **error);
/* Writes the status unless it says so already. */
gboolean model_write_status (ModelWork *work, const StatusWish *wish, GError **error);
/* What the situation needs of the work. */
StatusWish model_status_wish (const ModelWork *work, const ModelDecision *decision);

/* model_worker.c */
gboolean model_start_worker (ModelWork *work, gboolean *out_started, GError **error);
/* Lets the worker whose Pod is there begin. */
gboolean model_admit_worker (ModelWork *work, GError **error);
/* Whether it was, as far as is known here. */
gboolean model_is_admitted (const ModelWork *work);
void model_forget_admission (ModelController *self, const KubeObject *pod);
/* Keeps that the worker was interrupted and, once the caches show it, removes its Pod, so that another is started after the pause
 * of worker_restarts.h. */
gboolean model_restart_worker (ModelWork *work, GError **error);
/* Removes the Pod; the rest once that is gone. `*out_is_gone`: nothing of it is left. */
gboolean model_remove_worker (Ctx *ctx, ModelController *self, const ModelOwner *owner, const KubeObject *pod,
                              gboolean *out_is_gone, GError **error);

/* model_publication.c */
gboolean model_take_result (ModelWork *work, GError **error);
/* Notes that the artifact is damaged, unless a look at the API server shows that it is not. */
gboolean model_publish_again (ModelWork *work, gboolean *out_is_lost, GError **error);
/* The artifact, the books and the cleanup state. */
gboolean model_release (Ctx *ctx, ModelController *self, const ModelOwner *owner, const KubeObject *cleanup,
                        GError **error);

/* model_upload_session.c */
gboolean model_issue_upload (ModelWork *work, GError **error);
gboolean model_start_upload (ModelWork *work, GError **error); /* its file is being published */
/* Session, token, Role, and what was staged. */
gboolean model_remove_upload (Ctx *ctx, ModelController *self, const ModelOwner *owner, GError **error);
/* "ai-model-upload-token-<uid>"; caller frees. */
char *model_upload_secret_name (const ModelOwner *owner);

/* model_orphans.c: what is left of owners that no longer exist. */
GHashTable *model_orphans_new (void);
void model_queue_orphans (ModelController *self);
/* Queues what belongs to an owner that is gone: under its key, so that nobody is at work on the owner meanwhile. */
void model_queue_orphan (ModelController *self, const ModelOwner *owner);
/* Those that are queued under this key; `named` is what the key says, its uid is not looked at. `*out_again_ms` is set when
 * more is to be done then. */
gboolean model_reconcile_orphans (Ctx *ctx, ModelController *self, const char *key, const ModelOwner *named,
                                  gint64 *out_again_ms, GError **error);

/* inventory.c and artifact_sweep.c: threads of the leader, until `term` ends. */
void inventory_run (Ctx *term, ModelController *self);
void artifact_sweep_run (Ctx *term, ModelController *self);

/* Creates an object; fine when it is there already, then `*out_existed` (may be NULL) is TRUE. */
gboolean model_create (Ctx *ctx, ModelController *self, const KubeKind *kind, const char *namespace,
                       yyjson_mut_doc *doc, gboolean *out_existed, GError **error);
/* Deletes by name; fine when it is not there. */
gboolean model_delete (Ctx *ctx, ModelController *self, const KubeKind *kind, const char *namespace,
                       const char *prefix, const char *uid, GError **error);
/* The pause after another failure of a step that is not hurried: 5 s, doubled up to 5 minutes, until
 * model_forget_failures. */
gint64 model_next_pause_ms (ModelController *self, const char *key);
void model_forget_failures (ModelController *self, const char *key);
void model_say (ModelWork *work, EventSeverity severity, const char *reason, const char *format, ...)
  G_GNUC_PRINTF (4, 5);
