/* All objects of a kind, kept in memory by one list and then a watch: what controllers read instead of asking. Objects are
 * held as packed text (text_pack.h) without what nobody here reads, and parsed when asked for. Thread-safe. */
#pragma once

#include "kube/kube_client.h"

typedef struct Informer Informer;

/* Adds to `out_values` (an array that frees strings) the values under which an object is found. */
typedef void (*InformerValues) (const KubeObject *object, GPtrArray *out_values);

typedef struct {
  const KubeKind *kind;
  const char *namespace;                       /* NULL: all */
  const char *label_selector, *field_selector; /* or NULL */
  InformerValues index;                        /* or NULL */
  KubeTrim trim;                               /* what of an object nobody reads from here; NULL: all is kept */
  /* Called on the informer's thread, after the cache has changed: `before` is NULL for a new object, `now` for one that
   * is gone. A listing that was missed gives one call with the last state before and the state now. May be NULL. */
  void (*changed) (const KubeObject *before, const KubeObject *now, gpointer data);
  gpointer data;
} InformerConfig;

/* Starts its thread; it ends with the context or informer_free, whichever is first. `client` and the texts of `config`
 * must outlive it. */
Informer *informer_start (Ctx *ctx, KubeClient *client, const InformerConfig *config);
/* Ends the thread and waits for it. */
void informer_free (Informer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Informer, informer_free)

/* Blocks until the first list is in the cache; CANCELLED or DEADLINE_EXCEEDED otherwise. */
gboolean informer_wait (Ctx *ctx, Informer *self, GError **error);
gboolean informer_has_synced (Informer *self);

/* What somebody read from the API server just now, and the cache would hear of by and by. Of the kind and the labels that it was
 * started for. What is known of it and newer, stays. */
void informer_take (Informer *self, const KubeObject *object);
/* NULL when there is none; `namespace` NULL or "" for kinds without. The caller unrefs. */
KubeObject *informer_get (Informer *self, const char *namespace, const char *name);
/* Those the index has under `value`; NULL value: all. Array of KubeObject that unrefs them; caller unrefs it. */
GPtrArray *informer_find (Informer *self, const char *value);
guint informer_count (Informer *self);
/* Calls `func` for each of them, one at a time in memory and without a lock: what comes or goes meanwhile may be left out. */
void informer_each (Informer *self, void (*func) (const KubeObject *object, gpointer data), gpointer data);
