/* Room for the texts of reviews under way: bounded, and shared by those who send them, since nobody vouches for them. Used by
 * workload_webhook.c. Thread-safe; does not block. */
#pragma once

#include "base/error.h"

typedef struct ReviewRoom ReviewRoom;

/* `max_bytes` for all, `max_bytes_per_peer` of it for one. */
ReviewRoom *review_room_new (gsize max_bytes, gsize max_bytes_per_peer);
void review_room_free (ReviewRoom *self); /* after all was given back */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReviewRoom, review_room_free)

/* UNAVAILABLE, with nothing taken, when there is too little for all or for this one. */
gboolean review_room_take (ReviewRoom *self, const char *peer, gsize n_bytes, GError **error);
void review_room_give_back (ReviewRoom *self, const char *peer, gsize n_bytes);
