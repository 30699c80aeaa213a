/* A list as it comes: each item is handed over when its last byte is there, so that no list is ever in memory whole, however
 * many objects it has. Private to kube/. Belongs to one thread. */
#pragma once

#include "kube/kube_client.h"

typedef struct {
  GByteArray *outside; /* the list without its items */
  GByteArray *item;    /* what has come of one */
  guint depth;         /* of open brackets */
  gboolean in_string, is_escaped, in_items;
  KubeEach each;
  gpointer data;
} KubeListStream;

void kube_list_stream_init (KubeListStream *self, KubeEach each, gpointer data);
void kube_list_stream_clear (KubeListStream *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (KubeListStream, kube_list_stream_clear)
/* Calls the function for each item that is complete; its error ends the list. DATA_LOSS for what is no list of objects,
 * RESOURCE_EXHAUSTED for an item of more than 16 MiB or as much around them. */
gboolean kube_list_stream_feed (KubeListStream *self, gconstpointer data, gsize size, GError **error);
/* After the last byte: the list with no items, for its metadata; DATA_LOSS when it is not whole. */
KubeObject *kube_list_stream_end (KubeListStream *self, GError **error);
