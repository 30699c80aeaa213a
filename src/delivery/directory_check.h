/* Whether a directory holds exactly the files of an artifact: names, sizes, digests, and nothing else. */
#pragma once

#include "delivery/artifact.h"
#include "registry/transfer_events.h"

/* An artifact with archive layers is never recognised: what is in them is only known once unpacked. Reads
 * every byte when names and sizes agree. FALSE with an error only when reading failed. */
gboolean directory_holds_artifact (Ctx *ctx, const char *directory, const Artifact *artifact,
                                   const TransferEvents *events, gboolean *out_holds, GError **error);
