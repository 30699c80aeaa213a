/* The file that says that a place is a store, and the version of its format. For the adapters of the object store; its
 * name is no key of the port. Pure. */
#pragma once

#include "base/error.h"

#define STORE_MARKER "ai-models-store.json"
#define STORE_MARKER_TEXT "{\"format\":\"ai-models-store\",\"version\":1}\n"
#define STORE_MARKER_LIMIT_BYTES 4096

/* FAILED_PRECONDITION unless the marker's text is one that this program understands. `name` and `place` are for the
 * message. */
gboolean store_marker_check (GBytes *text, const char *name, const char *place, GError **error);
