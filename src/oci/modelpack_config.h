/* Field tables of the ModelPack config (formats-oci-modelpack.md 1.1), shared by its reader and its writer.
 * Private to oci/. Keys ascend, so what is written is sorted. */
#pragma once

#include "oci/modelpack.h"

extern const JsonField modelpack_descriptor_fields[];
extern const gsize modelpack_n_descriptor_fields;
extern const JsonField modelpack_capability_fields[];
extern const gsize modelpack_n_capability_fields;
/* `architecture` alone, then what comes after `capabilities`. */
extern const JsonField modelpack_config_fields[];
extern const gsize modelpack_n_config_fields;

/* {"config":…,"descriptor":…,"modelfs":…} of raw layers with these digests, in this order. */
GBytes *modelpack_write_config (const ModelpackFacts *facts, const Digest *diff_ids, gsize n_diff_ids);
