/* The lines of a watch's answer, put together from pieces and read. Private to kube/. Belongs to one thread. */
#pragma once

#include "kube/kube_client.h"

typedef struct {
  GByteArray *line;
  KubeWatchFunc func;
  gpointer data;
} KubeWatchStream;

void kube_watch_stream_init (KubeWatchStream *self, KubeWatchFunc func, gpointer data);
void kube_watch_stream_clear (KubeWatchStream *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (KubeWatchStream, kube_watch_stream_clear)
/* Calls the function for each event that is complete. An ERROR event is an error as kube_fail makes it; DATA_LOSS for
 * what is no event, RESOURCE_EXHAUSTED for a line of more than 16 MiB. */
gboolean kube_watch_stream_feed (KubeWatchStream *self, gconstpointer data, gsize size, GError **error);
