/* The bytes of one file of a hub, by ranges: finds where the hub has put them (formats-huggingface.md 3.1), goes on after
 * broken connections, and asks again when a signed address has expired. Private to sources/. Thread-safe. */
#pragma once

#include "sources/hf_hub_private.h"

typedef struct HfRemote HfRemote;

HfRemote *hf_remote_new (HfHub *hub, const HfInfo *info, const HfFile *file);
void hf_remote_free (HfRemote *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HfRemote, hf_remote_free)
/* Fills `buffer` with [offset, offset + size) of the file, which the caller knows to be inside of it. Errors as
 * hf_hub_open tells. */
gboolean hf_remote_read (Ctx *ctx, HfRemote *self, guint64 offset_bytes, guint8 *buffer, gsize size, GError **error);
