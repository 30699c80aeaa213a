/* What was found out lately, by name: bounded in size and age; when it is full, all of it is forgotten. Thread-safe. */
#pragma once

#include <glib.h>

typedef struct Recent Recent;
/* `max_age_ms` < 0: as long as there is room. */
Recent *recent_new (gsize max_bytes, gint64 max_age_ms);
void recent_free (Recent *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Recent, recent_free)
/* A reference, or NULL. */
GBytes *recent_get (Recent *self, const char *name);
void recent_put (Recent *self, const char *name, GBytes *value);
void recent_clear (Recent *self);
