/* Requests to the API server: one multiplexed connection for all of them, and one of its own for each list and watch. Used by the
 * controllers, informers and leases above it. Thread-safe; every call blocks up to the context's deadline, or 60 s. */
#pragma once

#include "base/ctx.h"
#include "kube/kube_config.h"
#include "kube/kube_kind.h"
#include "kube/kube_object.h"

typedef struct KubeClient KubeClient;

KubeClient *kube_client_new (const KubeConfig *config, GError **error);
void kube_client_free (KubeClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (KubeClient, kube_client_free)

/* What a request is about. */
typedef struct {
  const KubeKind *kind;
  const char *namespace;   /* NULL: all, or a kind without */
  const char *name;        /* NULL: the collection */
  const char *subresource; /* "status"; NULL: the object */
} KubeTarget;

/* Errors of all of them are those of kube_fail (kube_error.h), of http_client_call where no answer came, and DATA_LOSS
 * for an answer that is no object. The message begins with verb, kind, namespace and name. */
KubeObject *kube_client_get (Ctx *ctx, KubeClient *self, const KubeTarget *target, GError **error);
/* The same for one that need not be there: then TRUE, and NULL in `out_object`, which the caller unrefs. */
gboolean kube_client_find (Ctx *ctx, KubeClient *self, const KubeTarget *target, KubeObject **out_object,
                           GError **error);
/* The object as stored. ALREADY_EXISTS may be told of an object that an earlier attempt made whose answer was lost. */
KubeObject *kube_client_create (Ctx *ctx, KubeClient *self, const KubeTarget *target, yyjson_mut_doc *object,
                                GError **error);
/* The same for one that may be there already, whatever it is: TRUE too, and then `*out_existed` (may be NULL). */
gboolean kube_client_ensure (Ctx *ctx, KubeClient *self, const KubeTarget *target, yyjson_mut_doc *object,
                             gboolean *out_existed, GError **error);
/* ABORTED (reason Conflict) when `object` names a resourceVersion that is no longer the newest. */
KubeObject *kube_client_update (Ctx *ctx, KubeClient *self, const KubeTarget *target, yyjson_mut_doc *object,
                                GError **error);

typedef enum {
  KUBE_PATCH_MERGE, /* RFC 7386 */
  KUBE_PATCH_JSON,  /* RFC 6902 */
  KUBE_PATCH_APPLY, /* server-side apply as `field_manager`, taking over fields of others */
} KubePatch;

KubeObject *kube_client_patch (Ctx *ctx, KubeClient *self, const KubeTarget *target, KubePatch type,
                               const char *field_manager, yyjson_mut_doc *patch, GError **error);

typedef struct {
  const char *uid, *resource_version; /* preconditions, or NULL: ABORTED when the object has others */
  const char *propagation;            /* "Background" (as when NULL), "Foreground", "Orphan" */
  gint64 grace_period_s;              /* negative: the object's own */
} KubeDeleteOptions;

/* TRUE also when it is already gone. `options` may be NULL. */
gboolean kube_client_delete (Ctx *ctx, KubeClient *self, const KubeTarget *target, const KubeDeleteOptions *options,
                             GError **error);

typedef struct {
  const char *label_selector, *field_selector; /* or NULL */
  guint page_size;                             /* 0: 500 */
  gboolean
    may_lag; /* from the API server's memory, in one page and cheaper; a little behind where there are several servers */
} KubeListOptions;

/* Called for each object as it comes, on the caller's thread; FALSE with an error ends the listing. */
typedef gboolean (*KubeEach) (KubeObject *object, gpointer data, GError **error);
/* A consistent list, page by page; `out_resource_version` (may be NULL, caller frees) is what a watch continues from.
 * OUT_OF_RANGE (reason Expired) when the server forgot the list between two pages: start anew. */
gboolean kube_client_list (Ctx *ctx, KubeClient *self, const KubeTarget *target, const KubeListOptions *options,
                           KubeEach each, gpointer data, char **out_resource_version, GError **error);

typedef enum { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED, KUBE_BOOKMARK } KubeEventType;

typedef struct {
  const char *label_selector, *field_selector; /* or NULL */
  const char *resource_version;                /* where to begin */
  guint timeout_s;                             /* the server ends the watch after so long; 0: 300 */
} KubeWatchOptions;

typedef gboolean (*KubeWatchFunc) (KubeEventType type, KubeObject *object, gpointer data, GError **error);
/* Calls `func` on this thread for each event until the server ends the watch (TRUE), `func` fails, or the watch does:
 * OUT_OF_RANGE (reason Expired) when events since resource_version are forgotten. Bookmarks are asked for; their object
 * has a resourceVersion and little else. */
gboolean kube_client_watch (Ctx *ctx, KubeClient *self, const KubeTarget *target, const KubeWatchOptions *options,
                            KubeWatchFunc func, gpointer data, GError **error);

/* Where a new object without a name of its own goes; the configuration's. */
const char *kube_client_namespace (const KubeClient *self);
